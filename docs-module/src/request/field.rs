//! Values of a JSON body with their places. A value of a wrong type is a fault. Reading goes on after a fault, so all
//! faults are found.
//!
//! Numbers are read from their text, so that no amount becomes a binary floating-point number. Types are strict: `"1"`
//! is not a number, and `0` is not a boolean.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use time::Date;
use time::macros::format_description;

use super::fault::{Fault, Faults, Place, Refused, short};
use super::structure::given_twice;
use crate::drawing::text::is_mark_of_direction;
use crate::limit::Limit;
use crate::rounding::YEN_MAX;

/// Largest number of digits before and after the point of a decimal (B24).
const WHOLE_DIGITS: usize = 12;
const FRACTION_DIGITS: usize = 6;

/// Reads a body, or returns all faults of the body.
pub(super) fn body<T>(bytes: &[u8], read: impl FnOnce(&Object<'_>) -> Option<T>) -> Result<T, Vec<Fault>> {
    match body_within(bytes, Limit::NONE, read) {
        Ok(value) => Ok(value),
        Err(Refused::Faults(faults)) => Err(faults),
        Err(Refused::Stopped) => unreachable!("nothing stops this work"),
    }
}

/// Reads a body within a limit. Each object of the body, and each list, is read only if the work may go on.
pub(super) fn body_within<T>(
    bytes: &[u8],
    limit: Limit<'_>,
    read: impl FnOnce(&Object<'_>) -> Option<T>,
) -> Result<T, Refused> {
    let faults = Faults::within(limit);
    let value = whole(bytes, &faults).and_then(|field| field.object()).and_then(|object| read(&object));
    match value {
        Some(value) if faults.is_empty() => Ok(value),
        _ => Err(faults.into_refused()),
    }
}

/// Whether a character of a text is not shown, or changes how the text is shown: control characters with line ends and
/// tabs, marks of direction, and characters without width.
pub fn is_hidden(character: char) -> bool {
    character.is_control() || is_mark_of_direction(character) || matches!(character, '\u{2028}' | '\u{2029}')
}

/// Finds the character U+0000 in a text of a JSON body, where it is always escaped. Databases cannot store it. Returns
/// the place of the escape.
pub fn escaped_nul(json: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(backslash) = json[at..].iter().position(|byte| *byte == b'\\').map(|found| at + found) {
        if json[backslash..].starts_with(br"\u0000") {
            return Some(backslash);
        }
        // the character behind a backslash begins no escape, also if it is a backslash
        at = (backslash + 2).min(json.len());
    }
    None
}

/// Reads a body as any value, for readers that take what they know of it.
///
/// # Errors
/// All faults of the body as JSON: it cannot be read, is too deep, has too many values, or has a member twice.
pub fn any_value(bytes: &[u8]) -> Result<Value, Vec<Fault>> {
    let faults = Faults::default();
    let value = whole(bytes, &faults).and_then(|field| match serde_json::from_str(field.raw()) {
        Ok(value) => Some(value),
        Err(_) => field.refuse("json_invalid", "should have valid text and numbers", None),
    });
    value.filter(|_| faults.is_empty()).ok_or_else(|| faults.into_vec())
}

/// Reads the whole body as one value.
fn whole<'a>(bytes: &'a [u8], faults: &'a Faults<'a>) -> Option<Field<'a>> {
    let at = vec![Place::from("body")];
    if bytes.iter().all(u8::is_ascii_whitespace) {
        faults.add(Fault::new("missing", at, "is required"));
        return None;
    }
    match serde_json::from_slice::<&RawValue>(bytes) {
        Ok(raw) => match given_twice(raw.get()) {
            Ok(twice) => {
                twice.into_iter().for_each(|fault| faults.add(fault));
                Some(Field { raw, at, faults })
            }
            Err(fault) => {
                faults.add(*fault);
                None
            }
        },
        Err(error) => {
            let before: usize =
                bytes.split_inclusive(|byte| *byte == b'\n').take(error.line() - 1).map(<[u8]>::len).sum();
            let loc = vec![Place::from("body"), Place::Index(before + error.column().saturating_sub(1))];
            let ctx = json!({"error": error.to_string()});
            let msg = format!("the body should be JSON: {error}");
            faults.add(Fault { loc, msg, kind: "json_invalid", input: None, ctx: Some(ctx) });
            None
        }
    }
}

