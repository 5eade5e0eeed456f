//! The two faces that documents are set in: BIZ UDGothic, regular and bold (SIL Open Font License, `fonts/OFL.txt`).
//! The faces are embedded in the program, so that equal documents have equal bytes on every machine. Latin letters and
//! digits are half an em wide, so that amounts align.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use printpdf::ParsedFont;

use super::POINT;

/// A face.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// BIZ UDGothic Regular.
    Regular,
    /// BIZ UDGothic Bold.
    Bold,
}

static REGULAR: LazyLock<ParsedFont> = LazyLock::new(|| parse(include_bytes!("../../fonts/BIZUDGothic-Regular.ttf")));
static BOLD: LazyLock<ParsedFont> = LazyLock::new(|| parse(include_bytes!("../../fonts/BIZUDGothic-Bold.ttf")));

fn parse(bytes: &[u8]) -> ParsedFont {
    ParsedFont::from_bytes(bytes, 0, &mut Vec::new()).expect("the embedded font is whole")
}

impl Weight {
    fn font(self) -> &'static ParsedFont {
        match self {
            Weight::Regular => &REGULAR,
            Weight::Bold => &BOLD,
        }
    }

    /// Whether the face has a glyph for a character.
    pub fn has(self, character: char) -> bool {
        self.font().codepoint_to_glyph.contains_key(&u32::from(character))
    }

    /// Width of a text in millimetres; `size` is in points.
    pub fn width(self, text: &str, size: f32) -> f32 {
        let font = self.font();
        let advance = |character: char| {
            let glyph = font.codepoint_to_glyph.get(&u32::from(character));
            glyph.and_then(|glyph| font.glyph_widths.get(glyph)).copied().unwrap_or(font.units_per_em)
        };
        let units: u32 = text.chars().map(|character| u32::from(advance(character))).sum();
        units as f32 / f32::from(font.units_per_em) * size * POINT
    }

    /// Reduces the face to the glyphs of the characters in `used`; a character without a glyph is left out. The
    /// subset's table from glyphs to characters holds only these characters, so that text is extracted as written even
    /// where two characters share a glyph.
    pub(super) fn subset(self, used: &BTreeSet<char>) -> ParsedFont {
        let font = self.font();
        let (mut remapper, mut codepoint_to_glyph, mut glyph_widths) =
            (subsetter::GlyphRemapper::new(), BTreeMap::new(), BTreeMap::new());
        for character in used {
            let code = u32::from(*character);
            let Some(glyph) = font.codepoint_to_glyph.get(&code) else { continue };
            let of_subset = remapper.remap(*glyph);
            codepoint_to_glyph.insert(code, of_subset);
            glyph_widths.insert(of_subset, font.glyph_widths.get(glyph).copied().unwrap_or(font.units_per_em));
        }
        let name = match self {
            Weight::Regular => "ANGORG+BIZUDGothic-Regular",
            Weight::Bold => "ANGOBD+BIZUDGothic-Bold",
        };
        ParsedFont {
            original_bytes: subsetter::subset(&font.original_bytes, font.font_index, &remapper)
                .expect("the embedded font is whole"),
            font_index: 0,
            font_name: Some(name.to_owned()),
            codepoint_to_glyph,
            glyph_widths,
            units_per_em: font.units_per_em,
            font_metrics: font.font_metrics.clone(),
            font_type: font.font_type,
            pdf_font_metrics: font.pdf_font_metrics.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_half_an_em_and_kanji_a_whole_one_in_both_faces() {
        for weight in [Weight::Regular, Weight::Bold] {
            let em = weight.width("国", 10.0);
            assert!((em - 10.0 * POINT).abs() < 1e-4);
            for digit in "0123456789,.-".chars() {
                assert!((weight.width(&digit.to_string(), 10.0) * 2.0 - em).abs() < 1e-4, "{digit}");
            }
            // characters that occur in documents
            for character in "※￥〓①㈱髙﨑～ｱﾞ御中様殿（）－".chars() {
                assert!(weight.has(character), "{character}");
            }
            assert!(!weight.has('𠮷') && !weight.has('😀') && !weight.has('ש'));
        }
    }

    #[test]
    fn a_subset_holds_what_is_used_and_little_else() {
        let used: BTreeSet<char> = "請求書1,234円𠮷".chars().collect();
        let subset = Weight::Regular.subset(&used);
        assert_eq!(subset.codepoint_to_glyph.len(), used.len() - 1);
        assert!(subset.original_bytes.len() < 20_000, "{}", subset.original_bytes.len());
    }
}
