//! Lays out a document on A4 pages. The head and the sum come first, then the table, whose head is repeated on each
//! page, then the sums and the blocks. Lengths are millimetres from the upper left corner.

use super::Theme;
use super::sheet::{Row, Sheet};
use crate::drawing::pen::{Pen, Style};
use crate::drawing::text::wrap;
use crate::drawing::{Colour, PAGE, Page, Weight};
use crate::limit::{Limit, Stopped};

const LEFT: f32 = 18.0;
const RIGHT: f32 = PAGE.0 - 18.0;
const WIDTH: f32 = RIGHT - LEFT;
/// Top of the content on the first page, and top of the content on later pages.
const TOP: f32 = 16.0;
const TOP_LATER: f32 = 20.0;
/// Top of the line with page numbers.
const FOOT: f32 = PAGE.1 - 10.0;
/// Width of the column with the recipient and the sum; left edge of the column with the issuer.
const PARTY_WIDTH: f32 = 92.0;
const ISSUER_LEFT: f32 = RIGHT - 68.0;
const LOGO_MAX: (f32, f32) = (50.0, 16.0);
const SEAL_SIDE: f32 = 20.0;
/// Padding in a cell of the table: at the sides, and above and below. Long tables have closer rows.
const CELL: f32 = 1.8;
const CELL_CLOSE: f32 = 0.6;
/// Number of rows from which a table is long.
const LONG_TABLE: usize = 60;
/// Thickness of lines.
const THIN: f32 = 0.15;
const THICK: f32 = 0.5;

/// Draws the pages of a document.
pub(super) fn pages(sheet: &Sheet, theme: &Theme, limit: Limit<'_>) -> Result<Vec<Page>, Stopped> {
    let mut layout = Layout { sheet, theme, pen: Pen::new(TOP) };
    layout.head();
    layout.table(limit)?;
    layout.sums();
    layout.blocks();
    layout.feet();
    Ok(layout.pen.pages)
}

struct Layout<'a> {
    sheet: &'a Sheet,
    theme: &'a Theme,
    pen: Pen,
}

