//! Reads lists up to a largest length. Elements beyond this length are skipped unread, because many small elements
//! would take more memory than the request's body.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};

/// Reads a list, for `#[serde(deserialize_with)]`. Keeps at most `MAX + 1` elements and skips all others. The one
/// element beyond `MAX` tells the caller that the list is too long.
pub(crate) fn list<'de, const MAX: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(Elements::<MAX, T>(PhantomData))
}

/// Reads a list or null, for `#[serde(default, deserialize_with)]`. Null means absent (readings X7).
pub(crate) fn some_list<'de, const MAX: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    struct List<const MAX: usize, T>(Vec<T>);

    impl<'de, const MAX: usize, T: Deserialize<'de>> Deserialize<'de> for List<MAX, T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            list::<MAX, T, D>(deserializer).map(List)
        }
    }

    Option::<List<MAX, T>>::deserialize(deserializer).map(|list| list.map(|List(elements)| elements))
}

struct Elements<const MAX: usize, T>(PhantomData<T>);

impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for Elements<MAX, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while list.len() <= MAX {
            let Some(element) = elements.next_element()? else { return Ok(list) };
            list.push(element);
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(list)
    }
}
