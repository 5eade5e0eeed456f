//! Base64 members: standard or URL-safe alphabet, padded or not, no white space; limits count decoded bytes (readings X5).

use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use base64::{DecodeError, DecodeSliceError, Engine};
use zeroize::Zeroize;

/// Why a text is refused. Places are numbers of characters, and the first character has number 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Base64Error {
    /// White space at this place. Many tools end a text with a line end, or break it into lines.
    #[error("white space at character {0}; send base64 without spaces and line ends (for example `base64 -w 0`)")]
    WhiteSpace(usize),
    /// A character of neither alphabet at this place.
    #[error("character {0} is not in the alphabet of base64")]
    Character(usize),
    /// A character after the padding, at this place.
    #[error("character {0} is behind the padding (=)")]
    AfterPadding(usize),
    /// The padding does not fill the last group of four characters.
    #[error("the padding (=) does not fill the last group of four characters")]
    Padding,
    /// The text ends within a byte.
    #[error("the text is cut short: its last characters hold no whole byte")]
    CutShort,
    /// The unused bits of the last character, at this place, are not zero.
    #[error("character {0}, the last one, has bits that belong to no byte")]
    LastCharacter(usize),
    /// Decodes to more bytes than allowed.
    #[error("too large")]
    TooLarge,
}

/// Encodes bytes in the standard alphabet with padding.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes a whole text of at most `bytes_max` bytes.
pub fn decode(text: &str, bytes_max: usize) -> Result<Vec<u8>, Base64Error> {
    if let Some(bytes) = decode_at_once(text, bytes_max) {
        return Ok(bytes);
    }
    // do not reserve more bytes than the text can decode to; `push` checks the limit
    let mut decoder = Decoder::new(bytes_max, text.len() / 4 * 3 + 3);
    decoder.push(text.as_bytes())?;
    decoder.finish()
}

/// Decodes a text in the standard alphabet, the usual case, without a look at each character. `None`: any other text,
/// also one that [`Decoder`] accepts. The bytes of a refused text are overwritten, as [`Decoder`] does.
fn decode_at_once(text: &str, bytes_max: usize) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    if padding > 2 || (padding > 0 && !text.len().is_multiple_of(4)) || digits.len() / 4 * 3 > bytes_max {
        return None;
    }
    let mut bytes = vec![0; base64::decoded_len_estimate(digits.len())];
    match STANDARD_NO_PAD.decode_slice(digits, &mut bytes) {
        Ok(length) if length <= bytes_max => {
            bytes.truncate(length);
            Some(bytes)
        }
        _ => {
            bytes.zeroize();
            None
        }
    }
}

/// Characters decoded at a time; a multiple of four.
const BLOCK: usize = 4096;

/// Decodes a text that arrives in pieces, directly into the final buffer.
pub struct Decoder {
    out: Vec<u8>,
    bytes_max: usize,
    /// Characters not decoded yet, in the standard alphabet.
    block: Vec<u8>,
    digits: usize,
    padding: usize,
}

impl Decoder {
    /// Creates a decoder for at most `bytes_max` bytes, with room for `bytes_expected` of these bytes.
    pub fn new(bytes_max: usize, bytes_expected: usize) -> Self {
        let out = Vec::with_capacity(bytes_expected.min(bytes_max));
        Self { out, bytes_max, block: Vec::with_capacity(BLOCK), digits: 0, padding: 0 }
    }

