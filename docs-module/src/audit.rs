//! A log that reveals changes: each entry holds the SHA-256 of the entry before it. A check finds a changed, inserted,
//! moved or missing entry. A check cannot find that the last entries are missing; to find that too, keep the [`Head`]
//! elsewhere.
//!
//! An entry is a JSON object on one line, with members sorted by code point and without spaces. The hash is over that
//! text without the member `hash`.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Members of an entry besides `seq`, `prev` and `hash`. Numbers are integers.
pub type Members = BTreeMap<String, Value>;

/// The end of a log. The next entry continues from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of the last entry; 0 in an empty log.
    pub seq: u64,
    /// Hash of the last entry, in hexadecimal; zeros in an empty log.
    pub hash: String,
}

impl Default for Head {
    fn default() -> Head {
        Head { seq: 0, hash: "0".repeat(64) }
    }
}

/// Result of a check of a whole log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The entries up to the first fault, with their `seq`, `prev` and `hash`.
    pub entries: Vec<Members>,
    /// Number of the first line that does not continue the entry before it: a changed line itself, or the line after a
    /// changed line whose own hash was computed anew.
    pub broken_at: Option<u64>,
    /// Head after the last valid entry.
    pub head: Head,
}

/// Makes the line of an entry that continues from `head`. Also returns the head after this entry.
pub fn entry(head: &Head, members: Members) -> (String, Head) {
    let mut entry = members;
    let seq = head.seq + 1;
    entry.insert("seq".to_owned(), Value::from(seq));
    entry.insert("prev".to_owned(), Value::from(head.hash.as_str()));
    let hash = hash(&entry);
    entry.insert("hash".to_owned(), Value::from(hash.as_str()));
    (canonical(&entry), Head { seq, hash })
}

/// Checks all lines of a log.
pub fn check<'a>(lines: impl IntoIterator<Item = &'a str>) -> Checked {
    let (mut chain, mut entries) = (Chain::default(), Vec::new());
    for line in lines {
        match chain.take(line) {
            Some(entry) => entries.push(entry),
            None => break,
        }
    }
    Checked { entries, broken_at: chain.broken_at, head: chain.head }
}

/// Checks a log line by line, for a log that is too long for memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Head after the last valid entry.
    pub head: Head,
    /// Number of the first line that does not continue the entry before it.
    pub broken_at: Option<u64>,
}

impl Chain {
    /// Checks the next line and returns its entry. `None`: this line, or an earlier one, does not continue the entry
    /// before it.
    pub fn take(&mut self, line: &str) -> Option<Members> {
        if self.broken_at.is_some() {
            return None;
        }
        let Some((entry, head)) = follows(&self.head, line) else {
            self.broken_at = Some(self.head.seq + 1);
            return None;
        };
        self.head = head;
        Some(entry)
    }
}

/// Returns the head after a line that [`Chain::take`] accepted before. `None`: the line is no longer the same, or does
/// not continue from `head`. The line is not parsed, so this is several times as fast as the first check.
pub fn again(head: &Head, line: &str) -> Option<Head> {
    // quotation marks within a text have a backslash before them, so this is a member
    let (before, rest) = line.split_once(",\"hash\":\"")?;
    let (told, after) = rest.split_once('"')?;
    let follows = |name: &str, value: &str| {
        let (_, rest) = after.split_once(&format!(",\"{name}\":{value}"))?;
        rest.starts_with([',', '}']).then_some(())
    };
    follows("prev", &format!("\"{}\"", head.hash))?;
    let seq = head.seq + 1;
    follows("seq", &seq.to_string())?;
    let found = hexadecimal(&Sha256::new().chain_update(before).chain_update(after).finalize());
    (told == found).then_some(Head { seq, hash: found })
}

/// Returns the entry of a line that continues from `head`, and the head after this entry. `None`: the line does not
/// continue from `head`.
fn follows(head: &Head, line: &str) -> Option<(Members, Head)> {
    let mut entry: Members = serde_json::from_str(line).ok()?;
    // a line that is not the canonical text of its entry is refused
    if canonical(&entry) != line {
        return None;
    }
    let told = entry.remove("hash")?;
    let is_next = entry.get("seq")?.as_u64()? == head.seq + 1 && entry.get("prev")?.as_str()? == head.hash;
    let found = hash(&entry);
    if !is_next || told.as_str()? != found {
        return None;
    }
    entry.insert("hash".to_owned(), told);
    Some((entry, Head { seq: head.seq + 1, hash: found }))
}

fn canonical(entry: &Members) -> String {
    serde_json::to_string(entry).expect("members are values")
}

