//! A document as a page of HTML that prints on A4 and fetches nothing. Every text is escaped.

use std::fmt::Write;

use super::Theme;
use super::sheet::Sheet;
use crate::drawing::{Colour, Picture};

const STYLE: &str = include_str!("document.css");

pub(super) fn page(sheet: &Sheet, theme: &Theme) -> String {
    let mut page = Page(String::with_capacity(16 * 1024));
    page.head(sheet, theme.colour);
    page.parties(sheet, theme);
    page.table(sheet);
    page.sums(sheet);
    page.rest(sheet);
    page.0
}

struct Page(String);

impl Page {
    fn put(&mut self, markup: impl std::fmt::Display) {
        write!(self.0, "{markup}").expect("writing to memory");
    }

    fn head(&mut self, sheet: &Sheet, colour: Colour) {
        let Colour(red, green, blue) = colour;
        let on_colour = if colour.is_dark() { "#fff" } else { "#22262b" };
        let (title, number) = (Text(sheet.title), Text(&sheet.identity[0].1));
        self.put(format_args!(
            "<!DOCTYPE html>\n<html lang=\"ja\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\"><title>{title} {number}</title>\n<style>\
             :root{{--brand:#{red:02x}{green:02x}{blue:02x};--on-brand:{on_colour}}}\n{STYLE}</style></head>\n<body><main>\
             <header><h1>{title}</h1>"
        ));
        if let Some(by_law) = sheet.by_law {
            self.put(format_args!("<p class=\"law\">{}</p>", Text(by_law)));
        }
        self.put("</header>\n");
    }

    fn parties(&mut self, sheet: &Sheet, theme: &Theme) {
        self.put("<div class=\"parties\"><section>");
        if let Some(recipient) = &sheet.recipient {
            self.put(format_args!("<p class=\"recipient\">{}</p>", Text(recipient)));
        }
        if let Some(opening) = sheet.opening {
            self.put(format_args!("<p>{}</p>", Text(opening)));
        }
        let (label, amount) = &sheet.sum;
        self.put(format_args!("<p class=\"sum\"><span>{}</span><strong>{}</strong></p>", Text(label), Text(amount)));
        self.pairs(&sheet.terms);
        let class = if theme.seal.is_some() { "issuer sealed" } else { "issuer" };
        self.put(format_args!("</section><section class=\"{class}\">"));
        self.pairs(&sheet.identity);
        if let Some(logo) = &theme.logo {
            self.picture(logo, "logo");
        }
        self.put(format_args!("<p class=\"name\">{}", Text(&sheet.issuer)));
        if let Some(seal) = &theme.seal {
            self.picture(seal, "seal");
        }
        self.put("</p>");
        for line in &sheet.issuer_lines {
            self.put(format_args!("<p>{}</p>", Text(line)));
        }
        self.put("</section></div>\n");
    }

    fn picture(&mut self, picture: &Picture, class: &str) {
        self.put(format_args!("<img class=\"{class}\" alt=\"\" src=\"{}\">", Text(&picture.uri)));
    }

    fn pairs(&mut self, pairs: &[(&str, String)]) {
        if pairs.is_empty() {
            return;
        }
        self.put("<dl>");
        for (label, value) in pairs {
            self.put(format_args!("<dt>{}</dt><dd>{}</dd>", Text(label), Text(value)));
        }
        self.put("</dl>");
    }

    fn table(&mut self, sheet: &Sheet) {
        let label = sheet.price_label;
        self.put(format_args!(
            "<table class=\"lines\"><thead><tr><th>品目</th><th>数量</th><th>単価（{label}）</th><th>税率</th>\
             <th>金額（{label}）</th></tr></thead>\n<tbody>"
        ));
        for row in &sheet.rows {
            self.put(format_args!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                Text(&row.name),
                Text(&row.quantity),
                Text(&row.unit_price),
                Text(&row.rate),
                Text(&row.amount)
            ));
        }
        self.put("</tbody></table>\n");
    }

    fn sums(&mut self, sheet: &Sheet) {
        self.put("<div class=\"sums\"><section><table class=\"rates\"><thead><tr><th>内訳</th><th>金額</th><th>消費税</th></tr></thead><tbody>");
        for [what, amount, tax] in &sheet.rates {
            self.put(format_args!("<tr><td>{}</td><td>{}</td><td>{}</td></tr>", Text(what), Text(amount), Text(tax)));
        }
        self.put("</tbody></table>");
        if let Some(note) = sheet.reduced_note {
            self.put(format_args!("<p class=\"note\">{}</p>", Text(note)));
        }
        self.put("</section><table class=\"totals\"><tbody>");
        for (label, amount, is_final) in &sheet.totals {
            let class = if *is_final { " class=\"final\"" } else { "" };
            self.put(format_args!("<tr{class}><th>{}</th><td>{}</td></tr>", Text(label), Text(amount)));
        }
        self.put("</tbody></table></div>\n");
    }

    fn rest(&mut self, sheet: &Sheet) {
        for (heading, lines) in &sheet.blocks {
            self.put(format_args!("<section class=\"block\"><h2>{}</h2>", Text(heading)));
            for line in lines {
                self.put(format_args!("<p>{}</p>", Text(line)));
            }
            self.put("</section>\n");
        }
        if !sheet.footer.is_empty() {
            self.put("<footer>");
            for line in &sheet.footer {
                self.put(format_args!("<p>{}</p>", Text(line)));
            }
            self.put("</footer>");
        }
        self.put("</main></body></html>\n");
    }
}

/// A text, escaped for an element or an attribute in double quotes.
struct Text<'a>(&'a str);

impl std::fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                _ => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::super::sheet::sheet;
    use super::super::tests::draft;
    use super::*;
    use crate::drawing::picture::tests::png_uri;

    /// Returns the declarations of a rule of a style.
    fn rule<'a>(style: &'a str, selector: &str) -> &'a str {
        let (_, rest) = style.split_once(&format!("{selector}{{")).unwrap_or_else(|| panic!("no rule for {selector}"));
        rest.split_once('}').expect("a rule ends").0
    }

    #[test]
    fn b8_the_seal_covers_no_digit_of_the_registration_number_on_a_narrow_screen() {
        let mut sealed = draft(Kind::Invoice);
        sealed.theme.seal = Some(Picture::from_data_uri(&png_uri(9, 9, |_, _| [0; 4])).unwrap());
        let document = sealed.complete().unwrap();
        let page = page(&sheet(&document), &document.draft.theme);
        assert!(page.starts_with("<!DOCTYPE html>\n"), "the form that the standard gives");
        assert!(page.contains("<section class=\"issuer sealed\">"));
        let (wide, narrow) = STYLE.split_once("@media (max-width:640px)").expect("a rule for narrow screens");
        // the section of the issuer does not shrink to its text, and the text leaves room for the seal's 20 mm
        assert_eq!(rule(narrow, ".parties section"), "flex:none;width:100%");
        assert!(rule(wide, ".issuer .seal").contains("width:20mm"));
        assert_eq!(rule(narrow, ".sealed .name,.sealed .name~p"), "padding-right:22mm");
    }
}
