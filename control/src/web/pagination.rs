//! Pages of lists: their query and their cursors (readings E3, I7, I8).
//!
//! A cursor is the position of a page's last row, with an HMAC over the position, the account and the route. So a
//! cursor that was made up, altered or taken from another list is refused. A handler takes a [`PageQuery`] after its
//! caller:
//!
//! ```ignore
//! let rows = compute.store.things_page(account, query.after_text()?, query.rows_wanted()).await?;
//! let page = query.page(rows, |row| Position { created_at: row.created_at, id: row.id.clone().into_bytes() });
//! Ok(Answer(page.with(page.items.iter().map(facts).collect())))
//! ```

use std::sync::Arc;

use api::pages::{PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, Page};
use api::{AccountId, Code};
use axum::extract::{FromRef, FromRequestParts, MatchedPath, Query};
use axum::http::request::Parts;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use store::PageRows;

use super::Web;
use crate::caller::Caller;
use crate::secrets::Key;
use crate::web::error::ApiError;

/// Bytes of a cursor's HMAC.
const TAG_BYTES: usize = 16;
/// Longest cursor that is accepted.
const CURSOR_CHARACTERS_MAX: usize = 1024;

/// The position of a row. Lists are ordered by (`created_at`, id), newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// When the row was created, in microseconds since 1970.
    pub created_at: i64,
    /// Orders rows with the same time.
    pub id: Vec<u8>,
}

/// The page of a list that a request asks for.
pub struct PageQuery {
    limit: u32,
    /// Whether the request gave a limit.
    limit_is_given: bool,
    /// The row after which the page begins. `None`: the first page.
    after: Option<Position>,
    scope: Scope,
    /// Authenticates the cursor of the next page.
    key: Key,
}

/// The scope in which a cursor is valid: the list of one account at one route.
struct Scope {
    account: AccountId,
    route: String,
}

impl PageQuery {
    /// Sets the default page size of a list that the specification returns whole.
    pub fn whole_up_to(mut self, rows: u32) -> PageQuery {
        if !self.limit_is_given {
            self.limit = rows;
        }
        self
    }

    /// Returns how many rows to read from the store: one row more than the page holds. The extra row shows whether
    /// another page follows.
    pub fn rows_wanted(&self) -> i64 {
        i64::from(self.limit) + 1
    }

    /// Returns the row after which the page begins, for ids that are bytes.
    pub fn after_bytes(&self) -> Option<(i64, &[u8])> {
        self.after.as_ref().map(|after| (after.created_at, after.id.as_slice()))
    }

    /// Returns the row after which the page begins, for ids that are text.
    pub fn after_text(&self) -> Result<Option<(i64, &str)>, ApiError> {
        match &self.after {
            None => Ok(None),
            Some(Position { created_at, id }) => {
                let id = std::str::from_utf8(id).map_err(ApiError::internal)?;
                Ok(Some((*created_at, id)))
            }
        }
    }

    /// Makes the page of these rows. An extra row at the end shows that another page follows, and is left out.
    pub fn page<T>(&self, rows: PageRows<T>, position: impl Fn(&T) -> Position) -> Page<T> {
        let PageRows { rows: mut items, total } = rows;
        let has_more = items.len() > self.limit as usize;
        items.truncate(self.limit as usize);
        let last = items.last().filter(|_| has_more);
        let next_cursor = last.map(|last| self.scope.write(&self.key, &position(last)));
        Page { items, next_cursor, has_more, total_count: total.unsigned_abs() }
    }
}

impl Scope {
    fn mac(&self, key: &Key, position: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&key[..]).expect("HMAC takes any key length");
        // the zero byte ends each part, because neither part contains one
        for part in [self.account.as_str(), &self.route] {
            mac.update(part.as_bytes());
            mac.update(&[0]);
        }
        mac.update(position);
        mac
    }

    /// Writes the cursor of a position: tag, time, id.
    fn write(&self, key: &Key, position: &Position) -> String {
        let position = [&position.created_at.to_be_bytes()[..], &position.id].concat();
        let tag = self.mac(key, &position).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode([&tag[..TAG_BYTES], &position].concat())
    }

    /// Reads a cursor. `None`: the cursor was not made here for this list.
    fn read(&self, key: &Key, cursor: &str) -> Option<Position> {
        let short = cursor.len() <= CURSOR_CHARACTERS_MAX;
        let bytes = short.then(|| URL_SAFE_NO_PAD.decode(cursor).ok())??;
        let (tag, position) = bytes.split_at_checked(TAG_BYTES)?;
        self.mac(key, position).verify_truncated_left(tag).ok()?;
        let (created_at, id) = position.split_first_chunk()?;
        Some(Position { created_at: i64::from_be_bytes(*created_at), id: id.to_vec() })
    }
}

