//! How kernels address rows: relative to the buffer that the launch binds.

use super::Gpu;

/// The number of words from the start of the buffer that the launch binds to a place in this or another buffer: 64
/// bits, two's complement, low word first. WGSL kernels use only the low word, because all places are in the same
/// buffer.
pub type Distance = [u32; 2];

/// The number of words from the start of one buffer to the start of another.
pub fn words_between<G: Gpu>(gpu: &G, from: &G::Buf, to: &G::Buf) -> i64 {
    if std::ptr::eq(from, to) {
        return 0;
    }
    let address = |buf: &G::Buf| gpu.address(buf).expect("where kernels are in CUDA a buffer has one") as i64;
    (address(to) - address(from)) / 4
}

/// A number of words, in the form that tables use.
pub fn distance(words: i64) -> Distance {
    [words as u32, (words >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_two_words_in_either_direction() {
        assert_eq!(distance(5), [5, 0]);
        assert_eq!(distance((3 << 32) + 7), [7, 3]);
        assert_eq!(distance(-1), [u32::MAX, u32::MAX]);
        assert_eq!(distance(-(1 << 32)), [0, u32::MAX]);
    }
}
