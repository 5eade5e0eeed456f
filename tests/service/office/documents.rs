//! Documents on request (readings B21-B30, B42, B43). Tests of `docs-module` check what the documents contain.

use serde_json::json;
use tests_service::TestServer;
use tests_service::http::Request;

use crate::shop::*;

#[tokio::test]
async fn b21_a_document_is_a_pdf_or_html_or_xml() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let mut body = invoice();
    body["invoice_number"] = json!("請求-1");
    body["issuer_address"] = json!("〒100-8978\n東京都千代田区霞が関3-1-1");
    body["recipient_number"] = json!("1180301018771");
    let pdf = shop.post(INVOICES, &body).await;
    assert_eq!((pdf.status, pdf.header("content-type")), (200, Some("application/pdf")));
    assert!(pdf.body.starts_with(b"%PDF-"));
    let disposition = pdf.header("content-disposition").unwrap();
    assert!(disposition.contains("filename*=UTF-8''invoice-%E8%AB%8B%E6%B1%82-1.pdf"), "{disposition}");
    assert_eq!(pdf.header("x-invoice-number"), Some("%E8%AB%8B%E6%B1%82-1"));
    assert_eq!(pdf.header("x-document-total"), Some("11000"));
    assert_eq!((pdf.header("x-service-stage"), pdf.header("x-document-warning")), (Some("beta"), None));
    let html = shop.post(&format!("{INVOICES}?format=html"), &body).await;
    assert_eq!(html.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(html.text().contains("11,000") && html.text().contains("T7000012050002"));
    // B8: a page of a document runs no script and loads nothing
    let policy = html.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; ") && policy.contains("img-src data:"), "{policy}");
    let xml = shop.post(&format!("{INVOICES}?format=xml"), &body).await;
    assert!(xml.text().contains("urn:peppol:pint:billing-1@jp-1"), "{}", xml.text());
    // receipts have no JP PINT form, and other formats are unknown
    body["document_type"] = json!("receipt");
    for format in ["xml", "docx", ""] {
        let refused = shop.post(&format!("{INVOICES}?format={format}"), &body).await;
        assert_eq!(faults(&refused), [("string_pattern_mismatch".to_owned(), "query.format".to_owned())], "{format}");
    }
    assert_eq!(shop.spent().await, 30);
    audited(&server).await;
}

#[tokio::test]
async fn a12_jp_pint_names_the_members_that_it_lacks() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let mut body = invoice();
    (body["recipient"], body["period"]) = (json!(""), json!("11月分"));
    let refused = shop.post(&format!("{INVOICES}?format=xml"), &body).await;
    let places: Vec<String> = faults(&refused).into_iter().map(|(_, at)| at).collect();
    assert_eq!(places, ["body.recipient", "body.recipient_number", "body.period"]);
    // the same body is a document on paper
    assert_eq!(shop.post(INVOICES, &body).await.status, 200);
    (body["recipient"], body["period"]) = (json!("株式会社みらい"), json!("令和8年11月分"));
    for number in ["T118030101877", "118030101877", "x", "T11803010187711"] {
        body["recipient_number"] = json!(number);
        assert_eq!(faults(&shop.post(INVOICES, &body).await)[0].1, "body.recipient_number", "{number}");
    }
    for number in ["T1180301018771", "Ｔ１１８０３０１０１８７７１", "1180301018771"] {
        body["recipient_number"] = json!(number);
        let xml = shop.post(&format!("{INVOICES}?format=xml"), &body).await;
        assert!(xml.text().contains("<cbc:EndDate>2026-11-30</cbc:EndDate>"), "{}", xml.text());
    }
    for (path, member, payments) in [
        ("/v1/invoices/from_payment", "payment_object", charge("1", 11_000)),
        ("/v1/invoices/from_payments", "payment_objects", json!([charge("1", 11_000), charge("2", 500)])),
    ] {
        let mut body = issuer();
        (body[member], body["document_type"]) = (payments, json!("invoice"));
        body["recipient"] = json!("株式会社みらい");
        let path = format!("{path}?format=xml");
        assert_eq!(faults(&shop.post(&path, &body).await)[0].1, "body.recipient_number");
        body["recipient_number"] = json!("1180301018771");
        assert!(shop.post(&path, &body).await.text().contains("schemeID=\"0188\""));
    }
}

