//! Modulus switch: torus words to exponents of X, to nearest (docs/wire-format.md 8).

/// `floor((x + 2^(31 - log 2N)) / 2^(32 - log 2N)) mod 2N` for every word, in place.
pub fn mod_switch(polynomial_size: usize, words: &mut [u32]) {
    let shift = 32 - (2 * polynomial_size).trailing_zeros();
    for word in words {
        // (1) x <- floor((x + 2^(31 - log 2N)) / 2^(32 - log 2N)) mod 2N
        *word = word.wrapping_add(1 << (shift - 1)) >> shift;
    }
}
