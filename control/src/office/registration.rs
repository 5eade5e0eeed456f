//! Registration numbers: verification, watch lists, and the audit log of both (specification, `/v1/registration`;
//! readings B36-B39).

use std::sync::Arc;

use api::Code;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use docs_module::audit::Members;
use docs_module::csv::Table;
use docs_module::document::DISCLAIMER;
use docs_module::limit::Limit;
use docs_module::registration::{Checked, normalized};
use docs_module::request::{self, Fault, Published, Refused};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use time::Date;

use super::Office;
use super::answers::file;
use super::audit_log::{Batch, Days, ENTRIES, ENTRIES_MAX, Place, Reading, Trail, Wanted};
use super::body::{Body, refusal};
use super::charge::{CHARGED, OfficeOperation};
use super::query::Query;
use crate::caller::Caller;
use crate::resource::Payer;
use crate::web::edge::Deadline;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::openapi::BODY;

/// Header of a CSV answer: `true` if the whole log is unchanged. The header after this one is the number of the first
/// broken line.
const X_CHAIN_VALID: HeaderName = HeaderName::from_static("x-chain-valid");
const X_BROKEN_AT: HeaderName = HeaderName::from_static("x-broken-at");
/// Headers of a CSV answer with the places of the next and the previous page.
const X_NEXT_AFTER_SEQ: HeaderName = HeaderName::from_static("x-next-after-seq");
const X_PREVIOUS_BEFORE_SEQ: HeaderName = HeaderName::from_static("x-previous-before-seq");
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
    let looked = body.work(move |bytes, limit| {
        let order = request::verification(bytes, limit)?;
        let checked = order.checked(today, limit)?;
        let entries = logged.entries("verify", &order.published, today, checked.iter());
        Ok::<_, Refused>(Looked { answer: order.answer(&checked, today), entries, numbers: checked.len() })
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
    let looked = body.work(move |bytes, limit| {
        let order = request::watch(bytes, limit)?;
        let found = order.found(today, limit)?;
        let entries = logged.entries("monitor", &order.published, today, found.all());
        limit.check()?;
        Ok::<_, Refused>(Looked { answer: order.answer(&found, today), entries, numbers: order.numbers.len() })
    });
    office.looked(&caller, &claim, OfficeOperation::Monitor, looked.await?).await
}

/// Show this account's entries in the audit log, and check that the log is unchanged.
///
/// Without `after_seq` and `before_seq`, the latest entries are shown. `next_after_seq` and `previous_before_seq` lead
/// to the other pages. A page may have fewer entries than `limit`, even none, although more lie on other pages, because
/// the work of a request is bounded.
#[utoipa::path(
    get,
    path = "/v1/registration/audit",
    operation_id = "getRegistrationAudit",
    tag = "Back office",
    params(
        ("number" = Option<String>, Query, description = "Registration number whose entries are shown, in any spelling. Absent means all entries."),
        ("from" = Option<String>, Query, format = Date, description = "The first day of the entries, in Japan time."),
        ("to" = Option<String>, Query, format = Date, description = "The last day of the entries, in Japan time. Not before `from`."),
        ("after_seq" = Option<u64>, Query, description = "Show the first entries after this line of the log."),
        ("before_seq" = Option<u64>, Query, description = "Show the last entries before this line of the log. Not together with `after_seq`."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 10_000, description = "Number of entries on a page. Absent means 1000."),
        ("format" = Option<String>, Query, pattern = "^(json|csv)$", description = "Format of the answer: `json` (default) or `csv`."),
    ),
    responses((status = 200, description = "A page of entries, oldest first.", content(
        (api::office::AuditTrail = "application/json"), (String = "text/csv"),
    ), headers(
        ("Content-Disposition" = Option<String>, description = "`attachment` with a name for the file (RFC 6266). Absent for `json`."),
        ("X-Chain-Valid" = Option<bool>, description = "For `csv`: true if the whole log is unchanged."),
        ("X-Broken-At" = Option<u64>, description = "For `csv`: number of the first line that was changed or is missing."),
        ("X-Next-After-Seq" = Option<u64>, description = "For `csv`: `after_seq` of the next page."),
        ("X-Previous-Before-Seq" = Option<u64>, description = "For `csv`: `before_seq` of the previous page. Absent on the first page."),
    ))),
    extensions(("x-errors" = json!([Code::NotFound])))
)]
pub async fn audit(
    State(office): State<Arc<Office>>,
    Extension(deadline): Extension<Deadline>,
    caller: Caller,
    query: Query,
) -> Result<Response, ApiError> {
    let format = query.choice("format", &["json", "csv"])?;
    let wanted = wanted(&query, caller.account.as_str())?;
    let Some(log) = office.audit_log.clone() else {
        return Err(ApiError::new(Code::NotFound, "this node keeps no audit log"));
    };
    let mut reading = Reading::new(log, wanted);
    // each step takes some 10 ms and waits for a core, so other requests run between the steps of a long page
    let trail = loop {
        let step = move |_: Limit<'_>| {
            let trail = reading.step();
            (reading, trail)
        };
        let (read, trail) = office.web.offload.run_within(Payer::from(&caller), deadline, step).await?;
        if let Some(trail) = trail.map_err(unreadable)? {
            break trail;
        }
        reading = read;
    };
    let answer = move || if format == "csv" { as_csv(&trail) } else { as_json(&trail) };
    office.web.offload.run(Payer::from(&caller), answer).await?
}