impl Layout<'_> {
    // ---- foot of a page, page breaks

    fn bottom(&self) -> f32 {
        FOOT - 4.0 - self.foot_lines().len() as f32 * Style::FOOT.leading()
    }

    fn foot_lines(&self) -> Vec<String> {
        let lines = self.sheet.footer.iter();
        lines.flat_map(|line| wrap(line, WIDTH - 20.0, Style::FOOT.size, Style::FOOT.weight)).collect()
    }

    /// Whether `height` does not fit on this page, and the page has content.
    fn is_full(&self, height: f32) -> bool {
        self.pen.y + height > self.bottom() && self.pen.y > TOP_LATER
    }

    /// Begins a new page when `height` does not fit on this one.
    fn make_room(&mut self, height: f32) {
        if self.is_full(height) {
            self.turn();
        }
    }

    /// Begins a new page, with a line that names the document.
    fn turn(&mut self) {
        self.pen.turn(TOP_LATER);
        self.bar();
        let number = self.sheet.identity[0].1.clone();
        let line = format!("{}　{number}　{}", self.sheet.title, self.sheet.issuer);
        let first = wrap(&line, WIDTH, Style::LABEL.size, Style::LABEL.weight).swap_remove(0);
        self.pen.text(LEFT, 10.0, Style::LABEL, &first);
    }

    fn bar(&mut self) {
        self.pen.fill([0.0, 0.0, PAGE.0, 2.5], self.theme.colour);
    }

    fn feet(&mut self) {
        let lines = self.foot_lines();
        let count = self.pen.pages.len();
        let pages = std::mem::take(&mut self.pen.pages);
        for (at, page) in pages.into_iter().enumerate() {
            self.pen.pages.push(page);
            let mut y = FOOT - (lines.len() as f32 - 1.0) * Style::FOOT.leading();
            for line in &lines {
                self.pen.text(LEFT, y, Style::FOOT, line);
                y += Style::FOOT.leading();
            }
            self.pen.text_right(RIGHT, FOOT, Style::FOOT, &format!("{} / {count}", at + 1));
        }
    }

    // ---- parts

    fn head(&mut self) {
        self.bar();
        let title = Style { size: 22.0, weight: Weight::Bold, colour: Colour::INK };
        self.pen.text(LEFT, TOP, title, self.sheet.title);
        if let Some(by_law) = self.sheet.by_law {
            self.pen.text(LEFT, TOP + title.leading(), Style::LABEL, by_law);
        }
        let top = 38.0;
        let left = self.recipient(top);
        let right = self.issuer(TOP + 1.0);
        self.pen.y = left.max(right) + 7.0;
    }

    /// Draws the recipient, the sum and its terms. Returns the `y` below them.
    fn recipient(&mut self, mut y: f32) -> f32 {
        if let Some(recipient) = &self.sheet.recipient {
            let style = Style { size: 13.0, ..Style::BOLD };
            y = self.pen.lines(LEFT, y, PARTY_WIDTH, style, recipient);
            self.pen.fill([LEFT, y, PARTY_WIDTH, 2.0 * THIN], Colour::INK);
            y += 3.0;
        }
        if let Some(opening) = self.sheet.opening {
            y = self.pen.lines(LEFT, y, PARTY_WIDTH, Style::BODY, opening) + 3.0;
        }
        let (label, amount) = &self.sheet.sum;
        let style = Style { size: 10.0, ..Style::BOLD };
        let room = PARTY_WIDTH - style.width(label) - 6.0;
        let wide = Style { size: 20.0, weight: Weight::Bold, colour: Colour::INK };
        let large = Style { size: wide.size * (room / wide.width(amount)).min(1.0), ..wide };
        self.pen.text(LEFT + 1.0, y + wide.leading() - style.leading() - 1.2, style, label);
        self.pen.text_right(LEFT + PARTY_WIDTH - 1.0, y + wide.leading() - large.leading(), large, amount);
        y += wide.leading() + 0.5;
        self.pen.fill([LEFT, y, PARTY_WIDTH, THICK], self.theme.colour);
        self.pen.pairs(LEFT + 1.0, y + 3.0, PARTY_WIDTH - 2.0, &self.sheet.terms)
    }

    /// Draws number, dates and issuer. Returns the `y` below them.
    fn issuer(&mut self, y: f32) -> f32 {
        let width = RIGHT - ISSUER_LEFT;
        let mut y = self.pen.pairs(ISSUER_LEFT, y, width, &self.sheet.identity) + 4.0;
        if let Some(logo) = &self.theme.logo {
            y += self.pen.picture([ISSUER_LEFT, y], LOGO_MAX, logo, 100) + 2.0;
        }
        let name_top = y;
        let name_width = if self.theme.seal.is_some() { width - SEAL_SIDE / 2.0 } else { width };
        y = self.pen.lines(ISSUER_LEFT, y, name_width, Style { size: 11.0, ..Style::BOLD }, &self.sheet.issuer) + 0.5;
        for line in &self.sheet.issuer_lines {
            y = self.pen.lines(ISSUER_LEFT, y, width, Style::SMALL, line);
        }
        if let Some(seal) = &self.theme.seal {
            // the seal overlaps the issuer's name
            self.pen.picture([RIGHT - SEAL_SIDE, name_top - 2.0], (SEAL_SIDE, SEAL_SIDE), seal, 80);
            y = y.max(name_top + SEAL_SIDE);
        }
        y
    }

    fn table(&mut self, limit: Limit<'_>) -> Result<(), Stopped> {
        let columns = Columns::of(self.sheet);
        let padding = if self.sheet.rows.len() < LONG_TABLE { CELL } else { CELL_CLOSE };
        let note_height = self.sheet.reduced_note.map_or(0.0, |_| Style::SMALL.leading() + 1.5);
        self.table_head(&columns);
        for row in &self.sheet.rows {
            limit.check()?;
            let name = wrap(&row.name, columns.name_width(), Style::BODY.size, Style::BODY.weight);
            let height = name.len() as f32 * Style::BODY.leading() + 2.0 * padding;
            if self.is_full(height + note_height) {
                self.reduced_note();
                self.turn();
                self.table_head(&columns);
            }
            let top = self.pen.y + padding;
            // the name comes first, because copied text has the order of the marks
            for (at, line) in name.iter().enumerate() {
                self.pen.text(LEFT + CELL, top + at as f32 * Style::BODY.leading(), Style::BODY, line);
            }
            for (right, text) in columns.rights.into_iter().zip(numbers(row)) {
                self.pen.text_right(right - CELL, top, Style::BODY, text);
            }
            self.pen.y += height;
            self.pen.fill([LEFT, self.pen.y - THIN, WIDTH, THIN], Colour::LINE);
        }
        self.reduced_note();
        self.pen.y += 5.0;
        Ok(())
    }

    /// Explains the mark of the reduced rate below the rows of a page.
    fn reduced_note(&mut self) {
        if let Some(note) = self.sheet.reduced_note {
            self.pen.text(LEFT + CELL, self.pen.y + 1.5, Style::SMALL, note);
            self.pen.y += Style::SMALL.leading() + 1.5;
        }
    }

    fn table_head(&mut self, columns: &Columns) {
        let colour = if self.theme.colour.is_dark() { Colour::WHITE } else { Colour::INK };
        let style = Style { size: 8.5, weight: Weight::Bold, colour };
        let height = style.leading() + 2.0 * CELL - 0.6;
        self.pen.fill([LEFT, self.pen.y, WIDTH, height], self.theme.colour);
        let y = self.pen.y + CELL - 0.3;
        self.pen.text(LEFT + CELL, y, style, "品目");
        for (right, label) in columns.rights.into_iter().zip(heads(self.sheet)) {
            self.pen.text_right(right - CELL, y, style, &label);
        }
        self.pen.y += height;
    }

    /// Draws the sums of each rate on the left, and the document's sums on the right.
    fn sums(&mut self) {
        let total_height = Style::BODY.leading() + 2.0;
        let rate_height = Style::SMALL.leading() + 1.2;
        let height =
            (self.sheet.totals.len() as f32 * total_height).max((self.sheet.rates.len() + 1) as f32 * rate_height);
        self.make_room(height);
        let top = self.pen.y;
        let rights = self.rate_columns();
        let mut y = top;
        let head = ["内訳", "金額", "消費税"].map(str::to_owned);
        for (at, cells) in std::iter::once(&head).chain(&self.sheet.rates).enumerate() {
            let style = if at == 0 { Style::LABEL } else { Style::SMALL };
            self.pen.text(LEFT + CELL, y + 0.6, style, &cells[0]);
            self.pen.text_right(rights[0], y + 0.6, style, &cells[1]);
            self.pen.text_right(rights[1], y + 0.6, style, &cells[2]);
            y += rate_height;
            self.pen.fill([LEFT, y - THIN, rights[1] + CELL - LEFT, THIN], Colour::LINE);
        }
        y = top;
        let (label_left, right) = (RIGHT - 72.0, RIGHT - CELL);
        for (label, amount, is_final) in &self.sheet.totals {
            let style = if *is_final { Style { size: 10.5, ..Style::BOLD } } else { Style::BODY };
            let offset = y + (total_height - style.leading()) / 2.0;
            self.pen.text(label_left + CELL, offset, style, label);
            self.pen.text_right(right, offset, style, amount);
            y += total_height;
            let (thickness, colour) = if *is_final { (THICK, self.theme.colour) } else { (THIN, Colour::LINE) };
            self.pen.fill([label_left, y - thickness, RIGHT - label_left, thickness], colour);
        }
        self.pen.y = top + height + 7.0;
    }

    /// Right ends of the two columns with the amounts and the taxes of the rates.
    fn rate_columns(&self) -> [f32; 2] {
        let widest = |column: usize| {
            self.sheet.rates.iter().map(|cells| Style::SMALL.width(&cells[column])).fold(14.0, f32::max)
        };
        let amounts = LEFT + CELL + widest(0) + 5.0 + widest(1);
        [amounts, amounts + 5.0 + widest(2)]
    }

    fn blocks(&mut self) {
        for (heading, lines) in &self.sheet.blocks {
            let leading = Style::BODY.leading();
            // a heading must not be the last line of a page, so make room for two lines
            self.make_room(2.0 * leading);
            self.block_line(Style::BOLD, heading);
            for line in lines.iter().flat_map(|line| wrap(line, WIDTH - 5.0, Style::BODY.size, Style::BODY.weight)) {
                self.make_room(leading);
                self.block_line(Style::BODY, &line);
            }
            self.pen.y += 4.0;
        }
    }

    fn block_line(&mut self, style: Style, line: &str) {
        let leading = Style::BODY.leading();
        self.pen.fill([LEFT, self.pen.y, 0.8, leading], self.theme.colour);
        self.pen.text(LEFT + 4.0, self.pen.y, style, line);
        self.pen.y += leading;
    }
}

