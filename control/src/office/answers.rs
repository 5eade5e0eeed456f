//! Answers that are files, and the API description of such answers.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use docs_module::document::Warning;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{Object, Schema, Type};
use utoipa::openapi::{RefOr, response};
use utoipa::{IntoResponses, PartialSchema, ToSchema};

use crate::web::octets;

/// The number of the document.
const X_INVOICE_NUMBER: HeaderName = HeaderName::from_static("x-invoice-number");
/// The total of the document in yen, tax-inclusive.
const X_DOCUMENT_TOTAL: HeaderName = HeaderName::from_static("x-document-total");
/// A warning to the issuer of the document. Each warning has its own header.
const X_DOCUMENT_WARNING: HeaderName = HeaderName::from_static("x-document-warning");

/// The schema of a PDF.
pub struct Pdf;

impl PartialSchema for Pdf {
    fn schema() -> RefOr<Schema> {
        octets::binary("A PDF.")
    }
}

impl ToSchema for Pdf {}

/// The schema of a CSV file, described as bytes because form 309 is in Shift_JIS, which clients would read as UTF-8.
pub struct Csv;

impl PartialSchema for Csv {
    fn schema() -> RefOr<Schema> {
        octets::binary("A CSV file: `csv` in UTF-8, `etax_csv` in Shift_JIS.")
    }
}

impl ToSchema for Csv {}

/// The API description of an answer with a document in one of the formats.
pub struct DocumentAnswer;

impl IntoResponses for DocumentAnswer {
    fn responses() -> BTreeMap<String, RefOr<response::Response>> {
        let text = || ContentBuilder::new().schema(Some(String::schema())).build();
        let warning = "A warning to the issuer of the document, in English and ASCII. Each warning has its own header.";
        let answer = described_document().content("text/html", text()).content("application/xml", text()).header(
            "X-Document-Warning",
            HeaderBuilder::new().schema(Some(String::schema())).description(Some(warning)).build(),
        );
        BTreeMap::from([("200".to_owned(), answer.build().into())])
    }
}

/// The API description of an answer with a stored document.
pub struct KeptDocumentAnswer;

impl IntoResponses for KeptDocumentAnswer {
    fn responses() -> BTreeMap<String, RefOr<response::Response>> {
        BTreeMap::from([("200".to_owned(), described_document().build().into())])
    }
}

/// Makes the API description of a PDF with the headers of [`file`] and [`describe`].
fn described_document() -> ResponseBuilder {
    let number = "Number of the document, in UTF-8. Each byte except ASCII letters, digits, `-`, `.` and `_` is percent-encoded, as in `%E8%AB%8B-1`.";
    let name = "`attachment` with a name for the file, in both forms of RFC 6266: `filename` in ASCII, `filename*` in UTF-8. Absent for `html`.";
    let header =
        |of: Type, text: &str| HeaderBuilder::new().schema(Some(Object::with_type(of))).description(Some(text)).build();
    ResponseBuilder::new()
        .description("The document.")
        .content("application/pdf", ContentBuilder::new().schema(Some(Pdf::schema())).build())
        .header("Content-Disposition", header(Type::String, name))
        .header("X-Invoice-Number", header(Type::String, number))
        .header(
            "X-Document-Total",
            header(Type::Integer, "Total of the document in yen, tax-inclusive. Negative for a credit note."),
        )
}

/// Makes an answer that clients offer to save as a file of this name.
pub fn file(content_type: &'static str, name: &str, bytes: Vec<u8>) -> Response {
    let mut response = Body::from(bytes).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CONTENT_DISPOSITION, disposition(name));
    response
}

/// Adds headers with a document's number, total and warnings, so that programs need not read the file.
pub fn describe(response: &mut Response, number: &str, total_yen: i64, warnings: &[Warning]) {
    let headers = response.headers_mut();
    headers.insert(X_INVOICE_NUMBER, value(&percent_encoded(number)));
    headers.insert(X_DOCUMENT_TOTAL, total_yen.into());
    warn(response, warnings);
}

/// Adds a header for each warning. A warning is written in ASCII.
pub fn warn(response: &mut Response, warnings: &[impl Display]) {
    for warning in warnings {
        response.headers_mut().append(X_DOCUMENT_WARNING, value(&warning.to_string()));
    }
}

/// Makes the value of `Content-Disposition`, with the file's name in both forms of RFC 6266: in ASCII for every client,
/// and in UTF-8 (RFC 8187).
fn disposition(name: &str) -> HeaderValue {
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    value(&format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{}", percent_encoded(name)))
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '_')
}

/// Percent-encodes every byte of the UTF-8 text except ASCII letters, digits, `-`, `.` and `_`.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match is_plain(char::from(byte)) {
            true => encoded.push(char::from(byte)),
            false => write!(encoded, "%{byte:02X}").expect("a text takes text"),
        }
    }
    encoded
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("the text is ASCII without control characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b21_names_of_files_are_rfc_6266_whatever_the_number_is() {
        let named = |name: &str| disposition(name).to_str().unwrap().to_owned();
        assert_eq!(named("invoice-A1.pdf"), "attachment; filename=\"invoice-A1.pdf\"; filename*=UTF-8''invoice-A1.pdf");
        assert_eq!(named("a\"\r\nb"), "attachment; filename=\"a___b\"; filename*=UTF-8''a%22%0D%0Ab");
        assert_eq!(named("請.pdf"), "attachment; filename=\"_.pdf\"; filename*=UTF-8''%E8%AB%8B.pdf");
        let mut response = file("application/pdf", "x", vec![1]);
        describe(&mut response, "請求 1", -5, &[Warning::NoRecipient, Warning::Simplified]);
        assert_eq!(response.headers()["x-invoice-number"], "%E8%AB%8B%E6%B1%82%201");
        assert_eq!(response.headers()["x-document-total"], "-5");
        assert_eq!(response.headers().get_all("x-document-warning").iter().count(), 2);
    }
}
