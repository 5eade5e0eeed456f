//! Pages of lists: newest first by (`created_at`, id), with the exact number of rows on all pages (readings I7).
//!
//! A page begins after a row, not at an index. Rows added between two pages are newer than all rows still to be read,
//! so no row is skipped or repeated. One statement reads the rows and their total, so both are of the same moment.

use sqlx::{ColumnIndex, Decode, FromRow, Type};

use crate::Result;
use crate::database::{Database, Row, Sql, Value};

/// A page's rows, and the number of rows on all pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRows<T> {
    /// The rows, at most as many as requested.
    pub rows: Vec<T>,
    /// Number of rows on all pages.
    pub total: i64,
}

/// A row of a page, with the number of rows on all pages.
pub(crate) struct Counted<T> {
    row: T,
    total_count: i64,
}

impl<'r, R: sqlx::Row, T: FromRow<'r, R>> FromRow<'r, R> for Counted<T>
where
    &'static str: ColumnIndex<R>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        Ok(Counted { row: T::from_row(row)?, total_count: row.try_get("total_count")? })
    }
}

/// Reads a page. `rows` selects the rows; each row contains the total in a column `total_count`. `count` selects only
/// the total, for a page after the last row. If the first page is empty, the total is 0.
pub(crate) async fn page<T: Row>(
    db: &Database,
    is_first: bool,
    (rows, values): (impl Into<Sql>, &[Value<'_>]),
    (count, count_values): (impl Into<Sql>, &[Value<'_>]),
) -> Result<PageRows<T>>
where
    Counted<T>: Row,
{
    let counted: Vec<Counted<T>> = db.fetch_all(rows.into(), values).await?;
    let total = match counted.first() {
        Some(first) => first.total_count,
        None if is_first => 0,
        None => db.fetch_one::<(i64,)>(count.into(), count_values).await?.0,
    };
    Ok(PageRows { rows: counted.into_iter().map(|counted| counted.row).collect(), total })
}
