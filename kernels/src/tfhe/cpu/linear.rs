//! The sum that a gate forms before its bootstrap, and NOT, which has no bootstrap (docs/wire-format.md 8).

use crate::tfhe::gates::Linear;
use crate::tfhe::lwe::EIGHTH;

/// `out = constant/8 + factors[0] * x + factors[1] * y`, all `[n + 1]` words, modulo a whole turn.
pub fn linear(row: Linear, x: &[u32], y: &[u32], out: &mut [u32]) {
    let [f, g] = row.factors.map(|factor| factor as u32);
    for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
        // (1) f x + g y, word by word
        *out = x.wrapping_mul(f).wrapping_add(y.wrapping_mul(g));
    }
    // (2) plus the constant in the body
    let body = out.last_mut().expect("a ciphertext has a body");
    *body = body.wrapping_add(EIGHTH.wrapping_mul(row.constant as u32));
}

/// The negation of `operand`, all `[n + 1]` words.
pub fn negate(operand: &[u32]) -> Vec<u32> {
    // (3) negation, word by word
    operand.iter().map(|word| word.wrapping_neg()).collect()
}
