//! Rows in every table of a schema, and all rows of a database as texts, for tests of copies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, Row, SqliteConnection};

/// Texts of the rows. Texts of a row are the same in all tables, so rows that refer to each other fit.
const TEXTS: [&str; 3] = ["O'Brien \"quoted\" \\ 漢字 \u{1f980}\n\t%s $1 \u{1f}", "", "third"];
/// Integers of the rows. The audit of the ledger makes times of the numbers of months, so they are not the largest.
const INTEGERS: [i64; 3] = [100_003, 1, 7];
/// Separates the columns of a row in [`all_rows`].
const BETWEEN: u32 = 30;

/// A column of an SQLite table.
struct Column {
    table: String,
    name: String,
    kind: String,
    may_be_null: bool,
    /// The text that made the table.
    definition: String,
}

/// Runs statements for which the store has no function, on either database.
///
/// # Panics
/// If a statement fails.
pub async fn execute(url: &str, sql: &str) {
    let sql = AssertSqlSafe(sql.to_owned());
    let done = match url.starts_with("sqlite:") {
        true => {
            let mut file = SqliteConnection::connect(url).await.expect("the file opens");
            let done = sqlx::raw_sql(sql).execute(&mut file).await.map(drop);
            file.close().await.expect("the file closes");
            done
        }
        false => {
            let mut connection = PgConnection::connect(url).await.expect("a connection");
            sqlx::raw_sql(sql).execute(&mut connection).await.map(drop)
        }
    };
    done.expect("the statement runs");
}

/// Writes three rows to every table of an SQLite file: with odd values, with empty values, and with nulls where the
/// schema allows them. `special` gives the values of columns that other values do not fit, such as names of objects.
/// `booleans`: the columns `table.column` whose integers are truth values.
///
/// # Panics
/// If a row breaks the schema.
pub async fn fill_every_table(
    path: &Path,
    booleans: &BTreeSet<String>,
    special: impl Fn(&str, usize) -> Option<String>,
) {
    let options = SqliteConnectOptions::new().filename(path).foreign_keys(false);
    let mut file = options.connect().await.expect("the file opens");
    let sql = "SELECT t.name, c.name, c.type, c.\"notnull\" = 0 AND c.pk = 0, t.sql FROM sqlite_master t, pragma_table_info(t.name) c \
         WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' AND t.name NOT LIKE '\\_sqlx%' ESCAPE '\\' ORDER BY t.name, c.cid";
    let rows: Vec<(String, String, String, bool, String)> =
        sqlx::query_as(sql).fetch_all(&mut file).await.expect("rows");
    let mut tables: BTreeMap<String, Vec<Column>> = BTreeMap::new();
    for (table, name, kind, may_be_null, definition) in rows {
        let column = Column { table: table.clone(), name, kind, may_be_null, definition };
        tables.entry(table).or_default().push(column);
    }
    for (table, columns) in &tables {
        let count = AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"));
        let is_empty = sqlx::query_scalar::<_, i64>(count).fetch_one(&mut file).await.expect("a count") == 0;
        for row in 0..TEXTS.len() {
            let value = |column: &Column| {
                let name = format!("{table}.{}", column.name);
                special(&name, row).unwrap_or_else(|| column.value(row, booleans.contains(&name)))
            };
            let values: Vec<String> = columns.iter().map(value).collect();
            // a table may allow one row alone, or refuse nulls in these columns together
            let verb = if row == 0 && is_empty { "INSERT" } else { "INSERT OR IGNORE" };
            let sql = format!("{verb} INTO {table} VALUES ({})", values.join(", "));
            let done = sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&mut file).await;
            assert!(done.is_ok(), "{sql}: {done:?}");
        }
    }
    let broken = "SELECT DISTINCT \"table\", parent FROM pragma_foreign_key_check";
    let broken: Vec<(String, String)> = sqlx::query_as(broken).fetch_all(&mut file).await.expect("a check");
    assert_eq!(broken, [], "rows refer to no row");
    file.close().await.expect("the file closes");
}

impl Column {
    /// Returns a value as SQL.
    fn value(&self, row: usize, is_boolean: bool) -> String {
        if row == 2 && self.may_be_null {
            return "NULL".to_owned();
        }
        let words = self.allowed_words();
        match self.kind.as_str() {
            _ if !words.is_empty() => words[row % words.len()].clone(),
            "TEXT" => format!("'{}'", TEXTS[row].replace('\'', "''")),
            "INTEGER" if is_boolean => (row % 2).to_string(),
            "INTEGER" => INTEGERS[row].to_string(),
            // digests that refer to a row of another table have no check of their length
            "BLOB" => match self
                .after(&format!("length({}) = ", self.name))
                .or(self.name.ends_with("digest").then_some("32"))
            {
                Some(length) => format!("X'{}'", format!("{:02x}", row + 1).repeat(length.parse().expect("a length"))),
                None => ["X''", "X'000102fdfeff'", "X'00'"][row].to_owned(),
            },
            other => panic!("{}.{} has the type {other}", self.table, self.name),
        }
    }

