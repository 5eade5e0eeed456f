//! Recomputes the sums of a step in integers when their rounding is doubtful.

use crate::cpu::ntt;
use crate::cpu::simd::SimdReals;
use crate::tfhe::MODULUS;
use crate::tfhe::cpu::blind_rotate::{Decomposition, rotated_digits};

use super::digits::HighDigits;
use super::key::{RealsKey, key_vector};
use super::sums::add_sums;
use super::{Scratch, row_distance};

/// Replaces the doubtful sums of a step: subtracts them and adds the sums of the integer transform.
#[cold]
#[inline(never)]
pub(super) unsafe fn add_exact_sums<S: SimdReals>(
    key: &RealsKey,
    i: usize,
    exponent: usize,
    accumulator: &mut [u32],
    scratch: &mut Scratch,
) {
    let n = key.params.polynomial_size;
    for (sums, polynomial) in scratch.sums.chunks_exact_mut(row_distance(n)).zip(accumulator.chunks_exact_mut(n)) {
        // SAFETY: the caller enabled the instruction set. The values have gone through all inverse passes but the last.
        unsafe { add_sums::<S, true>(&key.tables, &mut sums[..n], polynomial) };
    }
    // SAFETY: the caller enabled the instruction set.
    let sums = unsafe { exact_sums::<S>(key, i, exponent, accumulator) };
    for (x, sum) in accumulator.iter_mut().zip(sums) {
        *x = MODULUS.add(*x, sum);
    }
}

/// Computes the sums of a step with the integer transform, `[k + 1][N]` residues. The inverse transform recovers the
/// integers of the key from its values.
pub(super) unsafe fn exact_sums<S: SimdReals>(
    key: &RealsKey,
    i: usize,
    exponent: usize,
    accumulator: &[u32],
) -> Vec<u32> {
    let (n, d) = (key.params.polynomial_size, Decomposition::new(&key.params));
    let (components, rows) = (key.params.glwe_dimension + 1, key.params.rgsw_rows());
    let mut digits = vec![0; rows * n];
    for (c, polynomial) in accumulator.chunks_exact(n).enumerate() {
        let mut levels = vec![0; d.levels * n];
        // SAFETY: the caller enabled the instruction set.
        unsafe { rotated_digits::<S>(polynomial, exponent, d.offset, HighDigits::new(levels.as_mut_ptr(), n, d)) };
        for (level, words) in levels.chunks_exact(n).enumerate() {
            let row = &mut digits[(level * components + c) * n..][..n];
            for (x, &word) in row.iter_mut().zip(words) {
                *x = MODULUS.from_signed(word as i32 >> (32 - d.base_log));
            }
        }
    }
    ntt::forward_all(&key.exact_tables, &mut digits);
    let mut sums = vec![0; components * n];
    for (c, total) in sums.chunks_exact_mut(n).enumerate() {
        for (row, digits) in digits.chunks_exact(n).enumerate() {
            // SAFETY: the caller enabled the instruction set.
            let mut words = unsafe { key_polynomial::<S>(key, i, c, row) };
            ntt::forward_all(&key.exact_tables, &mut words);
            for ((total, &digit), &word) in total.iter_mut().zip(digits).zip(&words) {
                *total = MODULUS.add(*total, MODULUS.mul(digit, word));
            }
        }
        ntt::inverse_all(&key.exact_tables, total);
        let inverse_degree = MODULUS.inverse(n as u32);
        for x in total {
            *x = MODULUS.mul(MODULUS.reduce_once(*x), inverse_degree);
        }
    }
    sums
}

/// Recovers one polynomial of the key of step `i` as integers, `[N]` residues. The rounding is exact: its error is
/// thousands of times smaller than the distance that could change an integer.
unsafe fn key_polynomial<S: SimdReals>(key: &RealsKey, i: usize, c: usize, row: usize) -> Vec<u32> {
    let n = key.params.polynomial_size;
    let raise = ((32 - key.params.bootstrap_base_log) as f64).exp2();
    let mut values = vec![0.0; n];
    for (v, to) in values.chunks_exact_mut(2 * S::REALS).enumerate() {
        let from = key_vector(&key.params, S::REALS, v, row, c);
        for (to, x) in to.iter_mut().zip(&key.step(i)[from..]) {
            *to = x * raise;
        }
    }
    let mut words = vec![0; n];
    // SAFETY: the caller enabled the instruction set.
    unsafe {
        add_sums::<S, false>(&key.tables, &mut values, &mut words);
    }
    words
}
