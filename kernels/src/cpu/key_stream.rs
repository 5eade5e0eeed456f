//! AES-256 in counter mode where vectors have it (VAES, AVX-512): 32 blocks at once, whose rounds hide one another's
//! latency. The words are those of [`crate::xof`], which asks here first.

/// A seed's round keys, for processors that have the instructions.
pub(crate) struct KeyStream {
    #[cfg(target_arch = "x86_64")]
    keys: x86::RoundKeys,
}

#[cfg(target_arch = "x86_64")]
impl KeyStream {
    /// Of a seed; `None` where the processor has not what it takes.
    pub(crate) fn of(seed: &[u8; 32]) -> Option<KeyStream> {
        let able = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("vaes");
        // SAFETY: the instructions are there
        able.then(|| KeyStream { keys: unsafe { x86::round_keys(seed) } })
    }

    /// Fills `out` with the stream of this domain and row, as little-endian words; at most 2^34 of them.
    pub(crate) fn fill(&self, domain: u32, row: u64, out: &mut [u32]) {
        // SAFETY: there are no keys without the instructions
        unsafe { x86::fill(&self.keys, domain, row, out) }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl KeyStream {
    pub(crate) fn of(_seed: &[u8; 32]) -> Option<KeyStream> {
        None
    }

    pub(crate) fn fill(&self, _domain: u32, _row: u64, _out: &mut [u32]) {
        unreachable!("there is no key stream here")
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Vectors of four blocks under way at once: with the round keys no more than there are registers.
    const AT_ONCE: usize = 8;
    /// Words of a vector.
    const LANES: usize = 16;

    /// Each in all four blocks of a vector.
    pub(super) type RoundKeys = [__m512i; 15];

    /// FIPS 197, 5.2, with eight words of key.
    #[target_feature(enable = "aes,avx512f")]
    pub(super) fn round_keys(seed: &[u8; 32]) -> RoundKeys {
        // each word of the key before plus all words in front of it
        let sums = |key: __m128i| {
            let pairs = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
            _mm_xor_si128(pairs, _mm_slli_si128::<8>(pairs))
        };
        let half = |at: usize| {
            let word = |i: usize| u32::from_le_bytes(std::array::from_fn(|byte| seed[at + 4 * i + byte])) as i32;
            _mm_set_epi32(word(3), word(2), word(1), word(0))
        };
        let mut keys = [half(0); 15];
        keys[1] = half(16);
        macro_rules! next {
            ($($at:literal: $constant:literal $word:literal,)*) => {$(
                let last = _mm_aeskeygenassist_si128::<$constant>(keys[$at - 1]);
                keys[$at] = _mm_xor_si128(sums(keys[$at - 2]), _mm_shuffle_epi32::<$word>(last));
            )*};
        }
        next! {
            2: 0x01 0xff, 3: 0 0xaa, 4: 0x02 0xff, 5: 0 0xaa, 6: 0x04 0xff, 7: 0 0xaa, 8: 0x08 0xff, 9: 0 0xaa,
            10: 0x10 0xff, 11: 0 0xaa, 12: 0x20 0xff, 13: 0 0xaa, 14: 0x40 0xff,
        }
        let mut wide = [_mm512_setzero_si512(); 15];
        wide.iter_mut().zip(keys).for_each(|(wide, key)| *wide = _mm512_broadcast_i32x4(key));
        wide
    }

    #[target_feature(enable = "avx512f,avx512bw,vaes")]
    pub(super) fn fill(keys: &RoundKeys, domain: u32, row: u64, out: &mut [u32]) {
        let [domain, high, low] = [domain, (row >> 32) as u32, row as u32].map(|word| word.swap_bytes() as i32);
        let beginning = _mm512_broadcast_i32x4(_mm_set_epi32(0, low, high, domain));
        let mut counters = _mm512_set_epi32(3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0);
        let four = _mm512_broadcast_i32x4(_mm_set_epi32(4, 0, 0, 0));
        let big_endian = _mm512_broadcast_i32x4(_mm_set_epi32(0x0c0d_0e0f, 0x0809_0a0b, 0x0405_0607, 0x0001_0203));
        for words in out.chunks_mut(LANES * AT_ONCE) {
            let mut blocks = [beginning; AT_ONCE];
            for block in &mut blocks {
                let counter = _mm512_shuffle_epi8(counters, big_endian);
                *block = _mm512_xor_si512(_mm512_or_si512(*block, counter), keys[0]);
                counters = _mm512_add_epi32(counters, four);
            }
            for key in &keys[1..14] {
                for block in &mut blocks {
                    *block = _mm512_aesenc_epi128(*block, *key);
                }
            }
            for (words, block) in words.chunks_mut(LANES).zip(blocks) {
                let last = _mm512_aesenclast_epi128(block, keys[14]);
                let lanes = (u32::from(u16::MAX) >> (LANES - words.len())) as u16;
                // SAFETY: as many lanes as there are words
                unsafe { _mm512_mask_storeu_epi32(words.as_mut_ptr().cast(), lanes, last) };
            }
        }
    }
}
