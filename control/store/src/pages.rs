//! Pages of lists: newest first by (`created_at`, id), with the exact number of rows on all pages (readings I7).
//!
//! A page begins after a row, not at a number. Rows that come between two pages are newer than all that are still to be
//! read, so nothing is skipped and nothing repeated. Rows and their number are one statement, so one moment.

use sqlx::{ColumnIndex, Decode, FromRow, Type};

use crate::Result;
use crate::database::{Database, Row, Sql, Value};

/// A page's rows and how many rows there are on all pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRows<T> {
    /// At most as many as were asked for.
    pub rows: Vec<T>,
    /// Rows on all pages.
    pub total: i64,
}

/// A row of a page.
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

/// A page: `rows` selects its rows, each with the number of all in a column `total_count`; `count` selects that number alone,
/// for a page after the last row. Where even the first page is empty there is nothing to count.
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