/// Right ends of the columns with quantity, price, rate and amount.
struct Columns {
    rights: [f32; 4],
    first_width: f32,
}

impl Columns {
    /// Lays out the columns. Each column is as wide as its widest text. The name takes the remaining width.
    fn of(sheet: &Sheet) -> Columns {
        let mut widths = heads(sheet).map(|head| Weight::Bold.width(&head, 8.5));
        for row in &sheet.rows {
            for (width, text) in widths.iter_mut().zip(numbers(row)) {
                *width = width.max(Style::BODY.width(text));
            }
        }
        let mut right = RIGHT;
        let mut rights = [0.0; 4];
        for at in (0..4).rev() {
            rights[at] = right;
            right -= widths[at] + 2.0 * CELL + 1.0;
        }
        Columns { rights, first_width: right - LEFT }
    }

    fn name_width(&self) -> f32 {
        self.first_width - 2.0 * CELL
    }
}

fn heads(sheet: &Sheet) -> [String; 4] {
    let basis = sheet.price_label;
    ["数量".to_owned(), format!("単価（{basis}）"), "税率".to_owned(), format!("金額（{basis}）")]
}

fn numbers(row: &Row) -> [&str; 4] {
    [&row.quantity, &row.unit_price, &row.rate, &row.amount]
}