    /// Takes the next characters.
    pub fn push(&mut self, characters: &[u8]) -> Result<(), Base64Error> {
        for &character in characters {
            match character {
                b'=' => {
                    self.padding += 1;
                    continue;
                }
                b' ' | b'\t' | b'\n' | b'\r' => {
                    // an earlier fault is reported first; that the characters before end within a byte is none
                    match self.flush() {
                        Ok(()) | Err(Base64Error::CutShort | Base64Error::LastCharacter(_)) => {}
                        Err(fault) => return Err(fault),
                    }
                    return Err(Base64Error::WhiteSpace(self.next_place()));
                }
                _ if self.padding > 0 => return Err(Base64Error::AfterPadding(self.next_place())),
                b'-' => self.block.push(b'+'),
                b'_' => self.block.push(b'/'),
                _ => self.block.push(character),
            }
            self.digits += 1;
            if self.block.len() == BLOCK {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// The place of the next character.
    pub fn next_place(&self) -> usize {
        self.digits + self.padding + 1
    }

    /// Returns the decoded bytes, after the last piece.
    pub fn finish(mut self) -> Result<Vec<u8>, Base64Error> {
        self.flush()?;
        if self.padding > 2 || (self.padding > 0 && !(self.digits + self.padding).is_multiple_of(4)) {
            return Err(Base64Error::Padding);
        }
        Ok(std::mem::take(&mut self.out))
    }

    fn flush(&mut self) -> Result<(), Base64Error> {
        let start = self.out.len();
        let bytes = self.block.len() * 3 / 4;
        if start + bytes > self.bytes_max {
            return Err(Base64Error::TooLarge);
        }
        // the estimate is never too small, and it is exact for whole blocks
        let estimate = base64::decoded_len_estimate(self.block.len());
        if start + estimate > self.out.capacity() {
            self.grow(start + estimate);
        }
        self.out.resize(start + estimate, 0);
        let decoded = STANDARD_NO_PAD.decode_slice(&self.block, &mut self.out[start..]);
        let place = |at: usize| self.digits - self.block.len() + at + 1;
        self.out.truncate(start + decoded.map_err(|error| fault(error, place))?);
        self.block.clear();
        Ok(())
    }

    /// Doubles the buffer, up to the limit. The old buffer is overwritten.
    fn grow(&mut self, needed: usize) {
        let mut roomy = Vec::with_capacity((2 * self.out.capacity()).min(self.bytes_max).max(needed));
        roomy.extend_from_slice(&self.out);
        std::mem::replace(&mut self.out, roomy).zeroize();
    }
}

/// `place` converts the index of a character in the block to its number in the text.
fn fault(error: DecodeSliceError, place: impl Fn(usize) -> usize) -> Base64Error {
    match error {
        DecodeSliceError::DecodeError(DecodeError::InvalidByte(at, _)) => Base64Error::Character(place(at)),
        DecodeSliceError::DecodeError(DecodeError::InvalidLastSymbol(at, _)) => Base64Error::LastCharacter(place(at)),
        DecodeSliceError::DecodeError(DecodeError::InvalidLength(_) | DecodeError::InvalidPadding) => {
            Base64Error::CutShort
        }
        DecodeSliceError::OutputSliceTooSmall => unreachable!("the buffer has the estimated room"),
    }
}

impl Drop for Decoder {
    /// Overwrites the decoded bytes: a refused body may hold a secret that should not have been sent (readings K5).
    fn drop(&mut self) {
        self.out.zeroize();
        self.block.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x5_both_alphabets_with_and_without_padding() {
        let bytes = [0xfb, 0xff, 0xfe, 0x01];
        for text in ["+//+AQ==", "-__-AQ==", "+//+AQ", "-__-AQ"] {
            assert_eq!(decode(text, 4).as_deref(), Ok(&bytes[..]), "{text}");
        }
        assert_eq!(encode(&bytes), "+//+AQ==");
        assert_eq!(decode("", 0).as_deref(), Ok(&[][..]));
    }

    #[test]
    fn x5_anything_else_is_refused() {
        use Base64Error::*;
        for (text, fault) in [
            ("A", CutShort),
            ("AQ=", Padding),
            ("AQ===", Padding),
            ("AQ==AQ==", AfterPadding(5)),
            ("=", Padding),
            ("AAAA====", Padding),
            ("AA=A", AfterPadding(4)),
            ("AR==", LastCharacter(2)),
            ("A\u{e9}", Character(2)),
            ("data:AAAA", Character(5)),
            ("\u{feff}AAAA", Character(1)),
        ] {
            assert_eq!(decode(text, 100), Err(fault), "{text}");
        }
    }

    #[test]
    fn white_space_is_named_with_its_place() {
        let long = encode(&[7; 10_000]);
        let broken = format!("{}\n{}", &long[..5000], &long[5000..]);
        for (text, place) in [
            ("AQ==\n", 5),
            ("AQ\n", 3),
            ("AQ\r\n==", 3),
            ("A Q=", 2),
            ("\tAAAA", 1),
            (&format!("{long}\n")[..], long.len() + 1),
            (&broken[..], 5001),
        ] {
            assert_eq!(decode(text, 10_000), Err(Base64Error::WhiteSpace(place)));
        }
        // the first fault is reported
        assert_eq!(decode("A!AA\n", 100), Err(Base64Error::Character(2)));
        assert_eq!(decode(&format!("{}!", &long[..5000]), 10_000), Err(Base64Error::Character(5001)));
    }

    #[test]
    fn limits_count_decoded_bytes() {
        let text = encode(&[7; 10_000]);
        assert_eq!(decode(&text, 10_000).unwrap(), [7; 10_000]);
        assert_eq!(decode(&text, 9_999), Err(Base64Error::TooLarge));
    }

    #[test]
    fn a_text_at_once_and_in_pieces_has_the_same_bytes_or_fault() {
        let characters = ['A', 'Q', '+', '/', '-', '_', '=', '=', ' ', '!', '\u{e9}'];
        let mut number = 1u64;
        let mut roll = |below: usize| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (number >> 33) as usize % below
        };
        let (mut accepted, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let (length, kinds) = (roll(10), [4, 8, characters.len()][roll(3)]);
            let mut text: String = (0..length).map(|_| characters[roll(kinds)]).collect();
            text.extend(std::iter::repeat_n('=', roll(4)));
            let bytes_max = roll(8);
            let mut decoder = Decoder::new(bytes_max, 0);
            let in_pieces = decoder.push(text.as_bytes()).and_then(|()| decoder.finish());
            *(if in_pieces.is_ok() { &mut accepted } else { &mut refused }) += 1;
            assert_eq!(decode(&text, bytes_max), in_pieces, "{text:?}, {bytes_max} bytes");
        }
        assert!(accepted > 1000 && refused > 1000, "{accepted} {refused}");
    }

    #[test]
    fn pieces_of_every_size_give_the_same_bytes() {
        let bytes: Vec<u8> = (0..20_011u32).map(|n| ((n * n) >> 3) as u8).collect();
        let text = encode(&bytes);
        for size in [1, 3, 4, 5, 1000, 4095, 4096, 4097, 100_000] {
            let mut decoder = Decoder::new(bytes.len(), 0);
            for piece in text.as_bytes().chunks(size) {
                decoder.push(piece).unwrap();
            }
            assert_eq!(decoder.finish().unwrap(), bytes, "{size}");
        }
    }
}
