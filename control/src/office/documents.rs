//! Invoices, receipts and other documents, made on request (specification, `/v1/invoices`; readings B21-B30).

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use docs_module::document::Document;
use docs_module::limit::Limit;
use docs_module::request::{self, Given, Refused};
use time::Date;

use super::answers::{DocumentAnswer, describe, file};
use super::body::Body;
use super::charge::{CHARGED, OfficeOperation};
use super::query::Query;
use super::{Office, today};
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::ids;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::openapi::BODY;

/// Formats of a document; the first is the default. `xml` is our addition.
const FORMATS: [&str; 3] = ["pdf", "html", "xml"];

/// A document as a page runs no script, and loads nothing but the pictures in it.
const PAGE_HEADERS: [(HeaderName, HeaderValue); 2] = [
    (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
        ),
    ),
];

/// Reads a body into a document.
type Read = fn(&[u8], &Given<'_>) -> Result<Document, Refused>;

/// Make an invoice, a receipt or another document for a sale.
#[utoipa::path(
    post,
    path = "/v1/invoices",
    operation_id = "createInvoice",
    tag = "Back office",
    params(("format" = Option<String>, Query, pattern = "^(pdf|html|xml)$", description = "Format of the document: `pdf` (default), `html`, or `xml` (JP PINT; our addition).")),
    request_body = api::office::InvoiceIn,
    responses(DocumentAnswer),
    extensions(("x-errors" = json!([CHARGED, BODY])))
)]
pub async fn create(
    State(office): State<Arc<Office>>,
    caller: Caller,
    claim: Claim,
    query: Query,
    body: Body,
) -> Result<Response, ApiError> {
    office.document(&caller, &claim, &query, body, (request::document, String::new())).await
}

/// Make a document for one payment of a payment provider.
#[utoipa::path(
    post,
    path = "/v1/invoices/from_payment",
    operation_id = "createInvoiceFromPayment",
    tag = "Back office",
    params(("format" = Option<String>, Query, pattern = "^(pdf|html|xml)$", description = "Format of the document, as for `POST /v1/invoices`.")),
    request_body = api::office::PaymentImportIn,
    responses(DocumentAnswer),
    extensions(("x-errors" = json!([CHARGED, BODY])))
)]
pub async fn create_from_payment(
    State(office): State<Arc<Office>>,
    caller: Caller,
    claim: Claim,
    query: Query,
    body: Body,
) -> Result<Response, ApiError> {
    let read = (request::document_of_payment as Read, office.receipt_proviso(&caller).await?);
    office.document(&caller, &claim, &query, body, read).await
}

/// Make one invoice for many payments.
#[utoipa::path(
    post,
    path = "/v1/invoices/from_payments",
    operation_id = "createInvoiceFromPayments",
    tag = "Back office",
    params(("format" = Option<String>, Query, pattern = "^(pdf|html|xml)$", description = "Format of the document, as for `POST /v1/invoices`.")),
    request_body = api::office::PaymentsImportIn,
    responses(DocumentAnswer),
    extensions(("x-errors" = json!([CHARGED, BODY])))
)]
pub async fn create_from_payments(
    State(office): State<Arc<Office>>,
    caller: Caller,
    claim: Claim,
    query: Query,
    body: Body,
) -> Result<Response, ApiError> {
    let read = (request::document_of_payments as Read, office.receipt_proviso(&caller).await?);
    office.document(&caller, &claim, &query, body, read).await
}

impl Office {
    async fn document(
        &self,
        caller: &Caller,
        claim: &Claim,
        query: &Query,
        body: Body,
        (read, receipt_proviso): (Read, String),
    ) -> Result<Response, ApiError> {
        let format = query.choice("format", &FORMATS)?;
        let (today, number) = (self.today(), new_number(self.clock.now()));
        let answer = body.work(move |bytes, limit| {
            let receipt_proviso = receipt_proviso.as_str();
            let given = Given { number: &number, receipt_proviso, limit, ..Given::on(today) };
            let document = read(bytes, &given)?;
            answer(&document, format, limit)
        });
        let answer = answer.await?;
        self.charged(caller, claim, OfficeOperation::Document, 1, answer).await
    }
}

/// Makes an answer with the document in this format.
fn answer(document: &Document, format: &'static str, limit: Limit<'_>) -> Result<Response, Refused> {
    let draft = &document.draft;
    let name = |extension: &str| format!("{}-{}.{extension}", draft.kind.name(), draft.number);
    let mut response = match format {
        "html" => (PAGE_HEADERS, document.html()).into_response(),
        "xml" => file("application/xml; charset=utf-8", &name("xml"), request::xml(document)?.into_bytes()),
        _ => file("application/pdf", &name("pdf"), document.pdf_within(limit)?),
    };
    describe(&mut response, &draft.number, document.totals.total.gross, &document.warnings);
    Ok(response)
}

/// Makes a number for a document that has none: the day in Tokyo and 40 random bits (readings B25).
pub(super) fn new_number(now: Timestamp) -> String {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let day: Date = today(now);
    let random = ids::random::<8>().map(|byte| char::from(DIGITS[usize::from(byte % 32)]));
    let random: String = random.iter().collect();
    format!("{:04}{:02}{:02}-{random}", day.year(), u8::from(day.month()), day.day())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b25_numbers_begin_with_the_day_in_tokyo() {
        // 2025-12-31T15:00:00Z
        let number = new_number(Timestamp(1_767_193_200_000_000));
        assert!(number.starts_with("20260101-") && number.len() == 17, "{number}");
        assert_ne!(number, new_number(Timestamp(1_767_193_200_000_000)));
    }
}
