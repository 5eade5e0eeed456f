//! Writes pages as a PDF file for archives. Equal pages have equal bytes, because dates come from the caller, and the
//! file's identifier is a digest of its content.

mod archive;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use printpdf::{
    Color, ExtendedGraphicsState, ExtendedGraphicsStateId, FontId, Mm, Op, PaintMode, PdfDocument, PdfFont,
    PdfFontHandle, PdfPage, PdfResources, PdfSaveOptions, Point, Pt, RawImage, RawImageData, RawImageFormat, Rect, Rgb,
    TextItem, TextRenderingMode, XObject, XObjectId, XObjectTransform,
};
use time::Date;

use super::face::Face;
use super::{Colour, Mark, PAGE, POINT, Page, Picture, Weight};
use crate::limit::{Limit, Stopped};

/// Thickness of the outline that makes a glyph of a second face bold, as a part of the size of type.
const BOLD_OUTLINE: f32 = 0.022;

/// Metadata of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About<'a> {
    /// The title, as viewers show it.
    pub title: &'a str,
    /// The author: the issuer of the document.
    pub author: &'a str,
    /// The date; the file states midnight in Tokyo.
    pub date: Date,
}

/// Writes pages as a PDF file.
///
/// # Errors
/// When the limit stops the work.
pub fn write(pages: &[Page], about: &About<'_>, limit: Limit<'_>) -> Result<Vec<u8>, Stopped> {
    let mut document = PdfDocument::new(about.title);
    let resources = Resources::of(pages, &mut document.resources, limit)?;
    let drawn = pages.iter().map(|page| {
        limit.check()?;
        let ops = page.iter().flat_map(|mark| resources.draw(mark)).collect();
        Ok(PdfPage::new(Mm(PAGE.0), Mm(PAGE.1), ops))
    });
    document.pages = drawn.collect::<Result<_, Stopped>>()?;
    let options = PdfSaveOptions { image_optimization: None, subset_fonts: false, ..PdfSaveOptions::default() };
    let mut file = document.to_lopdf_document(&options, &mut Vec::new());
    limit.check()?;
    archive::complete(&mut file, about);
    limit.check()?;
    Ok(bytes(&mut file))
}

fn bytes(file: &mut lopdf::Document) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.save_to(&mut bytes).expect("writing to memory");
    bytes
}

/// The resources that marks refer to, under fixed names, because the library's own names differ from file to file.
struct Resources {
    pictures: Vec<Arc<Picture>>,
}

impl Resources {
    /// Adds what the marks use: for each face the glyphs of their texts, each picture once, and each opacity.
    fn of(pages: &[Page], resources: &mut PdfResources, limit: Limit<'_>) -> Result<Resources, Stopped> {
        let mut used: BTreeMap<Face, BTreeSet<char>> = BTreeMap::new();
        let mut pictures: Vec<Arc<Picture>> = Vec::new();
        for mark in pages.iter().flatten() {
            limit.check()?;
            match mark {
                Mark::Text { weight, text, .. } => {
                    for (face, run) in runs(*weight, text) {
                        used.entry(face).or_default().extend(run.chars());
                    }
                }
                Mark::Picture { picture, opacity_percent, .. } => {
                    if !pictures.iter().any(|known| Arc::ptr_eq(known, picture)) {
                        pictures.push(picture.clone());
                    }
                    let alpha = f32::from(*opacity_percent) / 100.0;
                    let state = ExtendedGraphicsState::default().with_current_fill_alpha(alpha);
                    resources.extgstates.map.insert(opacity_name(*opacity_percent), state);
                }
                Mark::Fill { .. } => {}
            }
        }
        for (face, characters) in used {
            resources.fonts.map.insert(font_name(face), PdfFont::new(face.subset(&characters)));
        }
        for (at, picture) in pictures.iter().enumerate() {
            resources.xobjects.map.insert(picture_name(at), XObject::Image(raw(picture)));
        }
        Ok(Resources { pictures })
    }

