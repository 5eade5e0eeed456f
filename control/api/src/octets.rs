//! The octet-stream layout of gates and circuits (docs/wire-format.md, 10): a JSON head and its length, then bare words.
//!
//! ```text
//! 4 bytes       H, the head's length, little-endian
//! H bytes       the head: JSON, UTF-8
//! the rest      ciphertexts one after another, 4 (n + 1) bytes each: mask then body, little-endian words
//! ```

/// Size of the field with the head's length, in bytes.
pub const LENGTH_BYTES: usize = 4;

/// Why a body is not in this layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// The body ends before its head is complete.
    CutShort,
    /// The head is longer than allowed.
    HeadTooLong,
}

/// Cuts a body into its head and its words, without parsing either. The stated length is checked as soon as its four
/// bytes have come. So a caller that tries again after every piece never collects a head that is too long.
///
/// # Errors
/// When the body is not in this layout. Nothing is allocated.
pub fn split(body: &[u8], head_bytes_max: usize) -> Result<(&[u8], &[u8]), LayoutError> {
    let (length, rest) = body.split_first_chunk::<LENGTH_BYTES>().ok_or(LayoutError::CutShort)?;
    let head_bytes = u32::from_le_bytes(*length) as usize;
    if head_bytes > head_bytes_max {
        return Err(LayoutError::HeadTooLong);
    }
    rest.split_at_checked(head_bytes).ok_or(LayoutError::CutShort)
}

/// Begins a body: the head's length, then the head, with room for `words_bytes` bytes of words, which the caller
/// appends.
///
/// # Panics
/// When the head has 4 GB or more.
pub fn begin(head: &[u8], words_bytes: usize) -> Vec<u8> {
    let length = u32::try_from(head.len()).expect("a head is far below 4 GB");
    let mut body = Vec::with_capacity(LENGTH_BYTES + head.len() + words_bytes);
    body.extend_from_slice(&length.to_le_bytes());
    body.extend_from_slice(head);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_begun_is_split_again() {
        for (head, words) in [(&b"{}"[..], &b""[..]), (b"", b""), (br#"{"a":1}"#, &[1, 2, 3, 4, 5, 6, 7, 8])] {
            let mut body = begin(head, words.len());
            body.extend_from_slice(words);
            assert_eq!(split(&body, 16), Ok((head, words)));
        }
    }

    #[test]
    fn a_body_that_is_cut_or_announces_too_much_is_refused() {
        let body = begin(b"12345678", 0);
        for cut in 0..body.len() {
            assert_eq!(split(&body[..cut], 8), Err(LayoutError::CutShort), "{cut}");
        }
        // a stated head length above the maximum is refused, however many bytes follow
        assert_eq!(split(&body, 7), Err(LayoutError::HeadTooLong));
        assert_eq!(split(&body[..LENGTH_BYTES], 7), Err(LayoutError::HeadTooLong));
        assert_eq!(split(&[0xff; 8], 1 << 20), Err(LayoutError::HeadTooLong));
    }
}