/// Reads which entries are wanted.
fn wanted(query: &Query, account: &str) -> Result<Wanted, ApiError> {
    let mut faults = Vec::new();
    let mut number = |name: &'static str, most: u64, expected: &str| {
        let text = query.get(name)?;
        let number = text.parse().ok().filter(|number| *number <= most);
        if number.is_none() {
            let loc = vec![request::Place::from("query"), request::Place::from(name)];
            faults.push(Fault::new("value_error", loc, expected));
        }
        number
    };
    // the API's integers have 64 bits with a sign
    let (seq_max, expected) = (i64::MAX as u64, "should be the number of a line");
    let (after, before) = (number("after_seq", seq_max, expected), number("before_seq", seq_max, expected));
    let expected = format!("should be a whole number from 1 to {ENTRIES_MAX}");
    let limit = number("limit", ENTRIES_MAX as u64, &expected);
    if limit == Some(0) {
        faults.push(Fault::new("value_error", vec![request::Place::from("query"), "limit".into()], &expected));
    }
    if after.is_some() && before.is_some() {
        let loc = vec![request::Place::from("query"), "before_seq".into()];
        faults.push(Fault::new("value_error", loc, "should not be given together with after_seq"));
    }
    let (from, to) = (query.date("from", &mut faults), query.date("to", &mut faults));
    if from.zip(to).is_some_and(|(from, to)| to < from) {
        let loc = vec![request::Place::from("query"), "to".into()];
        faults.push(Fault::new("value_error", loc, "should not be before from"));
    }
    if !faults.is_empty() {
        return Err(refusal(faults));
    }
    let days = Days { first: from.unwrap_or(Date::MIN), last: to.unwrap_or(Date::MAX) };
    Ok(Wanted {
        account: account.to_owned(),
        number: query.get("number").filter(|number| !number.is_empty()).map(normalized),
        days: from.or(to).map(|_| days),
        place: after.map_or(Place::Before(before.unwrap_or(u64::MAX)), Place::After),
        limit: limit.map_or(ENTRIES, |limit| limit as usize),
    })
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
        let Looked { mut answer, entries, numbers } = looked;
        let mut head = None;
        if let Some(log) = self.audit_log.clone() {
            head = tokio::task::spawn_blocking(move || log.append(entries)).await?.map_err(unreadable)?;
        }
        answer["audit"] = head.map_or(Value::Null, |head| json!({"seq": head.seq, "hash": head.hash}));
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

fn unreadable(error: std::io::Error) -> ApiError {
    tracing::error!(%error, "the audit log failed");
    ApiError::unavailable("audit_log", "the audit log cannot be read or written")
}

/// The answer, whose entries are lines of the log as they are.
#[derive(Serialize)]
struct Answer<'a> {
    entries: Vec<&'a RawValue>,
    entries_total: u64,
    next_after_seq: u64,
    previous_before_seq: Option<u64>,
    chain_valid: bool,
    broken_at: Option<u64>,
    head: Value,
    disclaimer: &'static str,
}

fn as_json(trail: &Trail) -> Result<Response, ApiError> {
    let entries: Result<Vec<&RawValue>, _> = trail.entries.iter().map(|line| serde_json::from_str(line)).collect();
    let answer = Answer {
        entries: entries.map_err(ApiError::internal)?,
        entries_total: trail.entries_total,
        next_after_seq: trail.lines.1,
        previous_before_seq: previous_before_seq(trail),
        chain_valid: trail.broken_at.is_none(),
        broken_at: trail.broken_at,
        head: json!({"seq": trail.head.seq, "hash": trail.head.hash}),
        disclaimer: DISCLAIMER,
    };
    Ok(Json(answer).into_response())
}

/// `before_seq` of the page before this one. `None`: no lines are before it.
fn previous_before_seq(trail: &Trail) -> Option<u64> {
    (trail.lines.0 > 0).then_some(trail.lines.0 + 1)
}

fn as_csv(trail: &Trail) -> Result<Response, ApiError> {
    let mut table = Table::new(&COLUMNS);
    for line in &trail.entries {
        let entry: Members = serde_json::from_str(line).map_err(ApiError::internal)?;
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
    headers.insert(X_NEXT_AFTER_SEQ, trail.lines.1.into());
    let places = [(X_BROKEN_AT, trail.broken_at), (X_PREVIOUS_BEFORE_SEQ, previous_before_seq(trail))];
    headers.extend(places.into_iter().filter_map(|(name, seq)| Some((name, HeaderValue::from(seq?)))));
    Ok(response)
}