fn hash(entry: &Members) -> String {
    hexadecimal(&Sha256::digest(canonical(entry)))
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).expect("four bits");
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn members(value: Value) -> Members {
        serde_json::from_value(value).unwrap()
    }

    /// The example log in the fact sheet.
    fn log() -> [String; 2] {
        let first = json!({
            "as_of": "2025-11-30", "at": "2025-11-30T00:00:00.000Z", "number": "T7000012050002", "status": "active",
        });
        let second = json!({
            "as_of": "2025-11-30", "at": "2025-11-30T00:00:05.000Z", "number": "T1180301018771", "status": "not_found",
        });
        let (one, head) = entry(&Head::default(), members(first));
        let (two, _) = entry(&head, members(second));
        [one, two]
    }

    #[test]
    fn hashes_are_those_of_the_fact_sheet() {
        let checked = check(log().iter().map(String::as_str));
        let hashes: Vec<&str> = checked.entries.iter().map(|entry| entry["hash"].as_str().unwrap()).collect();
        assert_eq!(
            hashes,
            [
                "b1cb959cada2b941ca911ec0949612d9753f6815c2becfff6132076979f9d32e",
                "afc9f3b5d31b87c795daf3594e35e0e6e9f041c4e7a7c095da0ad21c99d08670",
            ]
        );
        assert_eq!((checked.broken_at, checked.head.seq), (None, 2));
    }

    #[test]
    fn whatever_is_changed_is_found_at_its_line() {
        let [one, two] = log();
        let broken = |lines: &[&str]| check(lines.iter().copied()).broken_at;
        assert_eq!(broken(&[&one, &two]), None);
        assert_eq!(broken(&[]), None);
        assert_eq!(broken(&[&one.replace("active", "revoked"), &two]), Some(1));
        assert_eq!(broken(&[&one, &two.replace("not_found", "active")]), Some(2));
        // refused: entries in another sequence, a gap, a repeated entry, added spaces, half a line, an empty line
        assert_eq!(broken(&[&two, &one]), Some(1));
        assert_eq!(broken(&[&two]), Some(1));
        assert_eq!(broken(&[&one, &one, &two]), Some(2));
        assert_eq!(broken(&[&one.replace(':', ": "), &two]), Some(1));
        assert_eq!(broken(&[&one, &two[..40]]), Some(2));
        assert_eq!(broken(&[&one, "", &two]), Some(2));
        // a changed entry with a new hash breaks the log at the next entry, which still has the old hash in `prev`
        let mut changed: Members = serde_json::from_str(&one).unwrap();
        for name in ["hash", "seq", "prev"] {
            changed.remove(name);
        }
        changed.insert("status".to_owned(), json!("revoked"));
        let (forged, _) = entry(&Head::default(), changed);
        assert_eq!(broken(&[&forged, &two]), Some(2));
    }

    #[test]
    fn a2_a_second_check_finds_what_the_first_one_finds() {
        let hostile = json!({"account": "a", "source": ",\"hash\":\"0\",\"seq\":9}", "number": "x\\", "at": "2025"});
        let (one, head) = entry(&Head::default(), members(hostile));
        let (two, end) = entry(&head, members(json!({"account": "b", "zeal": 1})));
        assert_eq!(again(&Head::default(), &one), Some(head.clone()));
        assert_eq!(again(&head, &two), Some(end));
        assert_eq!((again(&head, &one), again(&Head::default(), &two)), (None, None));
        for changed in [one.replace("2025", "2026"), one.replace(':', ": "), one[..40].to_owned(), format!("{one} ")] {
            assert_eq!(again(&Head::default(), &changed), None, "{changed}");
        }
    }

    proptest! {
        #[test]
        fn a2_both_checks_agree(at in 0usize..1000, with in any::<char>(), source in ".{0,30}") {
            let (line, _) = entry(&Head::default(), members(json!({"account": "a", "source": source})));
            let at = at % line.chars().count();
            let changed: String = line.chars().enumerate().map(|(n, c)| if n == at { with } else { c }).collect();
            prop_assert_eq!(again(&Head::default(), &changed).is_some(), check([&*changed]).broken_at.is_none());
        }

        #[test]
        fn a_changed_byte_is_found(at in 0usize..1000, with in any::<char>()) {
            let lines = log();
            let text = lines.join("\n");
            let at = at % text.chars().count();
            let changed: String = text.chars().enumerate().map(|(n, c)| if n == at { with } else { c }).collect();
            if changed != text {
                let found = check(changed.split('\n'));
                prop_assert!(found.broken_at.is_some());
            }
        }

        #[test]
        fn any_text_is_checked(lines in proptest::collection::vec(".{0,80}", 0..4)) {
            let checked = check(lines.iter().map(String::as_str));
            prop_assert!(checked.entries.len() <= lines.len());
        }
    }
}
