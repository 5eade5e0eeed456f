//! Tables as CSV for spreadsheets: UTF-8 with a byte-order mark, lines ending with CRLF (RFC 4180). A cell that a
//! spreadsheet would take for a formula gets an apostrophe before it.

use std::borrow::Cow;

use csv::{Terminator, Writer, WriterBuilder};

/// A table that is written line by line.
pub struct Table(Writer<Vec<u8>>);

impl Table {
    /// Begins a table with these heads.
    pub fn new(heads: &[&str]) -> Table {
        let start = "\u{feff}".as_bytes().to_vec();
        let mut table = Table(WriterBuilder::new().terminator(Terminator::CRLF).flexible(true).from_writer(start));
        table.row(heads.iter().copied());
        table
    }

    /// Adds a line.
    pub fn row<'a>(&mut self, cells: impl IntoIterator<Item = &'a str>) {
        let cells = cells.into_iter().map(guarded);
        self.0.write_record(cells.map(|cell| cell.into_owned())).expect("writing to memory");
    }

    /// The text.
    pub fn finish(self) -> String {
        let bytes = self.0.into_inner().expect("writing to memory");
        String::from_utf8(bytes).expect("cells are text")
    }
}

/// Returns the cell, with an apostrophe before it if a spreadsheet would take it for a formula.
fn guarded(cell: &str) -> Cow<'_, str> {
    let is_number = cell.parse::<i64>().is_ok();
    // some programs treat full-width signs as ASCII
    let is_formula = !is_number && cell.starts_with(['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠']);
    if is_formula { format!("'{cell}").into() } else { cell.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_no_cell_is_a_formula() {
        let mut table = Table::new(&["名前", "円"]);
        table.row(["a,\"b\"\nc", "-12"]);
        table.row(["=HYPERLINK(\"x\")", "+1+1"]);
        table.row(["@SUM", "－1"]);
        assert_eq!(
            table.finish(),
            "\u{feff}名前,円\r\n\"a,\"\"b\"\"\nc\",-12\r\n\"'=HYPERLINK(\"\"x\"\")\",'+1+1\r\n'@SUM,'－1\r\n"
        );
    }
}
