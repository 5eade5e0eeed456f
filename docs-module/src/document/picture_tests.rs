//! Compares pages of documents with approved pictures, and checks that their text can be extracted. Poppler draws the
//! pages and extracts the text. Without Poppler nothing is compared, unless `TEST_POPPLER` is `required`.
//! `UPDATE_SNAPSHOTS=1` replaces the approved pictures; `DOCUMENTS_TO=FOLDER` writes all documents to that folder for
//! review.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::tests::{draft, line, of_kind};
use super::*;
use crate::drawing::picture::tests::png_uri;
use crate::drawing::{Colour, Picture};

/// Dots per inch: enough to see the layout.
const DOTS: &str = "40";
/// Side of a compared square, in pixels.
const SQUARE: usize = 32;
/// Largest mean difference of a whole picture, and of any square, from 0 to 255. Not 0, because versions of Poppler
/// smooth letters differently.
const DIFFERENCE_MAX: f64 = 3.0;
const SQUARE_DIFFERENCE_MAX: f64 = 24.0;

/// Makes a document with colour, pictures, a consignor, withholding, and lines for several pages.
fn rich() -> Document {
    let mut rich = draft(Kind::Invoice);
    rich.theme = Theme {
        colour: Colour(0xb0, 0x3a, 0x2e),
        logo: Some(
            Picture::from_data_uri(&png_uri(300, 80, |x, y| {
                [176, 58, 46, if (x / 20 + y / 20) % 2 == 0 { 255 } else { 60 }]
            }))
            .unwrap(),
        ),
        seal: Some(
            Picture::from_data_uri(&png_uri(200, 200, |x, y| {
                let edge = x.min(y).min(199 - x).min(199 - y);
                [200, 30, 30, if edge < 10 || (x / 25 + y / 25) % 2 == 0 && edge > 25 { 255 } else { 0 }]
            }))
            .unwrap(),
        ),
        footer: "株式会社あんごデザイン　https://example.com".to_owned(),
    };
    rich.consignor = Some(Consignor {
        name: "青果店みらい".to_owned(),
        registration_number: Some(RegistrationNumber::read("T1180301018771").unwrap()),
    });
    rich.withholding = Some(Withholding {
        category: Category::Manuscript,
        basis: Basis::Exclusive,
        amount: None,
        lines: Some(vec![0]),
    });
    rich.lines.extend((0..120).map(|at| {
        line(
            &format!("品目 {at} の名称が長くて一行に収まらないときに折り返される様子を確かめるための行"),
            "98765.4321",
            "1.5",
            if at % 3 == 0 { 8 } else { 10 },
        )
    }));
    rich.complete().unwrap()
}

fn is_installed() -> bool {
    let is_there = Command::new("pdftoppm").arg("-v").output().is_ok_and(|output| output.status.success());
    assert!(is_there || std::env::var("TEST_POPPLER").as_deref() != Ok("required"), "pdftoppm is not installed");
    is_there
}

