//! Logos and seals: PNG or JPEG in a data URI (B12). Sizes are checked before decoding. Large pictures are scaled down
//! to the resolution of print.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Largest size of a file, in bytes (B12).
pub const FILE_BYTES_MAX: usize = 512 * 1024;
/// Largest number of pixels of a picture (B12).
pub const PIXELS_MAX: usize = 4_000_000;
/// Largest length of the longer side of a decoded picture, in pixels: 50 mm at 300 dots per inch.
const SIDE_MAX: usize = 600;

/// A picture of at most 600 pixels a side, with an alpha channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The data URI of the file.
    pub uri: String,
    /// Pixels per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Red, green, blue and alpha of each pixel, row by row from the top.
    pub rgba: Vec<u8>,
}

/// Why a text is not an accepted picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureError {
    /// The text does not begin with `data:image/png;base64,` or `data:image/jpeg;base64,`. Addresses are not fetched,
    /// and SVG is not accepted.
    NotAPictureUri,
    /// The base64 is wrong.
    NotBase64,
    /// The file is larger than [`FILE_BYTES_MAX`].
    FileTooLarge,
    /// The picture has more pixels than [`PIXELS_MAX`], or none.
    TooManyPixels,
    /// The file cannot be decoded.
    Damaged,
}

impl PictureError {
    /// The end of a message that begins with the field's name.
    pub fn message(self) -> &'static str {
        match self {
            PictureError::NotAPictureUri => {
                "must be a data URI of a PNG or JPEG: data:image/png;base64,... or data:image/jpeg;base64,..."
            }
            PictureError::NotBase64 => "is not valid base64",
            PictureError::FileTooLarge => "is larger than 512 KiB",
            PictureError::TooManyPixels => "must have between 1 and 4,000,000 pixels",
            PictureError::Damaged => "cannot be decoded",
        }
    }
}

impl Picture {
    /// Decodes the picture of a data URI, and scales it down if its longer side has more than 600 pixels.
    pub fn from_data_uri(uri: &str) -> Result<Arc<Picture>, PictureError> {
        let (is_png, encoded) = ["data:image/png;base64,", "data:image/jpeg;base64,", "data:image/jpg;base64,"]
            .iter()
            .find_map(|prefix| Some((*prefix == "data:image/png;base64,", uri.strip_prefix(prefix)?)))
            .ok_or(PictureError::NotAPictureUri)?;
        if encoded.len() > FILE_BYTES_MAX.div_ceil(3) * 4 {
            return Err(PictureError::FileTooLarge);
        }
        let file = STANDARD.decode(encoded).map_err(|_| PictureError::NotBase64)?;
        if file.len() > FILE_BYTES_MAX {
            return Err(PictureError::FileTooLarge);
        }
        let (width, height, rgba) = if is_png { of_png(&file)? } else { of_jpeg(&file)? };
        let (width, height, rgba) = shrink(width, height, rgba);
        Ok(Arc::new(Picture { uri: uri.to_owned(), width, height, rgba }))
    }
}

type Pixels = (usize, usize, Vec<u8>);

fn check_size(width: usize, height: usize) -> Result<(), PictureError> {
    let pixels = width.checked_mul(height).filter(|pixels| (1..=PIXELS_MAX).contains(pixels));
    pixels.map(|_| ()).ok_or(PictureError::TooManyPixels)
}

fn of_png(file: &[u8]) -> Result<Pixels, PictureError> {
    let damaged = |_| PictureError::Damaged;
    // limit the memory that the decoder takes for rows of pixels and for text chunks
    let limits = png::Limits { bytes: 32 << 20 };
    let mut decoder = png::Decoder::new_with_limits(std::io::Cursor::new(file), limits);
    let header = decoder.read_header_info().map_err(damaged)?;
    check_size(header.width as usize, header.height as usize)?;
    decoder.set_transformations(png::Transformations::normalize_to_color8() | png::Transformations::ALPHA);
    let mut reader = decoder.read_info().map_err(damaged)?;
    let mut pixels = vec![0; reader.output_buffer_size().ok_or(PictureError::Damaged)?];
    let frame = reader.next_frame(&mut pixels).map_err(damaged)?;
    pixels.truncate(frame.buffer_size());
    let rgba = match frame.color_type {
        png::ColorType::Rgba => pixels,
        png::ColorType::GrayscaleAlpha => {
            pixels.chunks_exact(2).flat_map(|pixel| [pixel[0], pixel[0], pixel[0], pixel[1]]).collect()
        }
        // the decoder's transformations produce no other colour type
        _ => return Err(PictureError::Damaged),
    };
    Ok((frame.width as usize, frame.height as usize, rgba))
}

fn of_jpeg(file: &[u8]) -> Result<Pixels, PictureError> {
    let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
    decoder.decode_headers().map_err(|_| PictureError::Damaged)?;
    let (width, height) = decoder.dimensions().ok_or(PictureError::Damaged)?;
    check_size(width, height)?;
    let rgb = decoder.decode().map_err(|_| PictureError::Damaged)?;
    if rgb.len() != width * height * 3 {
        return Err(PictureError::Damaged);
    }
    Ok((width, height, rgb.chunks_exact(3).flat_map(|pixel| [pixel[0], pixel[1], pixel[2], 255]).collect()))
}

