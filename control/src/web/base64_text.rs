//! Base64 members: standard or URL-safe alphabet, padded or not, no white space; limits count decoded bytes (readings X5).

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use zeroize::Zeroize;

/// Why a text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base64Error {
    /// Not base64.
    NotBase64,
    /// Decodes to more bytes than allowed.
    TooLarge,
}

/// Encodes bytes in the standard alphabet with padding.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes a whole text of at most `bytes_max` bytes.
pub fn decode(text: &str, bytes_max: usize) -> Result<Vec<u8>, Base64Error> {
    // do not reserve more bytes than the text can decode to; `push` checks the limit
    let mut decoder = Decoder::new(bytes_max, text.len() / 4 * 3 + 3);
    decoder.push(text.as_bytes())?;
    decoder.finish()
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
                _ if self.padding > 0 => return Err(Base64Error::NotBase64),
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

    /// Returns the decoded bytes, after the last piece.
    pub fn finish(mut self) -> Result<Vec<u8>, Base64Error> {
        self.flush()?;
        if self.padding > 2 || (self.padding > 0 && !(self.digits + self.padding).is_multiple_of(4)) {
            return Err(Base64Error::NotBase64);
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
        self.out.truncate(start + decoded.map_err(|_| Base64Error::NotBase64)?);
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
        for text in ["A", "AQ=", "AQ===", "AQ==AQ==", "=", "A Q=", "AQ\n", "AR==", "A\u{e9}", "AA=A", "AAAA===="] {
            assert_eq!(decode(text, 100), Err(Base64Error::NotBase64), "{text}");
        }
    }

    #[test]
    fn limits_count_decoded_bytes() {
        let text = encode(&[7; 10_000]);
        assert_eq!(decode(&text, 10_000).unwrap(), [7; 10_000]);
        assert_eq!(decode(&text, 9_999), Err(Base64Error::TooLarge));
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
