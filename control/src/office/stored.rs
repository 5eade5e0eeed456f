//! Stored documents and their corrections (specification, `/v1/invoices/stored`; readings B40). The Electronic Books
//! Preservation Act asks for a search by day, amount and counterparty together.

use std::sync::Arc;

use api::Code;
use api::office::{StoredInvoice, StoredInvoicePage};
use api::pages::Page;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use docs_module::reconcile::{NameKind, key};
use docs_module::request::{self, Fault, Given, Place, Refused};
use store::{DocumentFilter, DocumentState, OfficeCharged, StoredDocument, UnissuedDocument, UnissuedFilter};

use super::Office;
use super::answers::{KeptDocumentAnswer, describe, file};
use super::body::{Body, refusal};
use super::charge::{CHARGED, OfficeOperation, PayingKey};
use super::corrections::{check_credit, issuer_of};
use super::documents::new_number;
use super::query::Query;
use crate::caller::Caller;
use crate::clock::Timestamp;
use crate::ids;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::openapi::BODY;
use crate::web::pagination::{PageQuery, Position};
use crate::web::path::PathParts;

/// Values of `status`; the first is the default.
const STATUSES: [&str; 4] = ["issued", "waiting", "held", "not_issued"];

/// List the documents stored for the calling key, newest first. A document must match all filters.
#[utoipa::path(
    get,
    path = "/v1/invoices/stored",
    operation_id = "listStoredInvoices",
    tag = "Back office",
    params(
        ("from" = Option<String>, Query, format = Date, description = "The earliest transaction date."),
        ("to" = Option<String>, Query, format = Date, description = "The latest transaction date."),
        ("min" = Option<i64>, Query, description = "The lowest total in yen."),
        ("max" = Option<i64>, Query, description = "The highest total in yen."),
        ("status" = Option<String>, Query, pattern = "^(issued|waiting|held|not_issued)$", description = "`issued` (default), or payments without a document: `waiting`, `held` by a cap, `not_issued` because no document can be made. The other filters are for issued documents."),
        ("recipient" = Option<String>, Query, description = "Part of the recipient's name. Case, width and spaces do not matter."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "Number of documents on a page. Absent means 20."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page."),
    ),
    responses((status = 200, description = "A page of documents.", body = StoredInvoicePage)),
    extensions(("x-errors" = json!([])))
)]
pub async fn list(
    State(office): State<Arc<Office>>,
    caller: Caller,
    page: PageQuery,
    query: Query,
) -> Result<Json<StoredInvoicePage>, ApiError> {
    let filter = filter(&query)?;
    let lineage_id = caller.credential.lasting_id();
    let wanted = match query.choice("status", &STATUSES)? {
        "waiting" => Some(DocumentState::Waiting),
        "held" => Some(DocumentState::Held),
        "not_issued" => Some(DocumentState::NotIssued),
        _ => None,
    };
    if let Some(state) = wanted {
        let (after, rows_max) = (page.after_text()?, page.rows_wanted());
        let rows = office.store.unissued_documents_page(lineage_id, UnissuedFilter(state), after, rows_max).await?;
        let position =
            |row: &UnissuedDocument| Position { created_at: row.received_at, id: row.document_id.clone().into_bytes() };
        return Ok(Json(answer(page.page(rows, position), unissued)));
    }
    let rows = office.store.stored_documents_page(lineage_id, &filter, page.after_text()?, page.rows_wanted()).await?;
    let page = page.page(rows, |row| Position { created_at: row.created_at, id: row.document_id.clone().into_bytes() });
    Ok(Json(answer(page, told)))
}

fn answer<T>(page: Page<T>, told: impl Fn(T) -> StoredInvoice) -> StoredInvoicePage {
    StoredInvoicePage {
        items: page.items.into_iter().map(told).collect(),
        next_cursor: page.next_cursor,
        has_more: page.has_more,
        total_count: page.total_count,
    }
}

/// Download a stored document. Its bytes never change.
#[utoipa::path(
    get,
    path = "/v1/invoices/stored/{invoice_id}",
    operation_id = "getStoredInvoice",
    tag = "Back office",
    params(("invoice_id" = String, Path, description = "Id of the document, from the list of stored documents.")),
    responses(KeptDocumentAnswer),
    extensions(("x-errors" = json!([Code::NotFound])))
)]
pub async fn download(
    State(office): State<Arc<Office>>,
    caller: Caller,
    path: PathParts,
) -> Result<Response, ApiError> {
    let document = office.kept_document(&caller, path.get("invoice_id")).await?;
    let sealed = office.store.document_file(&document.document_id).await?;
    let sealed = sealed.ok_or_else(|| ApiError::internal("a stored document has no file"))?;
    let pdf = office.seals.of(&caller.account).open(&document.document_id, &sealed);
    let pdf = pdf.ok_or_else(|| ApiError::internal("a document was sealed under another secret"))?;
    let mut response = file("application/pdf", &format!("{}-{}.pdf", document.kind, document.number), pdf.to_vec());
    describe(&mut response, &document.number, document.total_yen, &[]);
    Ok(response)
}