/// Cases C1 and C2, and A6: only the PDF replaces characters.
#[tokio::test]
async fn a6_names_are_as_they_were_given_in_every_form_but_the_pdf() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let mut body = invoice();
    (body["recipient"], body["recipient_number"]) = (json!("𠮷野家 홍길동 😀"), json!("T1180301018771"));
    for format in ["html", "xml"] {
        let made = shop.post(&format!("{INVOICES}?format={format}"), &body).await;
        assert!(made.text().contains("𠮷野家 홍길동 😀"), "{}", made.text());
    }
    let pdf = shop.post(INVOICES, &body).await;
    assert_eq!(pdf.header("x-document-warning"), Some("characters shown as U+3013 in the PDF: U+1F600 in recipient"));
    assert!(pdf.body.len() < 100_000, "{}", pdf.body.len());
}

#[tokio::test]
async fn b22_b23_rounding_and_types_are_as_asked_for() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let mut body = invoice();
    body["items"] = json!([{"name": "a", "unit_price": 105, "tax_rate": 10}]);
    for (rounding, total) in [("floor", "115"), ("ceil", "116"), ("round", "116"), ("half_up", "116")] {
        body["rounding"] = json!(rounding);
        assert_eq!(shop.post(INVOICES, &body).await.header("x-document-total"), Some(total), "{rounding}");
    }
    for kind in ["receipt", "simplified_invoice", "delivery_note", "quote"] {
        body["document_type"] = json!(kind);
        let made = shop.post(INVOICES, &body).await;
        assert!(made.header("content-disposition").unwrap().contains(kind), "{kind}");
    }
    body["document_type"] = json!("credit_note");
    assert_eq!(faults(&shop.post(INVOICES, &body).await)[0].1, "body.original_date");
    body["original_date"] = json!("2025-10-01");
    assert_eq!(shop.post(INVOICES, &body).await.status, 200);
}

#[tokio::test]
async fn b25_b26_b27_numbers_are_made_and_doubts_are_told() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let mut body = invoice();
    body["recipient"] = json!("");
    body["registration_number"] = json!("Ｔ１ ０００ ０１２ ０５０ ００２");
    let made = shop.post(INVOICES, &body).await;
    assert_eq!(made.status, 200, "{}", String::from_utf8_lossy(&made.body));
    let number = made.header("x-invoice-number").unwrap();
    assert!(number.len() == 17 && number.starts_with("20"), "{number}");
    let warnings: Vec<&str> = made.headers("x-document-warning").collect();
    assert!(warnings.iter().any(|one| one.contains("check digit")), "{warnings:?}");
    assert!(warnings.iter().any(|one| one.contains("recipient")), "{warnings:?}");
    // the node does not check that document numbers are unique, because that is the caller's task
    body["invoice_number"] = json!("A-1");
    for _ in 0..2 {
        assert_eq!(shop.post(INVOICES, &body).await.header("x-invoice-number"), Some("A-1"));
    }
}

