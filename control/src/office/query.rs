//! Query parameters. A value that is not allowed, and a parameter that is given twice, is answered with 422
//! (specification, Behaviour rule 1; readings E3).

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use docs_module::request::{Fault, Place};
use time::Date;
use time::macros::format_description;

use super::body::refusal;
use crate::web::error::ApiError;

/// Largest number of faults of a query that are told.
const FAULTS_MAX: usize = 20;

/// The query parameters of a request, each given once. Unknown parameters are ignored.
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Returns the value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a parameter, which must be one of the allowed values. If the parameter is absent, the first
    /// allowed value counts.
    pub fn choice(&self, name: &'static str, allowed: &[&'static str]) -> Result<&'static str, ApiError> {
        let Some(value) = self.get(name) else { return Ok(allowed[0]) };
        let found = allowed.iter().copied().find(|choice| *choice == value);
        found.ok_or_else(|| refusal(vec![Fault::of_query(name, value, allowed)]))
    }
}

impl Query {
    /// Reads a parameter that is a date. A value that is no date is a fault.
    pub fn date(&self, name: &'static str, faults: &mut Vec<Fault>) -> Option<Date> {
        let text = self.get(name)?;
        let date = Date::parse(text, format_description!("[year]-[month]-[day]")).ok();
        let date = date.filter(|date| text.len() == 10 && date.year() > 0);
        if date.is_none() {
            let loc = vec![Place::from("query"), Place::from(name)];
            faults.push(Fault::new("value_error", loc, "should be a date such as 2026-01-31"));
        }
        date
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let pairs = url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        read(pairs.into_owned().collect()).map_err(refusal)
    }
}

/// Refuses a query that two readers could read differently, and values with characters that no stored text has.
fn read(pairs: Vec<(String, String)>) -> Result<Query, Vec<Fault>> {
    let mut names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let mut twice: Vec<&str> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    twice.dedup();
    let unprintable = pairs.iter().filter(|(_, value)| value.contains(char::is_control)).map(|(name, _)| name.as_str());
    let faults = twice.iter().map(|name| Fault::in_query(name, "appears twice"));
    let faults = faults.chain(unprintable.map(|name| Fault::in_query(name, "should not hold control characters")));
    let faults: Vec<Fault> = faults.take(FAULTS_MAX).collect();
    if faults.is_empty() { Ok(Query(pairs)) } else { Err(faults) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(query: &str) -> Vec<String> {
        let pairs = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        read(pairs).err().unwrap_or_default().into_iter().map(|fault| fault.msg).collect()
    }

    #[test]
    fn c3_a_parameter_given_twice_is_a_fault() {
        assert_eq!(faults("format=pdf&format=pdf&f%6frmat=html&x=1&X=2&y="), ["format appears twice"]);
        assert_eq!(faults("a=1&b=1&a=2&b=2&=&="), ["'' appears twice", "a appears twice", "b appears twice"]);
        assert_eq!(faults("format=pdf&&&from=2025-12-01"), [""; 0]);
        assert_eq!(faults(&"a=&".repeat(20_000)), ["a appears twice"]);
        assert_eq!(faults(&(0..5_000).map(|n| format!("{n}&{n}&")).collect::<String>()).len(), FAULTS_MAX);
    }

    #[test]
    fn c5_a_value_with_a_control_character_is_a_fault() {
        for hidden in ["%00", "%0A", "%0d", "%09", "%7F", "%C2%85"] {
            let faults = faults(&format!("format=pdf&recipient=a{hidden}b"));
            assert_eq!(faults, ["recipient should not hold control characters"], "{hidden}");
        }
        assert_eq!(faults("recipient=%F0%A0%AE%B7%20%252500&x=+"), [""; 0]);
    }
}
