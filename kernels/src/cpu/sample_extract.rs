//! Sample extraction: coefficient 0 of an RLWE ciphertext as an LWE ciphertext of dimension kN (eprint 2018/421, 4.2).

use crate::modular::to_torus;
use crate::tfhe::Params;

/// `accumulator` is `[k + 1][2N]` words, `-acc` then `acc`, in `[0, q)`; `out` is `[kN + 1]` torus words, each to nearest.
pub fn sample_extract(params: &Params, accumulator: &[u32], out: &mut [u32]) {
    let n = params.polynomial_size;
    let (mask, body) = out.split_at_mut(params.extracted_dimension());
    for (polynomial, mask) in accumulator.chunks_exact(2 * n).zip(mask.chunks_exact_mut(n)) {
        mask[0] = to_torus(polynomial[n]);
        for j in 1..n {
            // -A[N - j]
            mask[j] = to_torus(polynomial[n - j]);
        }
    }
    body[0] = to_torus(accumulator[params.glwe_dimension * 2 * n + n]);
}