#[tokio::test]
async fn b28_b42_pieces_of_a_document_are_shown_and_their_faults_told() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let mut body = invoice();
    body["bank_transfer"] = json!({"bank_name": "あおば銀行", "branch_name": "本店", "account_type": "普通", "account_number": "12345",
        "account_holder": "カ）アンゴ", "note": "<手数料はご負担ください>", "swift": "not known to us"});
    body["withholding"] = json!({"category": "講演料", "basis": "tax_exclusive", "reason": {}});
    body["theme"] = json!({"brand_color": "#AA1122", "font": "not known to us"});
    let html = shop.post(&format!("{INVOICES}?format=html"), &body).await;
    assert_eq!((html.status, html.header("x-document-total")), (200, Some("11000")));
    // 1,021 yen are withheld, which is 10.21 % of 10,000 yen; markup in the caller's texts is escaped
    let expected = ["あおば銀行", "0012345", "カ）アンゴ", "&lt;手数料は", "1,021", "9,979", "#aa1122"];
    for text in expected {
        assert!(html.text().contains(text), "{text}: {}", html.text());
    }
    // C2: the document goes to the customer of the caller, who is not asked to check it
    assert!(!html.text().contains("公的な手段"));
    let pdf = shop.post(INVOICES, &body).await;
    assert_eq!((pdf.status, pdf.header("x-service-stage")), (200, Some("beta")));
    body["withholding"]["amount"] = json!(500);
    assert!(shop.post(&format!("{INVOICES}?format=html"), &body).await.text().contains("10,500"));
    // wrong types and values
    body["bank_transfer"] = json!([]);
    body["withholding"] = json!({"category": "poem", "basis": 1, "amount": -1});
    body["theme"] = json!("red");
    let refused = shop.post(INVOICES, &body).await;
    let places: Vec<String> = faults(&refused).into_iter().map(|(_, at)| at).collect();
    for place in ["bank_transfer", "withholding.category", "withholding.basis", "withholding.amount", "theme"] {
        assert!(places.contains(&format!("body.{place}")), "{place}: {places:?}");
    }
}

#[tokio::test]
async fn b43_documents_and_payments_send_no_events() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    shop.post("/api/v1/webhooks", &json!({"url": "https://example.com/"})).await.ok(201);
    let path = shop.set_profile(json!({})).await;
    shop.post(&path, &event("1", "charge.succeeded", charge("1", 1_000))).await.ok(200);
    assert_eq!(shop.post(INVOICES, &invoice()).await.status, 200);
    assert_eq!(shop.get("/api/v1/webhooks/events").await.ok(200)["items"], json!([]));
}

#[tokio::test]
async fn b29_b30_payments_become_documents() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let mut body = issuer();
    body["payment_object"] = charge("1", 11_000);
    let one = shop.post("/v1/invoices/from_payment", &body).await;
    assert_eq!((one.status, one.header("x-document-total")), (200, Some("11000")));
    assert!(one.header("content-disposition").unwrap().contains("receipt-"));
    let html = shop.post("/v1/invoices/from_payment?format=html", &body).await;
    assert!(html.text().contains("山田太郎") && html.text().contains("1,000"));
    let mut body = issuer();
    body["recipient"] = json!("株式会社みらい");
    body["payment_objects"] = json!([charge("1", 11_000), charge("2", 5_500)]);
    let many = shop.post("/v1/invoices/from_payments", &body).await;
    assert_eq!(many.header("x-document-total"), Some("16500"));
    assert!(many.header("content-disposition").unwrap().contains("invoice-"));
    // each of these is refused: the same payment twice, no payment, another currency, a failed payment, and a fully
    // refunded payment
    body["payment_objects"] = json!([charge("1", 11_000), charge("1", 11_000)]);
    assert_eq!(faults(&shop.post("/v1/invoices/from_payments", &body).await)[0].1, "body.payment_objects.1");
    body["payment_objects"] = json!([]);
    assert_eq!(faults(&shop.post("/v1/invoices/from_payments", &body).await)[0].1, "body.payment_objects");
    for (member, value) in [("currency", json!("usd")), ("status", json!("failed")), ("amount_refunded", json!(11_000))]
    {
        let mut object = charge("1", 11_000);
        object[member] = value;
        let mut body = issuer();
        body["payment_object"] = object;
        assert_eq!(shop.post("/v1/invoices/from_payment", &body).await.status, 422, "{member}");
    }
    assert_eq!(shop.spent().await, 30);
}

#[tokio::test]
async fn i1_a_repeated_request_gets_the_same_bytes_and_is_charged_once() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let request = || Request::post(INVOICES, &invoice()).key(&shop.key).header("Idempotency-Key", "k");
    let first = server.send(request()).await;
    let again = server.send(request()).await;
    assert_eq!((first.status, &first.body), (200, &again.body));
    assert_eq!(first.header("x-invoice-number"), again.header("x-invoice-number"));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(shop.spent().await, 10);
}