/// An object of a body.
pub(super) struct Object<'a> {
    field: Field<'a>,
    members: BTreeMap<Cow<'a, str>, &'a RawValue>,
}

impl<'a> Object<'a> {
    /// Looks up a required member. A missing member is a fault.
    pub fn required(&self, name: &'static str) -> Option<Field<'a>> {
        let field = self.optional(name);
        if field.is_none() {
            self.field.faults.add(Fault::new("missing", self.at(name), "is required"));
        }
        field
    }

    /// Looks up a member that may be missing but not null.
    pub fn optional(&self, name: &'static str) -> Option<Field<'a>> {
        #[cfg(test)]
        crate::asked::note(self.field.at.iter().map(Place::step), name);
        let raw = self.members.get(name).copied()?;
        Some(Field { raw, at: self.at(name), faults: self.field.faults })
    }

    /// Looks up a member that may be missing or null.
    pub fn nullable(&self, name: &'static str) -> Option<Field<'a>> {
        self.optional(name).filter(|field| field.raw.get() != "null")
    }

    /// Reads a text; empty when the member is missing.
    pub fn text(&self, name: &'static str) -> String {
        self.optional(name).and_then(|field| field.text()).unwrap_or_default()
    }

    /// Reads a text; empty when the member is missing or null.
    pub fn nullable_text(&self, name: &'static str) -> String {
        self.nullable(name).and_then(|field| field.text()).unwrap_or_default()
    }

    /// Looks up a member whose name comes from the request.
    pub fn named(&self, name: &str) -> Option<&'a RawValue> {
        self.members.get(name).copied()
    }

    /// All members, in the order of their names.
    pub fn all(&self) -> impl Iterator<Item = (&str, Field<'a>)> {
        self.members.iter().map(|(name, raw)| {
            let mut at = self.field.at.clone();
            at.push(Place::named(name));
            (name.as_ref(), Field { raw, at, faults: self.field.faults })
        })
    }

    /// The faults of the whole body.
    pub fn faults(&self) -> &'a Faults<'a> {
        self.field.faults
    }

    /// The path to a member.
    pub fn at(&self, name: &'static str) -> Vec<Place> {
        let mut at = self.field.at.clone();
        at.push(Place::from(name));
        at
    }

    /// Adds a fault of a member, which may be missing.
    pub fn fault(&self, name: &'static str, expected: &str) {
        self.field.faults.add(Fault::new("value_error", self.at(name), expected));
    }
}

/// A value of a body.
#[derive(Clone)]
pub(super) struct Field<'a> {
    raw: &'a RawValue,
    /// The path to the value.
    pub at: Vec<Place>,
    faults: &'a Faults<'a>,
}

impl<'a> Field<'a> {
    /// The JSON text of the value, as in the body.
    pub fn raw(&self) -> &'a str {
        self.raw.get()
    }

