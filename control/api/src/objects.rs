//! Lists whose elements must be JSON objects. A derived reader also takes an array, with its elements as the members in
//! the order of their declaration; that order is no part of the API.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Reads a list of objects: for `#[serde(deserialize_with)]`. Of a list of more than `MAX` objects the first `MAX + 1` are
/// kept, so that its reader sees that it is too long, and the rest is passed over: many small elements would take more
/// memory than the body had.
pub(crate) fn list<'de, const MAX: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(Elements::<MAX, T>(PhantomData))
}

struct Elements<const MAX: usize, T>(PhantomData<T>);

impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for Elements<MAX, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
        let mut objects = Vec::new();
        while objects.len() <= MAX {
            let Some(Object(object)) = elements.next_element()? else { return Ok(objects) };
            objects.push(object);
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(objects)
    }
}

/// Reads a list of objects, or null, which equals absent (readings X7): for `#[serde(default, deserialize_with)]`.
pub(crate) fn some_list<'de, const MAX: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    struct List<const MAX: usize, T>(Vec<T>);

    impl<'de, const MAX: usize, T: Deserialize<'de>> Deserialize<'de> for List<MAX, T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            list::<MAX, T, D>(deserializer).map(List)
        }
    }

    Option::<List<MAX, T>>::deserialize(deserializer).map(|list| list.map(|List(objects)| objects))
}

/// Reads an object: for `#[serde(deserialize_with)]`.
pub(crate) fn one<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(object)| object)
}

/// A value that was an object.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData)).map(Object)
    }
}

struct Members<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Empty {}

    fn read(text: &str) -> Result<usize, String> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let objects = list::<3, Empty, _>(&mut deserializer).map_err(|error| error.to_string())?;
        deserializer.end().map_err(|error| error.to_string())?;
        Ok(objects.len())
    }

    #[test]
    fn x7_null_is_no_list_and_a_list_is_one() {
        let read = |text: &str| some_list::<3, Empty, _>(&mut serde_json::Deserializer::from_str(text));
        assert!(read("null").unwrap().is_none());
        assert_eq!(read("[{}]").unwrap().map(|objects| objects.len()), Some(1));
        assert!(read("{}").is_err());
    }

    #[test]
    fn of_a_list_that_is_too_long_one_object_more_than_may_be_is_kept() {
        for objects in 0..=5 {
            assert_eq!(read(&format!("[{}]", vec!["{}"; objects].join(","))), Ok(objects.min(4)));
        }
        // 1.9 million gates that were 32 MiB on the wire
        assert_eq!(read(&format!("[{}{{}}]", "{},".repeat(1_900_000))), Ok(4));
    }

    #[test]
    fn an_object_is_no_list_of_its_members() {
        let read = |text: &str| one::<Empty, _>(&mut serde_json::Deserializer::from_str(text)).is_ok();
        assert_eq!(["{}", "[]", "null", "1"].map(read), [true, false, false, false]);
    }

    #[test]
    fn what_is_no_list_of_objects_is_refused() {
        for bad in ["{}", "1", "[1]", "[[]]", "[{},null]", "[{},{},{},{}", "[{},{},{},{},x]"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