/// Runs a program on a file, and returns its standard output. `to`: the last argument, if one is needed; with `-`,
/// `pdftotext` writes to standard output.
fn run(program: &str, arguments: &[&str], file: &Path, to: Option<&str>) -> Vec<u8> {
    let output = Command::new(program).args(arguments).arg(file).args(to).output().expect("it starts");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A picture of a file's page.
struct Drawn {
    /// Bytes per row, three per pixel.
    row: usize,
    pixels: Vec<u8>,
    file: Vec<u8>,
}

impl Drawn {
    fn page(file: &Path, page: usize) -> Drawn {
        let page = page.to_string();
        Drawn::decode(run("pdftoppm", &["-png", "-r", DOTS, "-f", &page, "-l", &page, "-singlefile"], file, None))
    }

    fn decode(file: Vec<u8>) -> Drawn {
        let mut reader = png::Decoder::new(std::io::Cursor::new(&file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((frame.color_type, frame.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
        Drawn { row: frame.width as usize * 3, pixels, file }
    }

    /// Compares two pictures. Returns the mean difference of their bytes, and the largest mean difference within a
    /// square of 32 pixels a side.
    fn differences(&self, other: &Drawn) -> (f64, f64) {
        assert_eq!((self.row, self.pixels.len()), (other.row, other.pixels.len()), "sizes");
        let squares_in_row = self.row.div_ceil(3 * SQUARE);
        let rows = self.pixels.len() / self.row;
        let mut sums = vec![0u64; squares_in_row * rows.div_ceil(SQUARE)];
        for (at, (a, b)) in self.pixels.iter().zip(&other.pixels).enumerate() {
            let (x, y) = (at % self.row, at / self.row);
            sums[y / SQUARE * squares_in_row + x / (3 * SQUARE)] += u64::from(a.abs_diff(*b));
        }
        let all: u64 = sums.iter().sum();
        let largest = sums.iter().max().unwrap();
        (all as f64 / self.pixels.len() as f64, *largest as f64 / (3 * SQUARE * SQUARE) as f64)
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ango-documents-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Compares a page with the approved picture `tests/pictures/<name>.png`.
fn compare(name: &str, file: &Path, page: usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pictures").join(format!("{name}.png"));
    let drawn = Drawn::page(file, page);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &drawn.file).unwrap();
    }
    let (mean, largest) = Drawn::decode(std::fs::read(&path).expect("a picture")).differences(&drawn);
    assert!(
        mean <= DIFFERENCE_MAX && largest <= SQUARE_DIFFERENCE_MAX,
        "{name} differs by {mean:.2}, at most {largest:.1}"
    );
}

#[test]
fn documents_look_as_they_were_approved() {
    if !is_installed() {
        return;
    }
    let folder = Folder::new("pictures");
    for kind in Kind::ALL {
        let name = kind.name();
        compare(name, &folder.write(name, &of_kind(kind).pdf()), 1);
    }
    let file = folder.write("rich", &rich().pdf());
    for page in [1, 2, 6] {
        compare(&format!("rich_{page}"), &file, page);
    }
    // the comparison notices a wrong page
    let (_, largest) = Drawn::page(&file, 1).differences(&Drawn::page(&file, 2));
    assert!(largest > SQUARE_DIFFERENCE_MAX);
}

#[test]
fn documents_to_look_at() {
    let Ok(folder) = std::env::var("DOCUMENTS_TO") else { return };
    let documents = Kind::ALL.map(|kind| (kind.name(), of_kind(kind)));
    for (name, document) in documents.into_iter().chain([("rich", rich())]) {
        std::fs::write(format!("{folder}/{name}.pdf"), document.pdf()).unwrap();
        std::fs::write(format!("{folder}/{name}.html"), document.html()).unwrap();
    }
}

/// The extracted text equals the written text, and each page has the head of the table.
#[test]
fn text_of_a_file_is_found() {
    if !is_installed() {
        return;
    }
    let folder = Folder::new("text");
    let mut odd = draft(Kind::Invoice);
    odd.notes = "①㈱髙﨑 ﾊﾝｶｸ ～ ㎡ ¥ 日本 か\u{3099}".to_owned();
    odd.recipient = "𠮷野家 홍길동 软件有限公司 Nguyễn A\u{2011}B".to_owned();
    let file = folder.write("odd", &odd.complete().unwrap().pdf());
    let text = String::from_utf8(run("pdftotext", &["-layout"], &file, Some("-"))).unwrap();
    for wanted in [
        "請求書",
        "適格請求書",
        "𠮷野家 홍길동 软件有限公司 Nguyễn A‐B",
        "¥206,565",
        "登録番号 T7000012050002",
        "打ち合わせの茶菓※",
        "3,300.5",
        "¥18,460",
        "あおば銀行（0123）",
        "0012345",
        "①㈱髙﨑 ﾊﾝｶｸ ～ ㎡ ¥ 日本 が",
        "1 / 1",
    ] {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
    let text =
        String::from_utf8(run("pdftotext", &["-layout"], &folder.write("rich", &rich().pdf()), Some("-"))).unwrap();
    let pages = text.matches('\u{c}').count();
    assert_eq!(text.matches("単価（税抜）").count(), pages - 1, "{text}");
    // C5: each page with rows explains the mark
    assert_eq!((text.matches("※は軽減税率対象").count(), text.matches("¥206,565").count()), (pages - 1, 0));
    // B11: copied text has the name of a row before its numbers
    let raw = String::from_utf8(run("pdftotext", &["-raw"], &file, Some("-"))).unwrap();
    assert!(raw.contains("打ち合わせの茶菓※ 3 1,080 8% 3,240"), "{raw}");
}
