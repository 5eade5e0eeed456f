//! Reads members of a payment provider's JSON object. Each value keeps its path, so that a problem can refer to the
//! value.

use serde_json::Value;
use time::Date;

use crate::calendar::tokyo_date;
use crate::document::{Problem, Step};
use crate::rounding::YEN_MAX;

/// A value of a request with the path to it.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    pub value: &'a Value,
    pub at: Vec<Step>,
}

impl<'a> Node<'a> {
    pub fn of(value: &'a Value, at: Vec<Step>) -> Node<'a> {
        Node { value, at }
    }

    pub fn problem(&self, message: &str) -> Problem {
        Problem { at: self.at.clone(), message: message.to_owned() }
    }

    /// Returns a member; null when the member is missing.
    pub fn member(&self, name: &'static str) -> Node<'a> {
        #[cfg(test)]
        crate::asked::note(
            self.at.iter().map(|step| match step {
                Step::Field(name) => (*name).to_owned(),
                Step::Index(_) => "[]".to_owned(),
            }),
            name,
        );
        let mut at = self.at.clone();
        at.push(Step::Field(name));
        Node { value: self.value.get(name).unwrap_or(&Value::Null), at }
    }

    pub fn is_missing(&self) -> bool {
        self.value.is_null()
    }

    /// The value's text; `None` when the text is missing or empty.
    pub fn text(&self) -> Option<&'a str> {
        self.value.as_str().map(str::trim).filter(|text| !text.is_empty())
    }

    /// The items of the list. The list is this value, or the member `data` of this value.
    pub fn items(&self) -> Vec<Node<'a>> {
        let (list, steps) = match self.value.get("data") {
            Some(data) => (data, vec![Step::Field("data")]),
            None => (self.value, Vec::new()),
        };
        let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
        let item = |(at, value)| {
            let mut path = self.at.clone();
            path.extend(steps.iter().cloned().chain([Step::Index(at)]));
            Node { value, at: path }
        };
        items.iter().enumerate().map(item).collect()
    }

    /// Reads an amount in whole yen; `None` when the value is missing.
    pub fn yen(&self) -> Result<Option<i64>, Problem> {
        if self.is_missing() {
            return Ok(None);
        }
        let amount = self.value.as_i64().filter(|amount| amount.unsigned_abs() <= YEN_MAX.unsigned_abs());
        amount.map(Some).ok_or_else(|| self.problem(&format!("should be a whole number of yen of at most {YEN_MAX}")))
    }

    /// Reads the amount in yen of the first of these members that is present.
    pub fn first_yen(&self, names: &[&'static str]) -> Result<i64, Problem> {
        for name in names {
            if let Some(amount) = self.member(name).yen()? {
                return Ok(amount);
            }
        }
        Err(self.member(names[0]).problem("is required"))
    }

    /// Reads a time in seconds since 1970, and returns its date in Tokyo; `None` when the time is missing.
    pub fn day(&self) -> Result<Option<Date>, Problem> {
        if self.is_missing() {
            return Ok(None);
        }
        let day = self.value.as_i64().and_then(tokyo_date);
        day.map(Some).ok_or_else(|| self.problem("should be a time in seconds since 1970"))
    }

    pub fn check_yen(&self) -> Result<(), Problem> {
        let currency = self.member("currency");
        match currency.text() {
            Some(text) if text.eq_ignore_ascii_case("jpy") => Ok(()),
            _ => Err(currency.problem("should be jpy, because tax is stated in yen and amounts are not converted")),
        }
    }

    /// The id: the value itself if it is a text, otherwise the value's member `id`.
    pub fn id(&self) -> Option<&'a str> {
        self.text().or_else(|| self.member("id").text())
    }
}

/// Adds up amounts in yen. A sum above [`YEN_MAX`] is a problem of `node`.
pub(crate) fn sum(node: &Node<'_>, amounts: impl IntoIterator<Item = i64>) -> Result<i64, Problem> {
    let too_large = || node.problem(&format!("the sum should be at most {YEN_MAX} yen"));
    let mut sum = 0i64;
    for amount in amounts {
        sum = sum.checked_add(amount).filter(|sum| sum.abs() <= YEN_MAX).ok_or_else(too_large)?;
    }
    Ok(sum)
}
