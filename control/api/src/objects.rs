//! Reads values that must be JSON objects. A derived reader would also accept an array with the members in the order of
//! their declaration, but that order is not part of the API.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::lists;

/// Like [`lists::list`], for a list of objects.
pub(crate) fn list<'de, const MAX: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    lists::list::<MAX, Object<T>, D>(deserializer).map(unwrapped)
}

/// Like [`lists::some_list`], for a list of objects.
pub(crate) fn some_list<'de, const MAX: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    lists::some_list::<MAX, Object<T>, D>(deserializer).map(|list| list.map(unwrapped))
}

fn unwrapped<T>(objects: Vec<Object<T>>) -> Vec<T> {
    objects.into_iter().map(|Object(object)| object).collect()
}

/// Reads an object: for `#[serde(deserialize_with)]`.
pub(crate) fn one<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(object)| object)
}

/// A value that was read from a JSON object.
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
        // this list has about as many objects as a body of 32 MiB can have gates; only 4 objects are kept, one more
        // than the maximum of 3
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