    fn draw(&self, mark: &Mark) -> Vec<Op> {
        match mark {
            Mark::Text { x, baseline, size, weight, colour, text } => {
                let mut ops = vec![
                    Op::StartTextSection,
                    Op::SetFillColor { col: rgb(*colour) },
                    Op::SetTextCursor { pos: Point { x: points(*x), y: points(PAGE.1 - baseline) } },
                ];
                for (face, run) in runs(*weight, text) {
                    let is_thickened = *weight == Weight::Bold && face.is_second();
                    if is_thickened {
                        ops.push(Op::SetOutlineColor { col: rgb(*colour) });
                        ops.push(Op::SetOutlineThickness { pt: Pt(size * BOLD_OUTLINE) });
                        ops.push(Op::SetTextRenderingMode { mode: TextRenderingMode::FillStroke });
                    }
                    ops.push(Op::SetFont { font: PdfFontHandle::External(font_name(face)), size: Pt(*size) });
                    ops.push(Op::ShowText { items: vec![TextItem::Text(run.to_owned())] });
                    if is_thickened {
                        ops.push(Op::SetTextRenderingMode { mode: TextRenderingMode::Fill });
                    }
                }
                ops.push(Op::EndTextSection);
                ops
            }
            Mark::Fill { x, y, width, height, colour } => vec![
                Op::SetFillColor { col: rgb(*colour) },
                Op::DrawRectangle {
                    rectangle: Rect {
                        x: points(*x),
                        y: points(PAGE.1 - y - height),
                        width: points(*width),
                        height: points(*height),
                        mode: Some(PaintMode::Fill),
                        winding_order: None,
                    },
                },
            ],
            Mark::Picture { x, y, width, height, picture, opacity_percent } => {
                let at = self.pictures.iter().position(|known| Arc::ptr_eq(known, picture)).expect("added");
                // at 72 dots per inch a pixel is a point
                let transform = XObjectTransform {
                    translate_x: Some(points(*x)),
                    translate_y: Some(points(PAGE.1 - y - height)),
                    scale_x: Some(points(*width).0 / picture.width as f32),
                    scale_y: Some(points(*height).0 / picture.height as f32),
                    dpi: Some(72.0),
                    ..XObjectTransform::default()
                };
                vec![
                    Op::SaveGraphicsState,
                    Op::LoadGraphicsState { gs: opacity_name(*opacity_percent) },
                    Op::UseXobject { id: picture_name(at), transform },
                    Op::RestoreGraphicsState,
                ]
            }
        }
    }
}

/// Splits a text into runs of one face. A character without a glyph belongs to the run before it.
fn runs(weight: Weight, text: &str) -> Vec<(Face, &str)> {
    let mut runs: Vec<(Face, &str)> = Vec::new();
    let mut from = 0;
    for (at, character) in text.char_indices() {
        let Some(face) = weight.face(character) else { continue };
        match runs.last_mut() {
            Some((last, run)) if *last == face => *run = &text[from..at + character.len_utf8()],
            _ => {
                from = at;
                runs.push((face, &text[at..at + character.len_utf8()]));
            }
        }
    }
    runs
}

fn font_name(face: Face) -> FontId {
    FontId(format!("{face:?}"))
}

fn picture_name(at: usize) -> XObjectId {
    XObjectId(format!("Picture{at}"))
}

fn opacity_name(percent: u8) -> ExtendedGraphicsStateId {
    ExtendedGraphicsStateId(format!("Opacity{percent}"))
}

fn points(millimetres: f32) -> Pt {
    Pt(millimetres / POINT)
}

fn rgb(colour: Colour) -> Color {
    let part = |value: u8| f32::from(value) / 255.0;
    Color::Rgb(Rgb { r: part(colour.0), g: part(colour.1), b: part(colour.2), icc_profile: None })
}

fn raw(picture: &Picture) -> RawImage {
    RawImage {
        pixels: RawImageData::U8(picture.rgba.clone()),
        width: picture.width,
        height: picture.height,
        data_format: RawImageFormat::RGBA8,
        tag: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::picture::tests::png_uri;

    fn page(text: &str) -> Page {
        let picture = Picture::from_data_uri(&png_uri(40, 20, |x, _| [255, 0, 0, (x * 6) as u8])).unwrap();
        vec![
            Mark::Fill { x: 0.0, y: 0.0, width: 210.0, height: 3.0, colour: Colour(0x1f, 0x5f, 0xbf) },
            Mark::Text {
                x: 20.0,
                baseline: 40.0,
                size: 20.0,
                weight: Weight::Bold,
                colour: Colour::INK,
                text: text.to_owned(),
            },
            Mark::Text {
                x: 20.0,
                baseline: 60.0,
                size: 9.0,
                weight: Weight::Regular,
                colour: Colour::GREY,
                text: "¥1,234,567".to_owned(),
            },
            Mark::Picture {
                x: 150.0,
                y: 30.0,
                width: 40.0,
                height: 20.0,
                picture: picture.clone(),
                opacity_percent: 70,
            },
            Mark::Picture { x: 150.0, y: 60.0, width: 20.0, height: 10.0, picture, opacity_percent: 100 },
        ]
    }

    const DATE: Date = time::macros::date!(2025 - 11 - 30);

    #[test]
    fn equal_pages_have_equal_bytes_and_others_another_identifier() {
        let about = About { title: "請求書", author: "株式会社あんご", date: DATE };
        let write = |pages: &[Page]| write(pages, &about, Limit::NONE).unwrap();
        let first = write(&[page("請求書")]);
        assert!(first.starts_with(b"%PDF-1.7") && first.len() < 40_000, "{}", first.len());
        assert!(first == write(&[page("請求書")]));
        let second = write(&[page("請求書"), page("領収書")]);
        let id = |bytes: &[u8]| {
            let file = lopdf::Document::load_mem(bytes).unwrap();
            assert_eq!(file.get_pages().len(), if bytes == first { 1 } else { 2 });
            file.trailer.get(b"ID").unwrap().as_array().unwrap()[0].as_str().unwrap().to_vec()
        };
        assert!(id(&first).len() == 16 && id(&first) != id(&second));
    }
}
