//! Faults of a request, each with its place (specification, ValidationError).

use std::borrow::Cow;
use std::cell::{Cell, RefCell};

use serde::Serialize;
use serde_json::{Value, json};

use crate::document::{Problem, Step};
use crate::limit::{Limit, Stopped};

/// Largest number of faults in an answer. Further faults are left out.
const FAULTS_MAX: usize = 1_000;

/// A step of the path to a value: first `body` or `query`, then member names and list indexes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Place {
    /// A member name.
    Name(Cow<'static, str>),
    /// An index in a list, counted from 0.
    Index(usize),
}

/// Largest number of characters of a name from the request in a path.
const NAME_CHARACTERS_MAX: usize = 200;

impl Place {
    /// The member of this name, which comes from the request. The rest of a long name is left out.
    pub(super) fn named(name: &str) -> Place {
        Place::Name(name.chars().take(NAME_CHARACTERS_MAX).collect::<String>().into())
    }

    /// Writes the step as a text, with `[]` for any index.
    #[cfg(test)]
    pub(super) fn step(&self) -> String {
        match self {
            Place::Name(name) => name.to_string(),
            Place::Index(_) => "[]".to_owned(),
        }
    }
}

impl From<&'static str> for Place {
    fn from(name: &'static str) -> Place {
        Place::Name(Cow::Borrowed(name))
    }
}

impl From<&Step> for Place {
    fn from(step: &Step) -> Place {
        match step {
            Step::Field(name) => Place::from(*name),
            Step::Index(at) => Place::Index(*at),
        }
    }
}

/// A fault of a request. Its types and members are those of pydantic, because clients of such interfaces know them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fault {
    /// The path to the value at fault.
    pub loc: Vec<Place>,
    /// A sentence that names the field and says what is allowed.
    pub msg: String,
    /// The kind of fault: `missing`, `string_type`, `value_error` and others.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The value at fault, if the value is short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Allowed values or limits, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ctx: Option<Value>,
}

impl Fault {
    /// Makes a fault. Its message is the path to the value, followed by `expected`, such as `should be a text`.
    pub fn new(kind: &'static str, loc: Vec<Place>, expected: &str) -> Fault {
        Fault { msg: format!("{} {expected}", path(&loc)), kind, loc, input: None, ctx: None }
    }

    /// Makes a fault of a query parameter whose value is not allowed.
    pub fn of_query(name: &'static str, value: &str, allowed: &[&str]) -> Fault {
        let loc = vec![Place::from("query"), Place::from(name)];
        let expected = format!("should be one of: {}", allowed.join(", "));
        let ctx = json!({"pattern": format!("^({})$", allowed.join("|"))});
        let input = short(value).map(Value::from);
        Fault { input, ctx: Some(ctx), ..Fault::new("string_pattern_mismatch", loc, &expected) }
    }

    /// Makes a fault of a query parameter whose name comes from the request.
    pub fn in_query(name: &str, expected: &str) -> Fault {
        Fault::new("value_error", vec![Place::from("query"), Place::named(name)], expected)
    }

    /// Makes a fault of a required query parameter that is missing.
    pub fn missing_in_query(name: &'static str) -> Fault {
        Fault::new("missing", vec![Place::from("query"), Place::from(name)], "is required")
    }
}

/// Why a body has no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    /// The faults of the body.
    Faults(Vec<Fault>),
    /// The work on the body was stopped.
    Stopped,
}

impl From<Vec<Fault>> for Refused {
    fn from(faults: Vec<Fault>) -> Refused {
        Refused::Faults(faults)
    }
}

impl From<Stopped> for Refused {
    fn from(_: Stopped) -> Refused {
        Refused::Stopped
    }
}

/// Returns the text if it is short enough for a fault to repeat it.
pub(super) fn short(text: &str) -> Option<&str> {
    (text.len() <= 200).then_some(text)
}

/// Writes the path to a value as messages show it: `items[3].unit_price`, or `the body` for the whole body.
pub(super) fn path(loc: &[Place]) -> String {
    let mut path = String::new();
    for place in loc.iter().skip(1) {
        match place {
            Place::Name(name) if path.is_empty() => path.push_str(name),
            Place::Name(name) => path.extend([".", name.as_ref()]),
            Place::Index(at) => path.push_str(&format!("[{at}]")),
        }
    }
    match (path.is_empty(), loc.len()) {
        (true, 0 | 1) => "the body".to_owned(),
        // a member whose name is empty
        (true, _) => "''".to_owned(),
        _ => path,
    }
}

/// The faults that were found so far.
#[derive(Default)]
pub(super) struct Faults<'a> {
    found: RefCell<Vec<Fault>>,
    any: Cell<bool>,
    limit: Limit<'a>,
    is_stopped: Cell<bool>,
}

impl<'a> Faults<'a> {
    /// No faults yet, of a body that is read within this limit.
    pub fn within(limit: Limit<'a>) -> Faults<'a> {
        Faults { limit, ..Faults::default() }
    }

    /// Whether reading may go on. Once it may not, the body counts as one with faults.
    pub fn goes_on(&self) -> bool {
        if self.limit.is_over() {
            self.is_stopped.set(true);
            self.any.set(true);
        }
        !self.is_stopped.get()
    }

    /// The limit of the work on the body.
    pub fn limit(&self) -> Limit<'a> {
        self.limit
    }

    pub fn add(&self, fault: Fault) {
        self.any.set(true);
        let mut found = self.found.borrow_mut();
        if found.len() < FAULTS_MAX {
            found.push(fault);
        }
    }

    pub fn is_empty(&self) -> bool {
        !self.any.get()
    }

    /// Adds problems of a value at `at`. Problems of a value that already has a fault follow from this fault and are
    /// left out.
    pub fn add_problems(&self, at: &[Place], problems: Vec<Problem>) {
        for problem in problems {
            let loc: Vec<Place> = at.iter().cloned().chain(problem.at.iter().map(Place::from)).collect();
            let follows = |fault: &Fault| fault.loc.starts_with(&loc) || loc.starts_with(&fault.loc);
            let is_known = self.found.borrow().iter().any(follows);
            if !is_known {
                self.add(Fault::new("value_error", loc, &problem.message));
            }
        }
    }

    pub fn into_vec(self) -> Vec<Fault> {
        self.found.into_inner()
    }

    pub fn into_refused(self) -> Refused {
        if self.is_stopped.get() { Refused::Stopped } else { Refused::Faults(self.into_vec()) }
    }
}