/// Store a document that corrects a stored one. The stored document does not change (our addition). The new document is
/// a `corrected_invoice`, a `credit_note` or a new copy of the same kind, and has the registration number of the stored
/// one. Its issuer is that of the stored one or of the profile. Credit notes exceed the sale's total in no case.
#[utoipa::path(
    post,
    path = "/v1/invoices/stored/{invoice_id}/corrections",
    operation_id = "correctStoredInvoice",
    tag = "Back office",
    params(("invoice_id" = String, Path, description = "Id of the document to correct.")),
    request_body = api::office::InvoiceIn,
    responses((status = 200, description = "The new document.", body = StoredInvoice)),
    extensions(("x-errors" = json!([Code::NotFound, CHARGED, BODY])))
)]
pub async fn correct(
    State(office): State<Arc<Office>>,
    caller: Caller,
    claim: Claim,
    path: PathParts,
    body: Body,
) -> Result<Response, ApiError> {
    let original = office.kept_document(&caller, path.get("invoice_id")).await?;
    let rules = office.rules_of_correction(&original).await?;
    let now = office.clock.now();
    let (today, number, original_number) = (office.today(), new_number(now), original.number.clone());
    let made = body.work(move |bytes, limit| {
        let given = Given { number: &number, original_number: &original_number, limit, ..Given::on(today) };
        let document = request::document(bytes, &given)?;
        rules.check(&document)?;
        let pdf = document.pdf_within(limit)?;
        Ok::<_, Refused>((document, pdf))
    });
    let (document, pdf) = made.await?;
    let document_id = ids::invoice(now).as_str().to_owned();
    let issuer = issuer_of(&document, &document_id);
    let owner = (caller.account.as_str().to_owned(), caller.credential.lasting_id().to_owned());
    let stored = StoredDocument {
        original_id: original.document_id,
        transaction_date: original.transaction_date,
        ..office.record_of(&document, owner, &document_id, &pdf)
    };
    let sealed_pdf = office.seals.of(&caller.account).seal(&document_id, &pdf);
    let (answer, kept) = claim.keep(Json(told(stored.clone())).into_response()).await?;
    let charge = office.charge(&PayingKey::from(&caller), OfficeOperation::Document, 1, now);
    office
        .store
        .write(async |tx| {
            let charged: OfficeCharged = tx.charge_office(&charge).await?;
            if let Some(refused) = office.refusal(charged) {
                return Err(refused);
            }
            // the charge locks the account, so two credit notes cannot pass the check together
            check_credit(&tx.document_family(&stored.original_id).await?, &stored)?;
            tx.insert_document(&stored, &sealed_pdf).await?;
            tx.insert_document_issuer(&issuer).await?;
            Ok(tx.keep(kept.as_ref()).await?)
        })
        .await?;
    Ok(answer)
}

impl Office {
    async fn kept_document(&self, caller: &Caller, document_id: &str) -> Result<StoredDocument, ApiError> {
        let found = self.store.stored_document(caller.credential.lasting_id(), document_id).await?;
        found.ok_or_else(|| ApiError::new(Code::NotFound, "no such document is kept for this key"))
    }
}

fn filter(query: &Query) -> Result<DocumentFilter, ApiError> {
    let mut faults = Vec::new();
    let all = DocumentFilter::default();
    let mut day = |name, default| query.date(name, &mut faults).map_or(default, |date| date.to_string());
    let (from, to) = (day("from", all.from), day("to", all.to));
    let mut fault = |name: &'static str, expected: &str| {
        faults.push(Fault::new("value_error", vec![Place::from("query"), Place::from(name)], expected));
    };
    let mut yen = |name: &'static str, default: i64| match query.get(name) {
        None => default,
        Some(text) => text.parse().unwrap_or_else(|_| {
            fault(name, "should be a whole number of yen");
            default
        }),
    };
    let (min, max) = (yen("min", all.min), yen("max", all.max));
    if !faults.is_empty() {
        return Err(refusal(faults));
    }
    let recipient_key = query.get("recipient").map(|name| key(NameKind::Text, name)).unwrap_or_default();
    Ok(DocumentFilter { from, to, min, max, recipient_key })
}

fn told(document: StoredDocument) -> StoredInvoice {
    StoredInvoice {
        invoice_id: document.document_id,
        invoice_number: document.number,
        document_type: document.kind,
        recipient: document.recipient,
        total_yen: document.total_yen,
        issue_date: document.issue_date,
        transaction_date: document.transaction_date,
        payment_id: document.payment_id,
        original_invoice_id: Some(document.original_id).filter(|id| !id.is_empty()),
        delivery_status: document.delivery_status.as_str().to_owned(),
        pdf_sha256: document.pdf_sha256,
        status: "issued".to_owned(),
        reason: None,
        warnings: serde_json::from_str(&document.warnings).unwrap_or_default(),
        created_at: Timestamp(document.created_at).rfc3339(),
    }
}

fn unissued(row: UnissuedDocument) -> StoredInvoice {
    StoredInvoice {
        invoice_id: row.document_id,
        invoice_number: String::new(),
        document_type: String::new(),
        recipient: String::new(),
        total_yen: row.total_yen,
        issue_date: String::new(),
        transaction_date: String::new(),
        payment_id: row.payment_id,
        original_invoice_id: None,
        delivery_status: String::new(),
        pdf_sha256: String::new(),
        status: row.state.as_str().to_owned(),
        reason: Some(row.error).filter(|why| !why.is_empty()),
        warnings: Vec::new(),
        created_at: Timestamp(row.received_at).rfc3339(),
    }
}
