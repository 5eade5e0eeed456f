//! Mod switch: torus words to exponents of X (docs/wire-format.md 8).

use crate::tfhe::{ModSwitch, Params};

/// Converts `rows`, `[rows][n + 1]` torus words, in place to exponents in `[0, 2N)`.
///
/// The phase of the exponents is the row's phase plus `e_b - (e_0 s_0 + .. + e_{n-1} s_{n-1})`, where `e` are the
/// rounding errors. The centred switch adds `(e_0 + .. + e_{n-1}) / 2` to the body before rounding, so each mask word
/// leaves an error of `e_i (1/2 - s_i)`. This error has a quarter of the variance of `e_i`, whereas `e_i s_i` has half
/// of it.
pub fn mod_switch(p: &Params, rows: &mut [u32]) {
    let shift = 32 - (2 * p.polynomial_size).trailing_zeros();
    let half = 1 << (shift - 1);
    for row in rows.chunks_exact_mut(p.lwe_dimension + 1) {
        let (body, mask) = row.split_last_mut().expect("a row has a body");
        let mut sum = 0u32;
        for word in mask {
            // (1) mask: a~ <- floor((a + 2^(31 - log 2N)) / 2^(32 - log 2N)) mod 2N
            let exponent = word.wrapping_add(half) >> shift;
            // (2) errors: sum <- sum + floor(e / 2), e = 2^(32 - log 2N) a~ - a, signed
            let error = (exponent << shift).wrapping_sub(*word) as i32;
            sum = sum.wrapping_add((error >> 1) as u32);
            *word = exponent;
        }
        // (3) centred: b <- b + sum
        if p.mod_switch == ModSwitch::Centred {
            *body = body.wrapping_add(sum);
        }
        // (4) body: b~ <- floor((b + 2^(31 - log 2N)) / 2^(32 - log 2N)) mod 2N
        *body = body.wrapping_add(half) >> shift;
    }
}
