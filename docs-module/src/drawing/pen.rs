//! Draws on the last of a list of pages: lines of text, columns, fills and pictures.

use std::sync::Arc;

use super::text::wrap;
use super::{Colour, Mark, POINT, Page, Picture, Weight};

/// Size in points, face and colour of a text.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    pub size: f32,
    pub weight: Weight,
    pub colour: Colour,
}

impl Style {
    pub const BODY: Style = Style { size: 9.0, weight: Weight::Regular, colour: Colour::INK };
    pub const BOLD: Style = Style { weight: Weight::Bold, ..Style::BODY };
    pub const SMALL: Style = Style { size: 8.0, ..Style::BODY };
    pub const LABEL: Style = Style { colour: Colour::GREY, ..Style::SMALL };
    pub const FOOT: Style = Style { size: 7.0, colour: Colour::GREY, ..Style::BODY };

    /// Height of a line, in millimetres.
    pub fn leading(self) -> f32 {
        self.size * POINT * 1.55
    }

    pub fn width(self, text: &str) -> f32 {
        self.weight.width(text, self.size)
    }
}

/// Pages that are being drawn. Marks are added to the last page.
pub(crate) struct Pen {
    pub pages: Vec<Page>,
    /// Top of the next mark, in millimetres.
    pub y: f32,
}

impl Pen {
    /// Makes a pen on an empty first page.
    pub fn new(y: f32) -> Pen {
        Pen { pages: vec![Vec::new()], y }
    }

    /// Begins a new page.
    pub fn turn(&mut self, y: f32) {
        self.pages.push(Vec::new());
        self.y = y;
    }

    pub fn page(&mut self) -> &mut Page {
        self.pages.last_mut().expect("there is a first page")
    }

    pub fn fill(&mut self, [x, y, width, height]: [f32; 4], colour: Colour) {
        self.page().push(Mark::Fill { x, y, width, height, colour });
    }

    /// Draws a line of text whose box begins at `y`.
    pub fn text(&mut self, x: f32, y: f32, style: Style, text: &str) {
        debug_assert!(text.chars().all(|character| style.weight.face(character).is_some()), "no glyph: {text}");
        if !text.is_empty() {
            // the ascent is 0.86 of the size, and half of the space between lines is above the text
            let baseline = y + (style.leading() - style.size * POINT) / 2.0 + 0.86 * style.size * POINT;
            let Style { size, weight, colour } = style;
            self.page().push(Mark::Text { x, baseline, size, weight, colour, text: text.to_owned() });
        }
    }

    pub fn text_right(&mut self, right: f32, y: f32, style: Style, text: &str) {
        self.text(right - style.width(text), y, style, text);
    }

    /// Draws a text in lines of a column. Returns the `y` below them.
    pub fn lines(&mut self, x: f32, mut y: f32, width: f32, style: Style, text: &str) -> f32 {
        for line in wrap(text, width, style.size, style.weight) {
            self.text(x, y, style, &line);
            y += style.leading();
        }
        y
    }

    /// Draws labels and values in two columns. Returns the `y` below them.
    pub fn pairs(&mut self, x: f32, mut y: f32, width: f32, pairs: &[(&str, String)]) -> f32 {
        let label_width = pairs.iter().map(|(label, _)| Style::LABEL.width(label)).fold(0.0, f32::max) + 4.0;
        for (label, value) in pairs {
            self.text(x, y, Style::LABEL, label);
            y = self.lines(x + label_width, y, width - label_width, Style::SMALL, value);
        }
        y
    }

    /// Draws a picture as large as the box allows, in the box's upper left corner. Returns the picture's height.
    pub fn picture(
        &mut self,
        [x, y]: [f32; 2],
        (width, height): (f32, f32),
        picture: &Arc<Picture>,
        opacity_percent: u8,
    ) -> f32 {
        let (pixel_width, pixel_height) = (picture.width as f32, picture.height as f32);
        let scale = (width / pixel_width).min(height / pixel_height);
        let (width, height) = (pixel_width * scale, pixel_height * scale);
        self.page().push(Mark::Picture { x, y, width, height, picture: picture.clone(), opacity_percent });
        height
    }
}
