//! Tables as text for spreadsheets: UTF-8 with a byte-order mark, lines ending with CRLF (RFC 4180). A cell that a spreadsheet would take for a formula begins
//! with an apostrophe.

/// A table, line by line.
pub struct Table(String);

impl Table {
    /// A table with these heads.
    pub fn new(heads: &[&str]) -> Table {
        let mut table = Table("\u{feff}".to_owned());
        table.row(heads.iter().copied());
        table
    }

    /// Adds a line.
    pub fn row<'a>(&mut self, cells: impl IntoIterator<Item = &'a str>) {
        for (at, cell) in cells.into_iter().enumerate() {
            if at > 0 {
                self.0.push(',');
            }
            self.cell(cell);
        }
        self.0.push_str("\r\n");
    }

    /// The text.
    pub fn finish(self) -> String {
        self.0
    }

    fn cell(&mut self, cell: &str) {
        let is_number = cell.parse::<i64>().is_ok();
        // full-width forms are folded by some programs
        let is_formula = !is_number && cell.starts_with(['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠']);
        let guard = if is_formula { "'" } else { "" };
        if cell.contains(['"', ',', '\r', '\n']) {
            self.0.push_str(&format!("\"{guard}{}\"", cell.replace('"', "\"\"")));
        } else {
            self.0.push_str(guard);
            self.0.push_str(cell);
        }
    }
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