    /// The raw value, for an answer that repeats it.
    pub fn raw_value(&self) -> &'a RawValue {
        self.raw
    }

    pub fn text(&self) -> Option<String> {
        match serde_json::from_str(self.raw()) {
            Ok(text) => Some(text),
            Err(_) if self.raw().starts_with('"') => {
                self.refuse("string_unicode", "should be valid Unicode text", None)
            }
            Err(_) => self.refuse("string_type", "should be a text", None),
        }
    }

    /// Reads a text of one line that is stored as it is.
    pub fn line(&self) -> Option<String> {
        let text = self.text()?;
        if text.contains(is_hidden) {
            return self.refuse(
                "value_error",
                "should be one line without control characters and marks of direction",
                None,
            );
        }
        Some(text)
    }

    pub fn boolean(&self) -> Option<bool> {
        match self.raw() {
            "true" => Some(true),
            "false" => Some(false),
            _ => self.refuse("bool_type", "should be true or false", None),
        }
    }

    /// Reads a whole number. `10.0` is a whole number too.
    pub fn integer(&self) -> Option<i64> {
        if !self.is_number() {
            return self.refuse("int_type", "should be a whole number", None);
        }
        match decimal_of(self.raw()).filter(|number| number.fract().is_zero()).and_then(|number| number.to_i64()) {
            Some(number) => Some(number),
            None => self.refuse("int_from_float", "should be a whole number of at most 12 digits", None),
        }
    }

    /// Reads a whole number of at least `least` and at most `most`.
    pub fn integer_within(&self, least: i64, most: i64) -> Option<i64> {
        let number = self.integer()?;
        if number < least {
            return self.refuse(
                "greater_than_equal",
                &format!("should be at least {least}"),
                Some(json!({"ge": least})),
            );
        }
        if number > most {
            return self.refuse("less_than_equal", &format!("should be at most {most}"), Some(json!({"le": most})));
        }
        Some(number)
    }

    /// Reads a number, or a text that matches the specification's pattern of decimals, with at most 12 digits before
    /// the point and 6 after it (B24).
    pub fn decimal(&self) -> Option<Decimal> {
        let expected = format!(
            "should be a number of at most {WHOLE_DIGITS} digits before the point and {FRACTION_DIGITS} after it, as 1250 or \"1250.5\""
        );
        if self.is_number() {
            return decimal_of(self.raw()).or_else(|| self.refuse("decimal_parsing", &expected, None));
        }
        let text: Option<Cow<'_, str>> = serde_json::from_str(self.raw()).ok();
        match text {
            None => self.refuse("decimal_type", &expected, None),
            // a decimal in a text must not have an exponent
            Some(text) if text.contains(['e', 'E']) => self.refuse("decimal_parsing", &expected, None),
            Some(text) => decimal_of(&text).or_else(|| self.refuse("decimal_parsing", &expected, None)),
        }
    }

    /// Reads whole yen, not negative. The value is written like a decimal ([`Field::decimal`]).
    pub fn yen(&self) -> Option<i64> {
        let amount = self.decimal()?;
        match amount.to_i64().filter(|yen| amount.fract().is_zero() && (0..=YEN_MAX).contains(yen)) {
            Some(yen) => Some(yen),
            None => self.refuse("value_error", "should be whole yen, not negative", None),
        }
    }

    /// Reads a date of the form `2025-11-30`.
    pub fn date(&self) -> Option<Date> {
        let expected = "should be a date of the form 2025-11-30";
        let text: Option<Cow<'_, str>> = serde_json::from_str(self.raw()).ok();
        let Some(text) = text else { return self.refuse("date_type", expected, None) };
        let format = format_description!("[year]-[month]-[day]");
        let date = Date::parse(&text, format).ok().filter(|date| text.len() == 10 && date.year() > 0);
        date.or_else(|| self.refuse("date_from_datetime_parsing", expected, None))
    }

    /// Reads one of the allowed words.
    pub fn choice<T>(&self, allowed: &[&str], of_name: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let name = self.text()?;
        of_name(&name)
            .or_else(|| self.refuse_choice(&allowed.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>()))
    }

    /// Reads one of the allowed whole numbers.
    pub fn integer_choice<T>(&self, allowed: &[i64], of_number: impl FnOnce(i64) -> Option<T>) -> Option<T> {
        let number = self.integer()?;
        of_number(number).or_else(|| self.refuse_choice(&allowed.iter().map(i64::to_string).collect::<Vec<_>>()))
    }

    fn refuse_choice<T>(&self, allowed: &[String]) -> Option<T> {
        let allowed = allowed.join(", ");
        self.refuse("literal_error", &format!("should be one of: {allowed}"), Some(json!({"expected": allowed})))
    }

    /// Reads a list of at most `most` values.
    pub fn list(&self, most: usize) -> Option<Vec<Field<'a>>> {
        if !self.faults.goes_on() {
            return None;
        }
        if !self.raw().starts_with('[') {
            return self.refuse("list_type", "should be a list", None);
        }
        let list: Vec<&'a RawValue> = serde_json::from_str(self.raw()).expect("the body was read as JSON");
        if list.len() > most {
            let ctx = json!({"field_type": "List", "max_length": most, "actual_length": list.len()});
            return self.refuse("too_long", &format!("should have at most {most} values"), Some(ctx));
        }
        let field = |(place, raw)| {
            let mut at = self.at.clone();
            at.push(Place::Index(place));
            Field { raw, at, faults: self.faults }
        };
        Some(list.into_iter().enumerate().map(field).collect())
    }

    /// Reads a list of at least one and at most `most` values.
    pub fn filled_list(&self, most: usize) -> Option<Vec<Field<'a>>> {
        let list = self.list(most)?;
        if list.is_empty() {
            let ctx = json!({"field_type": "List", "min_length": 1, "actual_length": 0});
            return self.refuse("too_short", "should have at least one value", Some(ctx));
        }
        Some(list)
    }

    pub fn object(&self) -> Option<Object<'a>> {
        if !self.faults.goes_on() {
            return None;
        }
        if !self.raw().starts_with('{') {
            return self.refuse("dict_type", "should be an object", None);
        }
        match serde_json::from_str(self.raw()) {
            Ok(members) => Some(Object { field: self.clone(), members }),
            Err(_) => self.refuse("string_unicode", "should have names that are valid Unicode text", None),
        }
    }

    /// Reads an object with any members.
    pub fn free_object(&self) -> Option<Value> {
        if !self.faults.goes_on() {
            return None;
        }
        if !self.raw().starts_with('{') {
            return self.refuse("dict_type", "should be an object", None);
        }
        match serde_json::from_str(self.raw()) {
            Ok(value) => Some(value),
            Err(_) => self.refuse("json_invalid", "should have valid text and numbers", None),
        }
    }

    /// Adds a fault of this value.
    pub fn refuse<T>(&self, kind: &'static str, expected: &str, ctx: Option<Value>) -> Option<T> {
        self.faults.add(Fault { input: self.input(), ctx, ..Fault::new(kind, self.at.clone(), expected) });
        None
    }

    /// Adds a fault without the value, for a value that no answer may repeat: a personal number, a token or a secret.
    pub fn refuse_unseen<T>(&self, kind: &'static str, expected: &str) -> Option<T> {
        self.faults.add(Fault::new(kind, self.at.clone(), expected));
        None
    }

    fn input(&self) -> Option<Value> {
        short(self.raw()).and_then(|text| serde_json::from_str(text).ok())
    }

    fn is_number(&self) -> bool {
        self.raw().starts_with(|first: char| first == '-' || first.is_ascii_digit())
    }
}

