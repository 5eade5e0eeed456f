//! Pages of lists (specification, Limits; readings I7, I8).

use serde::{Deserialize, Serialize};

/// Number of elements of a page if the request does not set `limit`.
pub const PAGE_LIMIT_DEFAULT: u32 = 20;
/// Largest number of elements of a page.
pub const PAGE_LIMIT_MAX: u32 = 100;

/// A page of a list, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// The elements.
    pub items: Vec<T>,
    /// Where the next page begins: the `cursor` of the next request. Null on the last page.
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    pub has_more: bool,
    /// Number of elements on all pages.
    pub total_count: u64,
}

impl<T> Page<T> {
    /// Returns this page with `items` in place of its elements.
    pub fn with<U>(&self, items: Vec<U>) -> Page<U> {
        let (next_cursor, has_more, total_count) = (self.next_cursor.clone(), self.has_more, self.total_count);
        Page { items, next_cursor, has_more, total_count }
    }
}
