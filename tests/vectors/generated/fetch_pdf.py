"""Documents through a generated client: fetch_pdf.py FOLDER URL API_KEY.

FOLDER holds the client that openapi-generator made of the node's description, with the package name `generated`. Makes
a PDF, stores one, fetches both, and compares the stored one with the bytes that a plain request gets. Exits with an error
if a file is not given as bytes.
"""

import sys
import urllib.request

folder, url, key = sys.argv[1:]
sys.path.insert(0, folder)

import generated  # noqa: E402

ISSUER = {"issuer": "株式会社あんご", "registration_number": "T7000012050002"}
CHARGE = {
    "id": "ch_1", "object": "charge", "paid": True, "captured": True, "status": "succeeded", "currency": "jpy",
    "amount": 11000, "created": 1764514800, "billing_details": {"name": "𠮷田太郎"},
}


def main():
    office = generated.BackOfficeApi(generated.ApiClient(generated.Configuration(host=url, access_token=key)))
    line = {"name": "開発支援", "unit_price": 100000, "tax_rate": 10}
    order = generated.InvoiceIn.from_dict({**ISSUER, "recipient": "株式会社みらい", "invoice_number": "請求/1", "items": [line]})
    made = office.create_invoice_with_http_info(order)
    check(made.data)
    headers = {name.lower(): value for name, value in made.headers.items()}
    assert (headers["x-invoice-number"], headers["x-document-total"]) == ("%E8%AB%8B%E6%B1%82%2F1", "110000"), headers

    profile = office.set_profile(generated.ProfileIn.from_dict({**ISSUER, "document_type": "receipt"}))
    event = {"id": "evt_1", "type": "charge.succeeded", "data": {"object": CHARGE}}
    token = profile.ingest_url.get_secret_value().rsplit("/", 1)[1]
    told = office.ingest_payment_event(token, generated.PaymentEvent.from_dict(event))
    stored = office.get_stored_invoice(told.invoice_id)
    check(stored)
    plain = urllib.request.Request(f"{url}/v1/invoices/stored/{told.invoice_id}", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(plain) as answer:
        assert answer.read() == stored, "the generated client changes the bytes of a PDF"

    print("the generated client fetches the bytes of the PDF:", len(stored))


def check(pdf):
    assert isinstance(pdf, (bytes, bytearray)), type(pdf)
    assert pdf.startswith(b"%PDF-") and pdf.rstrip().endswith(b"%%EOF"), pdf[:20]


main()
