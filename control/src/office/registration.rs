//! Registration numbers: verification, watch lists, and the audit log of both (specification, `/v1/registration`;
//! readings B36-B39).

use std::sync::Arc;

use api::Code;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use docs_module::audit::Members;
use docs_module::csv::Table;
use docs_module::document::DISCLAIMER;
use docs_module::registration::{Checked, RegistrationNumber};
use docs_module::request::{self, Published};
use serde_json::{Value, json};
use time::Date;

use super::Office;
use super::answers::file;
use super::audit_log::{Batch, Trail};
use super::body::Body;
use super::charge::{CHARGED, OfficeOperation};
use super::query::Query;
use crate::caller::Caller;
use crate::resource::Payer;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::openapi::BODY;

/// Header of a CSV answer: `true` if the whole log is unchanged. The header after this one is the number of the first
/// broken line.
const X_CHAIN_VALID: HeaderName = HeaderName::from_static("x-chain-valid");
const X_BROKEN_AT: HeaderName = HeaderName::from_static("x-broken-at");
/// The members of an entry that are the columns of the CSV.
const COLUMNS: [&str; 10] =
    ["seq", "at", "op", "number", "status", "as_of", "source", "records_sha256", "prev", "hash"];

/// The result of a request: its answer, its entries for the log, and how many registration numbers it looked up.
struct Looked {
    answer: Value,
    entries: Vec<Members>,
    numbers: usize,
}

/// Verify registration numbers.
///
/// If the request has published records, the numbers are checked against them. Otherwise only their form and check
/// digit are checked.
#[utoipa::path(
    post,
    path = "/v1/registration/verify",
    operation_id = "verifyRegistrations",
    tag = "Back office",
    request_body = api::office::RegistrationVerifyIn,
    responses((status = 200, description = "The status of each number.", body = api::office::RegistrationResults)),
    extensions(("x-errors" = json!([CHARGED, BODY])))
)]
pub async fn verify(
    State(office): State<Arc<Office>>,
    caller: Caller,
    claim: Claim,
    body: Body,
) -> Result<Response, ApiError> {
    let (today, logged) = (office.today(), office.logged(&caller));
    let looked = body.work(move |bytes| {
        let order = request::verification(bytes)?;
        let checked = order.checked(today);
        let entries = logged.entries("verify", &order.published, today, checked.iter());
        Ok(Looked { answer: order.answer(&checked, today), entries, numbers: checked.len() })
    });
    office.looked(&caller, &claim, OfficeOperation::Verify, looked.await?).await
}

/// Find the numbers of a watch list that the published records show as revoked or lapsed.
#[utoipa::path(
    post,
    path = "/v1/registration/monitor",
    operation_id = "monitorRegistrations",
    tag = "Back office",
    request_body = api::office::RegistrationMonitorIn,
    responses((status = 200, description = "The numbers with an alert, and the other numbers.", body = api::office::MonitorResult)),
    extensions(("x-errors" = json!([CHARGED, BODY])))
)]
pub async fn monitor(
    State(office): State<Arc<Office>>,
    caller: Caller,
    claim: Claim,
    body: Body,
) -> Result<Response, ApiError> {
    let (today, logged) = (office.today(), office.logged(&caller));
    let looked = body.work(move |bytes| {
        let order = request::watch(bytes)?;
        let found = order.found(today);
        let all = found.alerts.iter().chain(&found.ok).chain(&found.not_found);
        let entries = logged.entries("monitor", &order.published, today, all);
        Ok(Looked { answer: order.answer(&found, today), entries, numbers: order.numbers.len() })
    });
    office.looked(&caller, &claim, OfficeOperation::Monitor, looked.await?).await
}

