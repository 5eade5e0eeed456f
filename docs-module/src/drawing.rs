//! Pages as lists of marks, and the code that turns text and pictures into marks. Lengths are millimetres from the
//! upper left corner of a page; sizes of type are points.

pub mod face;
pub mod pdf;
pub(crate) mod pen;
pub mod picture;
pub mod text;

use std::sync::Arc;

pub use face::Weight;
pub use picture::Picture;

/// Width and height of a page: A4.
pub const PAGE: (f32, f32) = (210.0, 297.0);
/// Length of a point in millimetres.
pub const POINT: f32 = 25.4 / 72.0;

/// Red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

impl Colour {
    /// Colour of text.
    pub const INK: Colour = Colour(0x22, 0x26, 0x2b);
    /// Colour of labels and side notes.
    pub const GREY: Colour = Colour(0x6a, 0x71, 0x7a);
    /// Colour of thin lines.
    pub const LINE: Colour = Colour(0xd5, 0xd9, 0xde);
    /// Colour of text on a dark ground.
    pub const WHITE: Colour = Colour(0xff, 0xff, 0xff);

    /// Reads `#RRGGBB`.
    pub fn parse(text: &str) -> Option<Colour> {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6)?;
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
        Some(Colour(byte(0)?, byte(2)?, byte(4)?))
    }

    /// Mixes this colour with white: `part` thousandths of the colour, 0 to 1000, and white for the rest.
    pub fn tint(self, part: u32) -> Colour {
        let mix = |value: u8| {
            let mixed = (u32::from(value) * part + 255 * (1000 - part)) / 1000;
            u8::try_from(mixed).expect("between two bytes")
        };
        Colour(mix(self.0), mix(self.1), mix(self.2))
    }

    /// Whether white text is easier to read on this colour than dark text (relative luminance of sRGB, without its
    /// gamma).
    pub fn is_dark(self) -> bool {
        2126 * u32::from(self.0) + 7152 * u32::from(self.1) + 722 * u32::from(self.2) < 10_000 * 150
    }
}

/// One mark on a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// A line of text. A face has a glyph for each of its characters ([`text::drawable`]).
    Text {
        /// Left end of the text.
        x: f32,
        /// Its baseline.
        baseline: f32,
        /// Points.
        size: f32,
        /// Regular or bold.
        weight: Weight,
        /// Its colour.
        colour: Colour,
        /// The characters.
        text: String,
    },
    /// A filled rectangle.
    Fill {
        /// Left.
        x: f32,
        /// Top.
        y: f32,
        /// Width.
        width: f32,
        /// Height.
        height: f32,
        /// Its colour.
        colour: Colour,
    },
    /// A picture in a rectangle.
    Picture {
        /// Left.
        x: f32,
        /// Top.
        y: f32,
        /// Width.
        width: f32,
        /// Height.
        height: f32,
        /// The picture.
        picture: Arc<Picture>,
        /// Opacity in percent, 0 to 100.
        opacity_percent: u8,
    },
}

/// The marks of a page, in drawing order.
pub type Page = Vec<Mark>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read_and_mixed() {
        assert_eq!(Colour::parse("#1a2B3c"), Some(Colour(0x1a, 0x2b, 0x3c)));
        for wrong in ["", "1a2b3c", "#1a2b3", "#1a2b3cd", "#1a2b3g", "#+12345", "#あ2b3"] {
            assert_eq!(Colour::parse(wrong), None, "{wrong}");
        }
        assert_eq!((Colour(0, 100, 200).tint(1000), Colour(0, 100, 200).tint(0)), (Colour(0, 100, 200), Colour::WHITE));
        assert!(Colour::INK.is_dark() && !Colour::WHITE.is_dark() && !Colour(0xff, 0xe0, 0).is_dark());
    }
}
