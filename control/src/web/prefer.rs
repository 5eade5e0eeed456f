//! `Prefer: respond-async` (RFC 7240): the client does not wait for long work to end.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

const PREFER: HeaderName = HeaderName::from_static("prefer");
const RESPOND_ASYNC: &str = "respond-async";
/// Header that confirms the client's preference.
pub const PREFERENCE_APPLIED: (HeaderName, HeaderValue) =
    (HeaderName::from_static("preference-applied"), HeaderValue::from_static(RESPOND_ASYNC));

/// Whether the client asks for the answer before the work has ended.
pub fn client_does_not_wait(headers: &HeaderMap) -> bool {
    let values = headers.get_all(PREFER).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|preference| {
        let name = preference.split(';').next().unwrap_or_default().trim();
        name.eq_ignore_ascii_case(RESPOND_ASYNC)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_prefers_not_to_wait_says_so_in_one_of_its_preferences() {
        for (prefer, expected) in [
            (&["respond-async"][..], true),
            (&["Respond-Async; x=1, wait=10"], true),
            (&["wait=10", "handling=lenient, respond-async"], true),
            (&["respond-asynchronously"], false),
            (&["wait=10"], false),
            (&[], false),
        ] {
            let mut headers = HeaderMap::new();
            for value in prefer {
                headers.append(PREFER, value.parse().unwrap());
            }
            assert_eq!(client_does_not_wait(&headers), expected, "{prefer:?}");
        }
    }
}
