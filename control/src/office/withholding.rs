//! Records of a year's payments to payees, for withholding tax (specification, `/v1/withholding-records`; readings
//! B28b, B31-B33).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use docs_module::document::Warning;
use docs_module::limit::Limit;
use docs_module::request::{self, Given, RecordsOrder, Refused};
use time::Date;

use super::Office;
use super::answers::{Csv, Pdf, file, warn};
use super::body::Body;
use super::charge::{CHARGED, OfficeOperation};
use super::query::Query;
use crate::caller::Caller;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::openapi::BODY;

/// Formats of the records; the first is the default.
const FORMATS: [&str; 4] = ["json", "csv", "pdf", "etax_csv"];

/// Largest number of warnings in headers, because proxies bound the size of headers.
const WARNINGS_MAX: usize = 20;

/// Reads a body into records.
type Read = fn(&[u8], &Given<'_>) -> Result<RecordsOrder, Refused>;

/// Make the payment records of a year, from payments to payees.
#[utoipa::path(
    post,
    path = "/v1/withholding-records",
    operation_id = "createWithholdingRecords",
    tag = "Back office",
    params(("format" = Option<String>, Query, pattern = "^(json|csv|pdf|etax_csv)$", description = "Format of the records: `json` (default), `csv`, `pdf`, or `etax_csv` (form 309).")),
    request_body = api::office::WithholdingRecordsIn,
    responses((status = 200, description = "The records.", content(
        (api::office::WithholdingRecords = "application/json"), (inline(Csv) = "text/csv"), (inline(Pdf) = "application/pdf"),
    ), headers(
        ("Content-Disposition" = Option<String>, description = "`attachment` with a name for the file (RFC 6266). Absent for `json`."),
        ("X-Document-Warning" = Option<String>, description = "A warning to the payer, in English and ASCII. Each warning has its own header. At most 20, then their number. Absent for `json`, whose `warnings` have all."),
    ))),
    extensions(("x-errors" = json!([CHARGED, BODY])))
)]
pub async fn create(
    State(office): State<Arc<Office>>,
    caller: Caller,
    claim: Claim,
    query: Query,
    body: Body,
) -> Result<Response, ApiError> {
    office.records(&caller, &claim, &query, body, request::records).await
}

/// Make the payment records of a year, from transfers to the connected accounts of a payment platform.
#[utoipa::path(
    post,
    path = "/v1/withholding-records/from_transfers",
    operation_id = "createWithholdingRecordsFromTransfers",
    tag = "Back office",
    params(("format" = Option<String>, Query, pattern = "^(json|csv|pdf|etax_csv)$", description = "Format of the records, as for `POST /v1/withholding-records`.")),
    request_body = api::office::TransfersWithholdingIn,
    responses((status = 200, description = "The records.", content(
        (api::office::WithholdingRecords = "application/json"), (inline(Csv) = "text/csv"), (inline(Pdf) = "application/pdf"),
    ), headers(
        ("Content-Disposition" = Option<String>, description = "`attachment` with a name for the file (RFC 6266). Absent for `json`."),
        ("X-Document-Warning" = Option<String>, description = "A warning to the payer, in English and ASCII. Each warning has its own header. At most 20, then their number. Absent for `json`, whose `warnings` have all."),
    ))),
    extensions(("x-errors" = json!([CHARGED, BODY])))
)]
pub async fn create_from_transfers(
    State(office): State<Arc<Office>>,
    caller: Caller,
    claim: Claim,
    query: Query,
    body: Body,
) -> Result<Response, ApiError> {
    office.records(&caller, &claim, &query, body, request::records_of_transfers).await
}

impl Office {
    async fn records(
        &self,
        caller: &Caller,
        claim: &Claim,
        query: &Query,
        body: Body,
        read: Read,
    ) -> Result<Response, ApiError> {
        let format = query.choice("format", &FORMATS)?;
        let today = self.today();
        let made = body.work(move |bytes, limit| {
            let order = read(bytes, &Given { limit, ..Given::on(today) })?;
            Ok::<_, Refused>((order.yearly.payees.len(), answer(&order, format, today, limit)?))
        });
        let (payees, answer) = made.await?;
        self.charged(caller, claim, OfficeOperation::Withholding, payees, answer).await
    }
}

/// Makes an answer with the records in this format. The warnings of an answer that is a file are in headers.
fn answer(order: &RecordsOrder, format: &str, today: Date, limit: Limit<'_>) -> Result<Response, Refused> {
    let yearly = &order.yearly;
    let name = |extension: &str| format!("withholding-{}.{extension}", yearly.year);
    let (mut response, further) = match format {
        "csv" => (file("text/csv; charset=utf-8", &name("csv"), yearly.csv().into_bytes()), Vec::new()),
        "etax_csv" => {
            let (text, warnings) = order.etax()?;
            (file("text/csv; charset=Shift_JIS", &format!("309-{}.csv", yearly.year), text), warnings)
        }
        "pdf" => {
            let (bytes, missing) = yearly.pdf(order.theme.colour, today, limit)?;
            let warning = (!missing.is_empty())
                .then(|| Warning::MissingCharacters(vec![("payees".to_owned(), missing)]).to_string());
            (file("application/pdf", &name("pdf"), bytes), warning.into_iter().collect())
        }
        _ => return Ok(Json(yearly.json()).into_response()),
    };
    warn(&mut response, &first(further.into_iter().chain(yearly.warnings.iter().cloned())));
    Ok(response)
}

/// Returns the first warnings, and says how many more there are.
fn first(warnings: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = warnings.collect();
    let more = all.len().saturating_sub(WARNINGS_MAX);
    if more > 0 {
        all.truncate(WARNINGS_MAX);
        all.push(format!("{more} more warnings are in the format json"));
    }
    all
}
