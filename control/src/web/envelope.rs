//! Writes the error object in the form of the area: the platform's (readings E4), or under `/v1` the back office's,
//! which has the form of FastAPI's errors (E6, E7).

use api::{Code, Detail, ErrorBody, ErrorEnvelope, RequestId};
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::web::error::{ApiError, RequestPart};

/// The two areas of the interface, each with its own conventions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// `/api/v1` and the pages around it.
    Platform,
    /// `/v1`.
    Office,
}

impl Area {
    /// Returns the area to which a path belongs, whether a route has this path or not.
    pub fn of(path: &str) -> Area {
        if path == "/v1" || path.starts_with("/v1/") { Area::Office } else { Area::Platform }
    }
}

/// Writes an error's status, headers and body.
pub fn write(error: &ApiError, area: Area, id: &RequestId, base_url: &str) -> Response {
    let code = error.code.as_str();
    let status = status(error.code, area);
    let body = ErrorBody {
        code: code.to_owned(),
        message: error.message.clone(),
        request_id: id.as_str().to_owned(),
        documentation_url: format!("{base_url}/docs/errors/{code}"),
        details: error.details.clone(),
    };
    match (area, status) {
        (Area::Platform, _) => (status, Json(ErrorEnvelope { error: body })).into_response(),
        (Area::Office, StatusCode::UNPROCESSABLE_ENTITY) => (status, Json(faults(error))).into_response(),
        (Area::Office, _) => (status, Json(json!({"detail": error.message, "error": body}))).into_response(),
    }
}

/// Returns the status of a code. Under `/v1` wrong values are 422 like wrong shapes (readings E7); only wrong
/// signatures are 400.
pub fn status(code: Code, area: Area) -> StatusCode {
    let status = match (area, code) {
        (Area::Office, code) if code.status() == 400 && code != Code::InvalidSignature => 422,
        _ => code.status(),
    };
    StatusCode::from_u16(status).expect("the table holds valid statuses")
}

/// Makes the body `{detail: [{loc, msg, type}]}`, with one entry for each fault, or one entry for the error if the
/// error names no member.
fn faults(error: &ApiError) -> Value {
    if !error.faults.is_empty() {
        return json!({"detail": error.faults});
    }
    let whole = [Detail { field: String::new(), issue: error.message.clone() }];
    let details = if error.details.is_empty() { &whole[..] } else { &error.details };
    let fault = |detail: &Detail| json!({"loc": location(error.place, &detail.field), "msg": detail.issue, "type": kind(&detail.issue)});
    json!({"detail": details.iter().map(fault).collect::<Vec<_>>()})
}

/// Writes a member's path as FastAPI does: `gates[3].b` of the body is `["body", "gates", 3, "b"]`.
fn location(place: RequestPart, field: &str) -> Vec<Value> {
    let parts = field.split(['.', '[']).map(|part| part.trim_end_matches(']')).filter(|part| !part.is_empty());
    let part = |part: &str| part.parse::<u64>().map_or_else(|_| json!(part), |index| json!(index));
    std::iter::once(json!(place.as_str())).chain(parts.map(part)).collect()
}

/// Returns the pydantic name for the kind of a fault, found from this service's text for the fault.
fn kind(issue: &str) -> &'static str {
    match issue {
        "required" => "missing",
        "not JSON" => "json_invalid",
        "expected a string" => "string_type",
        "expected a boolean" => "bool_type",
        "expected a sequence" => "list_type",
        "expected an object" | "expected a map" => "dict_type",
        "expected i64" | "expected u64" | "expected u32" => "int_type",
        "expected f64" => "float_type",
        _ => "value_error",
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    async fn written(error: ApiError, path: &str) -> (u16, Value) {
        let response = write(&error, Area::of(path), &RequestId::from_bits(1), "http://node");
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 10_000).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn e6_one_error_has_two_forms() {
        let error = || ApiError::new(Code::InsufficientRole, "no");
        let body = json!({
            "code": "INSUFFICIENT_ROLE",
            "message": "no",
            "request_id": RequestId::from_bits(1).as_str(),
            "documentation_url": "http://node/docs/errors/INSUFFICIENT_ROLE",
        });
        for path in ["/api/v1/models", "/", "/v1x", "/api/v1"] {
            assert_eq!(written(error(), path).await, (403, json!({"error": body})), "{path}");
        }
        for path in ["/v1", "/v1/", "/v1/me"] {
            assert_eq!(written(error(), path).await, (403, json!({"detail": "no", "error": body})), "{path}");
        }
    }

    #[tokio::test]
    async fn e6_e7_faults_of_a_request_are_fastapi_s_422_under_v1() {
        let error = ApiError::new(Code::ValidationError, "m")
            .at("items[3].amount", "required")
            .at("name", "expected a string")
            .at("", "expected an object");
        let detail = json!([
            {"loc": ["body", "items", 3, "amount"], "msg": "required", "type": "missing"},
            {"loc": ["body", "name"], "msg": "expected a string", "type": "string_type"},
            {"loc": ["body"], "msg": "expected an object", "type": "dict_type"},
        ]);
        assert_eq!(written(error, "/v1/me").await, (422, json!({"detail": detail})));
        // a member of the query whose value is out of range, then errors that name no member
        let error = ApiError::new(Code::InvalidRequest, "m").at("limit", "not in 1 to 100").in_query();
        let detail = json!([{"loc": ["query", "limit"], "msg": "not in 1 to 100", "type": "value_error"}]);
        assert_eq!(written(error, "/v1/invoices").await, (422, json!({"detail": detail})));
        let error = ApiError::new(Code::InvalidParams, "words");
        let detail = json!([{"loc": ["body"], "msg": "words", "type": "value_error"}]);
        assert_eq!(written(error, "/v1/me").await, (422, json!({"detail": detail})));
        let error = crate::web::json::parse::<Value>(b"{").unwrap_err();
        assert_eq!(written(error, "/v1/me").await.1["detail"][0]["type"], "json_invalid");
        // a wrong signature stays 400 under `/v1`
        assert_eq!(written(ApiError::new(Code::InvalidSignature, "m"), "/v1/ingest/x").await.0, 400);
    }
}