#[cfg(test)]
mod tests {
    use super::super::sheet::sheet;
    use super::super::tests::{draft, line};
    use super::super::{Consignor, Kind};
    use super::*;
    use crate::drawing::picture::tests::png_uri;
    use crate::drawing::{Mark, Picture};

    /// With the longest accepted texts, each mark lies on its page above the foot, and the table has room.
    #[test]
    fn the_longest_document_stays_on_its_pages() {
        let long = |length: usize| "漢".repeat(length);
        let mut longest = draft(Kind::CreditNote);
        (longest.number, longest.recipient, longest.honorific) = (long(50), long(200), long(10));
        (longest.issuer.name, longest.issuer.tel) = (long(100), long(50));
        longest.issuer.address = [long(34), long(32), long(32), long(32), long(32), long(32)].join("\n");
        (longest.period, longest.payment_method, longest.original_date) = (long(100), long(100), long(100));
        longest.original_number = long(50);
        longest.notes = [long(4_600), "x\n".repeat(199)].concat();
        longest.transfer_fee_note = long(5_000);
        longest.consignor = Some(Consignor { name: long(200), registration_number: None });
        longest.theme.footer = ["一\n".repeat(5), long(190)].concat();
        longest.theme.logo = Some(Picture::from_data_uri(&png_uri(10, 600, |_, _| [0; 4])).unwrap());
        longest.theme.seal = Some(Picture::from_data_uri(&png_uri(600, 600, |_, _| [0; 4])).unwrap());
        longest.lines = vec![line(&long(200), "-999999.999999", "999999.999999", 8); 7];
        longest.lines.push(line(&long(200), "999999999999", "100", 10));
        let document = longest.complete().unwrap();
        let pages = pages(&sheet(&document), &document.draft.theme, Limit::NONE).unwrap();
        assert!(pages.len() > 5);
        for (at, mark) in pages.iter().flatten().enumerate() {
            let (left, right, top, bottom) = match mark {
                Mark::Text { x, baseline, size, weight, text, .. } => {
                    (*x, x + weight.width(text, *size), baseline - size * 0.31, *baseline)
                }
                Mark::Fill { x, y, width, height, .. } | Mark::Picture { x, y, width, height, .. } => {
                    (*x, x + width, *y, y + height)
                }
            };
            assert!(left >= 0.0 && right <= PAGE.0 + 0.01 && top >= 0.0 && bottom <= FOOT + 4.0, "mark {at}: {mark:?}");
        }
    }
}
