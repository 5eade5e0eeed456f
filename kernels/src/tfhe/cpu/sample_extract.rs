//! Sample extraction: a coefficient of an RLWE ciphertext as an LWE ciphertext of dimension kN (eprint 2018/421, 4.2).

use crate::tfhe::lwe::EIGHTH;
use crate::tfhe::torus::to_torus;
use crate::tfhe::{MODULUS, Params};

/// Extracts coefficient 0. `accumulator` is `[k + 1][N]` words in `[0, q)`; `out` is `[kN + 1]` torus words, each
/// rounded to nearest.
pub fn sample_extract(params: &Params, accumulator: &[u32], out: &mut [u32]) {
    extract_coefficient(params, accumulator, 0, out);
}

/// Extracts coefficient `h` in `[0, N)`, like [`sample_extract`].
pub fn extract_coefficient(params: &Params, accumulator: &[u32], h: usize, out: &mut [u32]) {
    let n = params.polynomial_size;
    // (1) mask: A_c[h], .., A_c[0], -A_c[N - 1], .., -A_c[h + 1] for every c, each to the nearest torus word
    let (mask, body) = out.split_at_mut(params.extracted_dimension());
    for (polynomial, mask) in accumulator.chunks_exact(n).zip(mask.chunks_exact_mut(n)) {
        for j in 0..=h {
            mask[j] = to_torus(polynomial[h - j]);
        }
        for j in h + 1..n {
            mask[j] = to_torus(MODULUS.sub(0, polynomial[n + h - j]));
        }
    }
    // (2) body: b[h], likewise
    body[0] = to_torus(accumulator[params.glwe_dimension * n + h]);
}

/// Adds the second sample of a MUX to the first, and 1/8. Both samples are `[kN + 1]` words.
pub fn add_mux_half(first: &mut [u32], second: &[u32]) {
    // (3) a MUX: the sum of its two samples and 1/8
    for (sum, &word) in first.iter_mut().zip(second) {
        *sum = sum.wrapping_add(word);
    }
    let body = first.last_mut().expect("a sample has a body");
    *body = body.wrapping_add(EIGHTH);
}