    /// Returns the digits or the text in quotes behind a part of the table's definition.
    fn after(&self, part: &str) -> Option<&str> {
        let (_, rest) = self.definition.split_once(part)?;
        Some(&rest[..rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?])
    }

    /// Returns the values that a check of the column allows, as SQL.
    fn allowed_words(&self) -> Vec<String> {
        let name = &self.name;
        if let Some((_, rest)) = self.definition.split_once(&format!("({name} IN (")) {
            return rest.split(')').next().expect("a list").split(", ").map(str::to_owned).collect();
        }
        if let Some(word) = self.after(&format!("CHECK ({name} = '")) {
            return vec![format!("'{word}'")];
        }
        self.after(&format!("CHECK ({name} = ")).map(|number| vec![number.to_owned()]).unwrap_or_default()
    }
}

/// Returns the columns of PostgreSQL's schema that have truth values, as `table.column`.
///
/// # Panics
/// If the database does not answer.
pub async fn boolean_columns(url: &str) -> BTreeSet<String> {
    let sql = "SELECT table_name || '.' || column_name FROM information_schema.columns \
         WHERE table_schema = 'public' AND data_type = 'boolean'";
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    sqlx::query_scalar(sql).fetch_all(&mut connection).await.expect("rows").into_iter().collect()
}

/// Returns all rows of a database, by table, as texts in the order of the texts. The columns have the order of their
/// names, and truth values are 0 and 1, so equal databases of both kinds have equal texts.
///
/// # Panics
/// If the database does not answer.
pub async fn all_rows(url: &str) -> BTreeMap<String, Vec<String>> {
    if url.starts_with("sqlite:") { rows_of_sqlite(url).await } else { rows_of_postgres(url).await }
}

async fn rows_of_sqlite(url: &str) -> BTreeMap<String, Vec<String>> {
    let mut file = SqliteConnection::connect(url).await.expect("the file opens");
    let text = "CASE WHEN {} IS NULL THEN 'null' WHEN typeof({}) = 'blob' THEN 'x' || lower(hex({})) ELSE CAST({} AS TEXT) END";
    let sql = "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table' \
         AND t.name NOT LIKE 'sqlite_%' AND t.name NOT LIKE '\\_sqlx%' ESCAPE '\\' ORDER BY t.name, c.name";
    let columns: Vec<(String, String)> = sqlx::query_as(sql).fetch_all(&mut file).await.expect("columns");
    let mut all = BTreeMap::new();
    for (table, texts) in
        by_table(columns.into_iter().map(|(table, column)| (table, text.replace("{}", &quoted(&column)))))
    {
        let sql = format!("SELECT {} FROM {}", texts.join(&format!(" || char({BETWEEN}) || ")), quoted(&table));
        let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut file).await.expect("rows");
        all.insert(table, sorted(rows.iter().map(|row| row.get::<String, _>(0))));
    }
    file.close().await.expect("the file closes");
    all
}

async fn rows_of_postgres(url: &str) -> BTreeMap<String, Vec<String>> {
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    let text = |column: &str, kind: &str| {
        let column = quoted(column);
        let text = match kind {
            "bytea" => format!("'x' || encode({column}, 'hex')"),
            "boolean" => format!("CAST(CAST({column} AS INTEGER) AS TEXT)"),
            _ => format!("CAST({column} AS TEXT)"),
        };
        format!("COALESCE({text}, 'null')")
    };
    let sql = "SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns \
         JOIN information_schema.tables USING (table_schema, table_name) WHERE table_schema = 'public' \
         AND table_type = 'BASE TABLE' AND table_name NOT LIKE '\\_sqlx%' ORDER BY table_name, column_name COLLATE \"C\"";
    let columns: Vec<(String, String, String)> = sqlx::query_as(sql).fetch_all(&mut connection).await.expect("columns");
    let mut all = BTreeMap::new();
    for (table, texts) in by_table(columns.into_iter().map(|(table, column, kind)| (table, text(&column, &kind)))) {
        let sql = format!("SELECT {} FROM {}", texts.join(&format!(" || chr({BETWEEN}) || ")), quoted(&table));
        let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut connection).await.expect("rows");
        all.insert(table, sorted(rows.iter().map(|row| row.get::<String, _>(0))));
    }
    all
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

fn by_table(columns: impl Iterator<Item = (String, String)>) -> BTreeMap<String, Vec<String>> {
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    columns.for_each(|(table, text)| tables.entry(table).or_default().push(text));
    tables
}

fn sorted(rows: impl Iterator<Item = String>) -> Vec<String> {
    let mut rows: Vec<String> = rows.collect();
    rows.sort_unstable();
    rows
}
