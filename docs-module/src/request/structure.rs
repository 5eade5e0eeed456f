//! The structure of a whole body, checked before its values are read: no member twice (RFC 8259, 4; readings X7), and
//! bounded work. Members that nobody reads are checked too, because other readers of the same bytes may read them.

use std::borrow::Cow;

use super::fault::{Fault, Place};

/// Deepest nesting of objects and lists.
const DEPTH_MAX: usize = 127;
/// Largest number of values of a body. 10 MB of records, transfers or rows have fewer.
const VALUES_MAX: usize = 1_000_000;
/// Largest number of members given twice that are told.
const TWICE_MAX: usize = 20;

/// An object or a list that has not ended.
enum Level<'a> {
    Object { names: Vec<Cow<'a, str>>, is_name_next: bool },
    List { index: usize },
}

/// The state of a scan.
struct Scan<'a> {
    /// From the outermost object or list to the innermost one.
    levels: Vec<Level<'a>>,
    faults: Vec<Fault>,
}

/// Finds the members that an object has twice, compared after unescaping. `json` must be valid JSON.
///
/// # Errors
/// The fault of a body that is too deep or has too many values to be read.
pub(super) fn given_twice(json: &str) -> Result<Vec<Fault>, Box<Fault>> {
    let mut scan = Scan { levels: Vec::new(), faults: Vec::new() };
    let (mut at, mut values) = (0, 1);
    while let Some(byte) = json.as_bytes().get(at) {
        let start = at;
        at = if *byte == b'"' { end_of_text(json, at) } else { at + 1 };
        match byte {
            b'"' => scan.text(&json[start..at]),
            b'{' => scan.levels.push(Level::Object { names: Vec::new(), is_name_next: true }),
            b'[' => scan.levels.push(Level::List { index: 0 }),
            b'}' | b']' => scan.leave(),
            b',' => scan.go_on(),
            _ => continue,
        }
        values += usize::from(matches!(byte, b',' | b'{' | b'['));
        let is_deep = scan.levels.len() > DEPTH_MAX;
        if is_deep || values > VALUES_MAX {
            let (most, of) = if is_deep { (DEPTH_MAX, "levels of nesting") } else { (VALUES_MAX, "values") };
            // the member of the body, because the whole path would be as deep as the body
            let place = scan.place().into_iter().take(2).collect();
            return Err(Box::new(Fault::new("json_invalid", place, &format!("should have at most {most} {of}"))));
        }
    }
    Ok(scan.faults)
}

impl<'a> Scan<'a> {
    /// Takes a text, which is a name or a value.
    fn text(&mut self, text: &'a str) {
        if let Some(Level::Object { names, is_name_next }) = self.levels.last_mut()
            && std::mem::take(is_name_next)
        {
            names.push(unescaped(text));
        }
    }

    /// Goes on to the next member or value.
    fn go_on(&mut self) {
        match self.levels.last_mut() {
            Some(Level::Object { is_name_next, .. }) => *is_name_next = true,
            Some(Level::List { index }) => *index += 1,
            None => {}
        }
    }

    /// Leaves an object or a list, and notes the names that the object has twice.
    fn leave(&mut self) {
        let Some(Level::Object { mut names, .. }) = self.levels.pop() else { return };
        names.sort_unstable();
        let mut twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| &pair[0]).collect();
        twice.dedup();
        for name in twice.into_iter().take(TWICE_MAX - self.faults.len()) {
            let mut at = self.place();
            at.push(Place::named(name));
            self.faults.push(Fault::new("value_error", at, "appears twice"));
        }
    }

    /// The path to the current value.
    fn place(&self) -> Vec<Place> {
        let step = |level: &Level<'_>| match level {
            Level::Object { names, .. } => names.last().map(|name| Place::named(name)),
            Level::List { index } => Some(Place::Index(*index)),
        };
        std::iter::once(Place::from("body")).chain(self.levels.iter().filter_map(step)).collect()
    }
}

/// Returns the end of the text that begins at `start`.
fn end_of_text(json: &str, start: usize) -> usize {
    let mut is_escaped = false;
    let end = json.as_bytes()[start + 1..].iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(json.len(), |length| start + length + 2)
}

/// Reads a text. A text that is no valid Unicode stays as it is written.
fn unescaped(text: &str) -> Cow<'_, str> {
    let written = text.trim_matches('"');
    if !written.contains('\\') {
        return Cow::Borrowed(written);
    }
    serde_json::from_str(text).map_or(Cow::Borrowed(text), Cow::Owned)
}
