//! The faces that documents are set in. BIZ UDGothic, regular and bold, has the characters of Japanese business. Latin
//! letters and digits are half an em wide, so that amounts align. The second faces have characters that BIZ UDGothic
//! lacks; `scripts/second-faces` makes them. All faces are embedded in the program, so that equal documents have equal
//! bytes on every machine. `fonts/` has their licences.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use printpdf::ParsedFont;

use super::POINT;

/// Advance of the comma and the point, in thousandths of the em. The font's own advance of half an em would tear
/// numbers apart: `¥563, 592`.
const TIGHT: usize = 280;

/// Regular or bold. The second faces have one weight, so bold text draws their outlines thicker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// BIZ UDGothic Regular.
    Regular,
    /// BIZ UDGothic Bold.
    Bold,
}

/// A file of glyphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Face {
    /// BIZ UDGothic Regular.
    Regular,
    /// BIZ UDGothic Bold.
    Bold,
    /// Kanji of JIS X 0213, letters and signs, from VL Gothic.
    Kanji,
    /// Korean letters, from NanumGothic.
    Hangul,
    /// Chinese characters, from Droid Sans Fallback.
    Hanzi,
}

/// The second faces, in the order in which they are asked for a character.
const SECOND: [Face; 3] = [Face::Kanji, Face::Hangul, Face::Hanzi];

static REGULAR: LazyLock<ParsedFont> =
    LazyLock::new(|| tightened(parse(include_bytes!("../../fonts/BIZUDGothic-Regular.ttf"))));
static BOLD: LazyLock<ParsedFont> =
    LazyLock::new(|| tightened(parse(include_bytes!("../../fonts/BIZUDGothic-Bold.ttf"))));
static KANJI: LazyLock<ParsedFont> = LazyLock::new(|| parse(include_bytes!("../../fonts/second/Kanji.ttf")));
static HANGUL: LazyLock<ParsedFont> = LazyLock::new(|| parse(include_bytes!("../../fonts/second/Hangul.ttf")));
static HANZI: LazyLock<ParsedFont> = LazyLock::new(|| parse(include_bytes!("../../fonts/second/Hanzi.ttf")));

fn parse(bytes: &[u8]) -> ParsedFont {
    ParsedFont::from_bytes(bytes, 0, &mut Vec::new()).expect("the embedded font is whole")
}

/// Gives comma and point a smaller advance, in the file's table of advances too, because PDF/A wants both to agree.
fn tightened(mut font: ParsedFont) -> ParsedFont {
    let advance = u16::try_from(usize::from(font.units_per_em) * TIGHT / 1000).expect("a part of 16 bits");
    let table = advances(&font.original_bytes).expect("the embedded font has advances");
    for character in [',', '.'] {
        let glyph = font.codepoint_to_glyph[&u32::from(character)];
        let at = table + 4 * usize::from(glyph);
        font.original_bytes[at..at + 2].copy_from_slice(&advance.to_be_bytes());
        font.glyph_widths.insert(glyph, advance);
    }
    font
}

/// Finds the table `hmtx` in a TrueType file: for each glyph two bytes of advance, and two of bearing.
fn advances(file: &[u8]) -> Option<usize> {
    let tables = file.get(12..)?.chunks_exact(16);
    let offset = tables.into_iter().find(|entry| entry.starts_with(b"hmtx"))?[8..12].try_into().ok()?;
    usize::try_from(u32::from_be_bytes(offset)).ok()
}

impl Weight {
    /// Whether BIZ UDGothic has a glyph for a character. Both weights have the same characters.
    pub fn has(self, character: char) -> bool {
        self.main().has(character)
    }

    /// Finds the face with a glyph for a character: BIZ UDGothic, or else a second face.
    pub(super) fn face(self, character: char) -> Option<Face> {
        [self.main()].into_iter().chain(SECOND).find(|face| face.has(character))
    }

    fn main(self) -> Face {
        match self {
            Weight::Regular => Face::Regular,
            Weight::Bold => Face::Bold,
        }
    }

    /// Width of a text in millimetres; `size` is in points. A character without a glyph counts as wide as an em.
    pub fn width(self, text: &str, size: f32) -> f32 {
        text.chars().map(|character| self.advance(character)).sum::<f32>() * size * POINT
    }