/// Show this account's entries in the audit log, and check that the log is unchanged.
#[utoipa::path(
    get,
    path = "/v1/registration/audit",
    operation_id = "getRegistrationAudit",
    tag = "Back office",
    params(
        ("number" = Option<String>, Query, description = "Registration number whose entries are shown. Absent means all entries."),
        ("format" = Option<String>, Query, pattern = "^(json|csv)$", description = "Format of the answer: `json` (default) or `csv`."),
    ),
    responses((status = 200, description = "The latest 10000 entries.", content(
        (api::office::AuditTrail = "application/json"), (String = "text/csv"),
    ), headers(
        ("Content-Disposition" = Option<String>, description = "`attachment` with a name for the file (RFC 6266). Absent for `json`."),
        ("X-Chain-Valid" = Option<bool>, description = "For `csv`: true if the whole log is unchanged."),
        ("X-Broken-At" = Option<u64>, description = "For `csv`: number of the first line that was changed or is missing."),
    ))),
    extensions(("x-errors" = json!([Code::NotFound])))
)]
pub async fn audit(State(office): State<Arc<Office>>, caller: Caller, query: Query) -> Result<Response, ApiError> {
    let format = query.choice("format", &["json", "csv"])?;
    let Some(log) = office.audit_log.clone() else {
        return Err(ApiError::new(Code::NotFound, "this node keeps no audit log"));
    };
    let number = query.get("number").filter(|number| !number.is_empty()).map(normalized);
    let account = caller.account.as_str().to_owned();
    let work = move || log.trail(&account, number.as_deref());
    let trail = office.web.offload.run(Payer::from(&caller), work).await?.map_err(unreadable)?;
    Ok(if format == "csv" { as_csv(&trail) } else { as_json(&trail) })
}

impl Office {
    /// Returns the members that all log entries of a caller's request share, and whether the log is on.
    fn logged(&self, caller: &Caller) -> Logged {
        let is_on = self.audit_log.is_some();
        Logged { is_on, at: self.clock.now().rfc3339(), account: caller.account.as_str().to_owned() }
    }

    /// Logs the results, then charges the request, then answers it. So everything that was charged is in the log.
    async fn looked(
        &self,
        caller: &Caller,
        claim: &Claim,
        operation: OfficeOperation,
        looked: Looked,
    ) -> Result<Response, ApiError> {
        let Looked { answer, entries, numbers } = looked;
        if let Some(log) = self.audit_log.clone() {
            tokio::task::spawn_blocking(move || log.append(entries)).await?.map_err(unreadable)?;
        }
        self.charged(caller, claim, operation, numbers, Json(answer).into_response()).await
    }
}

/// The members that all log entries of a request share, and whether the log is on.
struct Logged {
    is_on: bool,
    at: String,
    account: String,
}

impl Logged {
    fn entries<'a>(
        &self,
        operation: &'static str,
        published: &Published,
        today: Date,
        checked: impl Iterator<Item = &'a Checked<'a>>,
    ) -> Vec<Members> {
        if !self.is_on {
            return Vec::new();
        }
        let batch = Batch {
            at: self.at.clone(),
            account: &self.account,
            operation,
            as_of: published.as_of.unwrap_or(today).to_string(),
            source: published.source.as_deref(),
            records_sha256: published.sha256.as_deref(),
        };
        checked.map(|checked| batch.entry(&checked.normalized, checked.finding.name())).collect()
    }
}

/// Converts a number to the normal form of the log. A text that is not a registration number stays as it is.
fn normalized(number: &str) -> String {
    RegistrationNumber::read(number).map_or_else(|_| number.to_owned(), |number| number.to_string())
}

fn unreadable(error: std::io::Error) -> ApiError {
    tracing::error!(%error, "the audit log failed");
    ApiError::unavailable("audit_log", "the audit log cannot be read or written")
}

fn as_json(trail: &Trail) -> Response {
    let Trail { entries, entries_total, broken_at, head } = trail;
    Json(json!({
        "entries": entries,
        "entries_total": entries_total,
        "chain_valid": broken_at.is_none(),
        "broken_at": broken_at,
        "head": {"seq": head.seq, "hash": head.hash},
        "disclaimer": DISCLAIMER,
    }))
    .into_response()
}

fn as_csv(trail: &Trail) -> Response {
    let mut table = Table::new(&COLUMNS);
    for entry in &trail.entries {
        let cell = |name: &&str| match entry.get(*name) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        let cells: Vec<String> = COLUMNS.iter().map(cell).collect();
        table.row(cells.iter().map(String::as_str));
    }
    let mut response = file("text/csv; charset=utf-8", "registration-audit.csv", table.finish().into_bytes());
    let headers = response.headers_mut();
    headers.insert(X_CHAIN_VALID, HeaderValue::from_static(if trail.broken_at.is_none() { "true" } else { "false" }));
    if let Some(broken_at) = trail.broken_at {
        headers.insert(X_BROKEN_AT, broken_at.into());
    }
    response
}