/// Scales a picture down until its longer side is at most [`SIDE_MAX`]. Each new pixel is the mean of the pixels that
/// it covers, weighted by their alpha.
fn shrink(width: usize, height: usize, rgba: Vec<u8>) -> Pixels {
    let longer = width.max(height);
    if longer <= SIDE_MAX {
        return (width, height, rgba);
    }
    let side = |length: usize| (length * SIDE_MAX / longer).max(1);
    let (new_width, new_height) = (side(width), side(height));
    let mut shrunk = Vec::with_capacity(new_width * new_height * 4);
    for y in 0..new_height {
        for x in 0..new_width {
            let (mut colours, mut alpha, mut count) = ([0u64; 3], 0u64, 0u64);
            for from_y in y * height / new_height..((y + 1) * height / new_height).max(y * height / new_height + 1) {
                for from_x in x * width / new_width..((x + 1) * width / new_width).max(x * width / new_width + 1) {
                    let pixel = &rgba[(from_y * width + from_x) * 4..][..4];
                    for (sum, value) in colours.iter_mut().zip(pixel) {
                        *sum += u64::from(*value) * u64::from(pixel[3]);
                    }
                    alpha += u64::from(pixel[3]);
                    count += 1;
                }
            }
            let byte = |value: u64| u8::try_from(value).expect("a mean of bytes");
            shrunk.extend(colours.map(|sum| byte(sum.checked_div(alpha).unwrap_or(255))));
            shrunk.push(byte(alpha / count));
        }
    }
    (new_width, new_height, shrunk)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Makes a PNG as a data URI; `pixel` gives the colour and alpha of each pixel.
    pub(crate) fn png_uri(width: u32, height: u32, pixel: impl Fn(u32, u32) -> [u8; 4]) -> String {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Rgba);
        let pixels: Vec<u8> =
            (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).flat_map(|(x, y)| pixel(x, y)).collect();
        encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
        format!("data:image/png;base64,{}", STANDARD.encode(&file))
    }

    fn error(uri: &str) -> PictureError {
        Picture::from_data_uri(uri).unwrap_err()
    }

    #[test]
    fn a_picture_keeps_its_pixels_or_their_means() {
        let small = Picture::from_data_uri(&png_uri(3, 2, |x, y| [x as u8, y as u8, 7, 200])).unwrap();
        assert_eq!((small.width, small.height, &small.rgba[20..]), (3, 2, &[2, 1, 7, 200][..]));
        // two columns become one: black and light grey give a darker grey, and the colour of transparent pixels does
        // not count
        let large = Picture::from_data_uri(&png_uri(1200, 4, |x, _| {
            if x % 2 == 0 { [0, 0, 0, 255] } else { [200, 200, 200, if x < 600 { 255 } else { 0 }] }
        }));
        let large = large.unwrap();
        assert_eq!((large.width, large.height), (600, 2));
        assert_eq!((&large.rgba[..4], &large.rgba[599 * 4..600 * 4]), (&[100, 100, 100, 255][..], &[0, 0, 0, 127][..]));
    }

    #[test]
    fn b12_what_is_no_small_picture_is_refused() {
        for uri in
            ["", "https://example.com/logo.png", "data:image/svg+xml;base64,PHN2Zy8+", "data:text/html,x", "DATA:"]
        {
            assert_eq!(error(uri), PictureError::NotAPictureUri, "{uri}");
        }
        assert_eq!(error("data:image/png;base64,****"), PictureError::NotBase64);
        assert_eq!(error("data:image/png;base64,AAAA"), PictureError::Damaged);
        assert_eq!(error("data:image/jpeg;base64,AAAA"), PictureError::Damaged);
        let of = |bytes: usize| format!("data:image/png;base64,{}", STANDARD.encode(vec![0; bytes]));
        assert_eq!(error(&of(FILE_BYTES_MAX + 1)), PictureError::FileTooLarge);
        assert_eq!(error(&of(FILE_BYTES_MAX)), PictureError::Damaged);
    }

    /// A header that claims 20,000 x 20,000 pixels is refused before a pixel is decoded.
    #[test]
    fn a_bomb_is_refused_by_its_header() {
        let uri = png_uri(1, 1, |_, _| [0; 4]);
        let mut file = STANDARD.decode(uri.split_once(',').unwrap().1).unwrap();
        file[16..24].copy_from_slice(&[0, 0, 0x4e, 0x20, 0, 0, 0x4e, 0x20]);
        // write a valid checksum, so that only the size is wrong
        let checksum = crc32(&file[12..29]);
        file[29..33].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(error(&format!("data:image/png;base64,{}", STANDARD.encode(&file))), PictureError::TooManyPixels);
        let huge = png_uri(2001, 2000, |_, _| [0; 4]);
        assert_eq!(error(&huge), PictureError::TooManyPixels);
    }

    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
        })
    }
}