    /// The advance of a character's glyph, as a part of the em.
    fn advance(self, character: char) -> f32 {
        let main = self.main();
        let advance = main.advance(character);
        advance.or_else(|| SECOND.into_iter().find_map(|face| face.advance(character))).unwrap_or(1.0)
    }
}

impl Face {
    fn font(self) -> &'static ParsedFont {
        match self {
            Face::Regular => &REGULAR,
            Face::Bold => &BOLD,
            Face::Kanji => &KANJI,
            Face::Hangul => &HANGUL,
            Face::Hanzi => &HANZI,
        }
    }

    pub(super) fn is_second(self) -> bool {
        SECOND.contains(&self)
    }

    fn has(self, character: char) -> bool {
        self.font().codepoint_to_glyph.contains_key(&u32::from(character))
    }

    fn advance(self, character: char) -> Option<f32> {
        let font = self.font();
        let glyph = font.codepoint_to_glyph.get(&u32::from(character))?;
        let units = font.glyph_widths.get(glyph).copied().unwrap_or(font.units_per_em);
        Some(f32::from(units) / f32::from(font.units_per_em))
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
            Face::Regular => "ANGORG+BIZUDGothic-Regular",
            Face::Bold => "ANGOBD+BIZUDGothic-Bold",
            Face::Kanji => "ANGOKJ+Ango-Kanji",
            Face::Hangul => "ANGOHG+Ango-Hangul",
            Face::Hanzi => "ANGOHZ+Ango-Hanzi",
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
    fn digits_are_half_an_em_and_kanji_a_whole_one_in_both_weights() {
        for weight in [Weight::Regular, Weight::Bold] {
            let em = weight.width("国", 10.0);
            assert!((em - 10.0 * POINT).abs() < 1e-4);
            for digit in "0123456789-¥%".chars() {
                assert!((weight.width(&digit.to_string(), 10.0) * 2.0 - em).abs() < 1e-4, "{digit}");
            }
            // characters that occur in documents
            for character in "※￥〓①㈱髙﨑～ｱﾞ御中様殿（）－".chars() {
                assert!(weight.has(character), "{character}");
            }
            assert!(!weight.has('𠮷') && !weight.has('😀') && !weight.has('ש'));
        }
        assert!(REGULAR.codepoint_to_glyph.keys().eq(BOLD.codepoint_to_glyph.keys()));
    }

    #[test]
    fn a6_second_faces_have_what_the_first_one_lacks() {
        for (text, face) in [
            ("𠮷仔匇ẵ", Face::Kanji),
            ("홍길동갑ㄱ", Face::Hangul),
            // simplified Chinese, traditional Chinese, and a rare character
            ("们这么亿㐂", Face::Hanzi),
            ("吉田", Face::Bold),
        ] {
            for character in text.chars() {
                let of = Weight::Bold.face(character).unwrap();
                let is_right = of == face || face == Face::Hanzi && of == Face::Kanji;
                assert!(is_right || of == Face::Bold, "{character} {of:?}");
            }
        }
        assert_eq!(Weight::Regular.face('𠮷'), Some(Face::Kanji));
        assert_eq!(Weight::Regular.face('😀'), None);
    }

    #[test]
    fn c1_commas_are_tight_and_amounts_stay_aligned() {
        let width = |text: &str| Weight::Bold.width(text, 10.0) / (10.0 * POINT);
        for (text, ems) in [("1,234", 2.28), ("¥1,234,567", 4.56), ("12.5", 1.78)] {
            assert!((width(text) - ems).abs() < 1e-3, "{text} {}", width(text));
        }
        assert!((width("1,234") - width("9,876")).abs() < 1e-6);
        // the advances in the file of a subset are those of the widths
        let subset = Face::Bold.subset(&"1,.".chars().collect());
        let table = advances(&subset.original_bytes).unwrap();
        for (glyph, width) in &subset.glyph_widths {
            let at = table + 4 * usize::from(*glyph);
            assert_eq!(subset.original_bytes[at..at + 2], width.to_be_bytes());
        }
    }

    #[test]
    fn a_subset_holds_what_is_used_and_little_else() {
        let used: BTreeSet<char> = "請求書1,234円𠮷".chars().collect();
        let subset = Face::Regular.subset(&used);
        assert_eq!(subset.codepoint_to_glyph.len(), used.len() - 1);
        assert!(subset.original_bytes.len() < 20_000, "{}", subset.original_bytes.len());
    }
}