/// Reads the decimal in a text: a sign, digits, a point, digits, an exponent. `None` means that the text is not a
/// decimal, or has too many digits.
fn decimal_of(text: &str) -> Option<Decimal> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (digits, is_negative) = match mantissa.strip_prefix(['-', '+']) {
        Some(digits) => (digits, mantissa.starts_with('-')),
        None => (mantissa, false),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    if !is_number || whole.len() + fraction.len() == 0 {
        return None;
    }
    // the value is `significant` * 10^`power`; leading and trailing zeros do not count as digits
    let all = [whole, fraction].concat();
    let power = i64::from(exponent) - fraction.len() as i64;
    let significant = all.trim_start_matches('0');
    let trimmed = significant.trim_end_matches('0');
    if trimmed.is_empty() {
        return Some(Decimal::ZERO);
    }
    let power = power + (significant.len() - trimmed.len()) as i64;
    let whole_digits = trimmed.len() as i64 + power;
    if whole_digits > WHOLE_DIGITS as i64 || -power > FRACTION_DIGITS as i64 {
        return None;
    }
    // at most 18 digits, so the number fits into an i64
    let number: i64 = trimmed.parse().ok()?;
    let number =
        if power >= 0 { Decimal::from(number * 10i64.pow(power as u32)) } else { Decimal::new(number, -power as u32) };
    Some(if is_negative { -number } else { number })
}