impl<S: Sync> FromRequestParts<S> for PageQuery
where
    Arc<Web>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let key = Arc::<Web>::from_ref(state).cursors.clone();
        let account = parts.extensions.get::<Caller>().map(|caller| caller.account.clone());
        let account = account.ok_or_else(|| ApiError::internal("a list without a caller"))?;
        let route = parts.extensions.get::<MatchedPath>().map(|path| path.as_str().to_owned());
        let scope = Scope { account, route: route.ok_or_else(|| ApiError::internal("a list without a route"))? };
        let Query(query) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|_| ApiError::new(Code::InvalidRequest, "the query string cannot be read"))?;
        let (limit, cursor) = (once(&query, "limit")?, once(&query, "cursor")?);
        let limit_is_given = limit.is_some();
        let limit = limit.map_or(Ok(PAGE_LIMIT_DEFAULT), read_limit)?;
        let after = cursor.map(|cursor| {
            let unknown = || {
                ApiError::new(
                    Code::InvalidRequest,
                    "the cursor does not belong to this list: leave it out to start again",
                )
                .at("cursor", "not a cursor of this list")
                .in_query()
            };
            scope.read(&key, cursor).ok_or_else(unknown)
        });
        Ok(PageQuery { limit, limit_is_given, after: after.transpose()?, scope, key })
    }
}

/// Returns the value of a parameter that may be given only once (readings E3).
fn once<'q>(query: &'q [(String, String)], name: &str) -> Result<Option<&'q str>, ApiError> {
    let mut values = query.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        _ => Err(ApiError::new(Code::InvalidRequest, format!("{name} is given twice"))
            .at(name, "given twice")
            .in_query()),
    }
}

/// Reads the limit. A value out of range is refused, not clamped (readings E3).
fn read_limit(text: &str) -> Result<u32, ApiError> {
    let digits = text.bytes().all(|c| c.is_ascii_digit());
    let limit = digits.then(|| text.parse().ok()).flatten();
    limit.filter(|limit| (1..=PAGE_LIMIT_MAX).contains(limit)).ok_or_else(|| {
        ApiError::new(Code::InvalidRequest, format!("limit must be 1 to {PAGE_LIMIT_MAX}"))
            .at("limit", format!("not in 1 to {PAGE_LIMIT_MAX}"))
            .in_query()
    })
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn e3_a_limit_is_1_to_100() {
        assert_eq!(["1", "20", "100", "007"].map(|text| read_limit(text).unwrap()), [1, 20, 100, 7]);
        for text in ["", "0", "101", "-1", "+5", "1.0", "abc", " 5", "99999999999999999999"] {
            assert_eq!(read_limit(text).unwrap_err().code, Code::InvalidRequest, "{text}");
        }
    }

    #[test]
    fn i7_s_a_cursor_is_good_for_its_list_and_secret_only_and_every_changed_byte_ruins_it() {
        let scope = |account, route: &str| Scope { account: AccountId::from_bits(account), route: route.to_owned() };
        let (key, other): (Key, Key) = (Zeroizing::new([1; 32]), Zeroizing::new([2; 32]));
        let mine = scope(1, "/a");
        let position = Position { created_at: -5, id: b"ak_1".to_vec() };
        let cursor = mine.write(&key, &position);
        assert_eq!(mine.read(&key, &cursor), Some(position));
        assert_eq!(mine.read(&other, &cursor), None);
        assert_eq!(scope(2, "/a").read(&key, &cursor), None);
        assert_eq!(scope(1, "/b").read(&key, &cursor), None);
        let bytes = URL_SAFE_NO_PAD.decode(&cursor).unwrap();
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert_eq!(mine.read(&key, &URL_SAFE_NO_PAD.encode(bad)), None, "{at}");
        }
        for bad in [&cursor[1..], &cursor[..cursor.len() - 1], "", "AAAA", "?", &"A".repeat(2000)] {
            assert_eq!(mine.read(&key, bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn i7_s_no_made_up_text_is_a_cursor(text in "[A-Za-z0-9_-]{0,120}", any in ".{0,60}") {
            let scope = Scope { account: AccountId::from_bits(1), route: "/a".to_owned() };
            let key: Key = Zeroizing::new([1; 32]);
            prop_assert_eq!(scope.read(&key, &text), None);
            prop_assert_eq!(scope.read(&key, &any), None);
        }

        #[test]
        fn i7_every_position_is_read_as_it_was_written(created_at: i64, id in prop::collection::vec(any::<u8>(), 0..64)) {
            let scope = Scope { account: AccountId::from_bits(1), route: "/a".to_owned() };
            let key: Key = Zeroizing::new([1; 32]);
            let position = Position { created_at, id };
            prop_assert_eq!(scope.read(&key, &scope.write(&key, &position)), Some(position));
        }
    }
}
