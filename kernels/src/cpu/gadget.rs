//! Gadget product: sums of products of digits with the rows of a key, the inner loop of every key switch (eprint
//! 2018/931, 3.2; hybrid form: Han, Ki, eprint 2019/688).

use crate::cpu::ahead::Ahead;
use crate::cpu::ntt::{self, NttTables, reduce};
use crate::cpu::simd::Simd;
use crate::modular::Modulus;
use crate::ring::Root;

/// Largest number of products whose sum fits a word after one reduction.
const TOGETHER: usize = 12;

/// Stores a polynomial of a key, times `2^32`, among the other polynomials of the same prime:
/// `[N / lanes][digits][2][lanes]`, so that the loop reads one stream. `place` is twice the digit, plus one for the
/// mask.
pub(crate) fn arrange(lanes: usize, modulus: Modulus, polynomial: &[u32], place: usize, out: &mut [u32]) {
    let step = out.len() / polynomial.len() * lanes;
    assert!(out.len().is_multiple_of(polynomial.len()) && (place + 1) * lanes <= step, "a place of the key");
    let montgomery = Root::new(modulus, modulus.pow(2 % modulus.q(), 32));
    for (words, out) in polynomial.chunks_exact(lanes).zip(out.chunks_exact_mut(step)) {
        for (out, &word) in out[place * lanes..].iter_mut().zip(words) {
            let lazy = modulus.mul_lazy(word, montgomery.value, montgomery.companion);
            *out = modulus.reduce_once(lazy);
        }
    }
}

/// A digit's row under one prime.
pub(crate) enum DigitRow<'a> {
    /// A transformed row, in `[0, 2p)`.
    Whole(&'a [u32]),
    /// A row whose transform [`ntt::begin_forward`] began. The product finishes the transform.
    Begun(&'a mut [u32]),
}

impl<'a> DigitRow<'a> {
    /// The row after a product has finished its transform.
    pub(crate) fn finished(self) -> DigitRow<'a> {
        match self {
            DigitRow::Whole(row) => DigitRow::Whole(row),
            DigitRow::Begun(row) => DigitRow::Whole(row),
        }
    }

    fn words(&self) -> &[u32] {
        match self {
            DigitRow::Whole(row) => row,
            DigitRow::Begun(row) => row,
        }
    }
}

/// Computes `out_c = sum over j of d_j key_jc mod p`. `digits` are digit indices with their rows; some digits of the
/// key are missing if the ciphertext has fewer primes than the key. `key` is in the layout of [`arrange`]; `out` is two
/// rows in `[0, 2p)`.
///
/// The loop goes from square to square. In each square, the transforms of all digits finish with the same roots, and
/// the transformed words are multiplied while they are in the L1 cache. Meanwhile the key's words for the next square
/// are prefetched.
pub(crate) fn product(tables: &NttTables, digits: &mut [(usize, DigitRow<'_>)], key: &[u32], out: [&mut [u32]; 2]) {
    let n = tables.polynomial_size();
    assert!(out.iter().all(|out| out.len() == n) && key.len().is_multiple_of(2 * n), "rows of one degree");
    let of_key = key.len() / (2 * n);
    assert!(digits.iter().all(|(digit, row)| *digit < of_key && row.words().len() == n), "digits of the key");
    dispatch_product(tables.isa(), tables, digits, key, out);
}

#[inline(always)]
unsafe fn product_rows<S: Simd>(
    tables: &NttTables,
    digits: &mut [(usize, DigitRow<'_>)],
    key: &[u32],
    out: [&mut [u32]; 2],
) {
    // SAFETY: `product` checked the lengths; the caller promises that the processor supports `S`.
    unsafe {
        match tables.unreduced() {
            Some(unreduced) => product_of::<S, true>(tables, digits, unreduced.products_together(), key, out),
            None => product_of::<S, false>(tables, digits, TOGETHER, key, out),
        }
    }
}

#[inline(always)]
unsafe fn product_of<S: Simd, const SHORT: bool>(
    tables: &NttTables,
    digits: &mut [(usize, DigitRow<'_>)],
    together: usize,
    key: &[u32],
    [out_0, out_1]: [&mut [u32]; 2],
) {
    // SAFETY: `product` checked that each row has the tables' degree, so consists of whole squares, and that each digit
    // belongs to the key. The caller promises that the processor supports `S`.
    unsafe {
        let modulus = tables.modulus();
        let n = out_0.len();
        let step = key.len() / n * S::LANES;
        let (q, q2) = (S::splat(modulus.q()), S::splat(2 * modulus.q()));
        let inverse = S::splat(modulus.montgomery_inverse());
        for square in 0..n / (S::LANES * S::LANES) {
            let of_next = key.get((square + 1) * S::LANES * step..).unwrap_or(&[]);
            let mut ahead = Ahead::new(&of_next[..of_next.len().min(S::LANES * step)], digits.len());
            for (_, row) in digits.iter_mut() {
                ahead.call::<S>();
                if let DigitRow::Begun(row) = row {
                    ntt::end_square::<S, SHORT>(tables, row, square);
                }
            }
            for vector in square * S::LANES..(square + 1) * S::LANES {
                let (at, key) = (vector * S::LANES, key.as_ptr().add(vector * step));
                let mut sums = [S::splat(0); 2];
                for digits in digits.chunks(together) {
                    let mut wide = [S::wide_zero(); 2];
                    for (digit, row) in digits {
                        let key = key.add(2 * digit * S::LANES);
                        // (1) sum_c <- sum_c + d_j key_jc
                        let d = S::load(row.words().as_ptr().add(at));
                        let d = if SHORT { d } else { reduce::<S>(d, q) };
                        wide[0] = S::mul_add_wide(wide[0], d, S::load(key));
                        wide[1] = S::mul_add_wide(wide[1], d, S::load(key.add(S::LANES)));
                    }
                    // each reduced sum is below (3 + 1) p, so below 4p
                    for c in 0..2 {
                        let reduced = reduce::<S>(S::montgomery(wide[c], q, inverse), q2);
                        sums[c] = reduce::<S>(S::add(sums[c], reduced), q2);
                    }
                }
                S::store(out_0.as_mut_ptr().add(at), sums[0]);
                S::store(out_1.as_mut_ptr().add(at), sums[1]);
            }
        }
    }
}

crate::cpu::simd::dispatch! {
    fn dispatch_product = product_rows(
        tables: &NttTables,
        digits: &mut [(usize, DigitRow<'_>)],
        key: &[u32],
        out: [&mut [u32]; 2],
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cpu::simd::Isa;
    use crate::ring::Ring;
    use crate::ring::tests::words;

    #[test]
    fn products_are_summed_by_their_definition_for_few_and_many_digits() {
        // a short prime, a long prime, and a prime that is just short enough for unreduced transforms of its degree
        for (q, n) in [(786_433, 256), (1_073_479_681, 256), (67_043_329, 16384)] {
            let m = Modulus::new(q);
            let ring = Arc::new(Ring::new(m, n));
            for count in [1, 3, 12, 13, 25] {
                let row = |seed: usize, bound: u32| words(n, seed as u32, bound);
                let digits: Vec<Vec<u32>> = (0..count).map(|j| row(j, 2 * q)).collect();
                let keys: Vec<[Vec<u32>; 2]> = (0..count).map(|j| [row(100 + j, q), row(200 + j, q)]).collect();
                for isa in Isa::available() {
                    let tables = NttTables::new(isa, ring.clone());
                    let mut arranged = vec![0; 2 * count * n];
                    for (place, polynomial) in keys.iter().flatten().enumerate() {
                        arrange(tables.lanes(), m, polynomial, place, &mut arranged);
                    }
                    // the second digit is missing, and every third digit is already transformed
                    let present = |at: &usize| *at != 1;
                    let mut transformed = digits.clone();
                    transformed.iter_mut().for_each(|row| ntt::forward_all(&tables, row));
                    let mut begun = digits.clone();
                    begun.iter_mut().for_each(|row| ntt::begin_forward(&tables, row));
                    let mut rows: Vec<(usize, DigitRow<'_>)> = begun
                        .iter_mut()
                        .enumerate()
                        .filter(|(at, _)| present(at))
                        .map(|(at, row)| match at % 3 {
                            2 => (at, DigitRow::Whole(&transformed[at])),
                            _ => (at, DigitRow::Begun(row)),
                        })
                        .collect();
                    let mut out = [vec![0; n], vec![0; n]];
                    let [b, a] = &mut out;
                    product(&tables, &mut rows, &arranged, [b, a]);
                    for (c, out) in out.iter().enumerate() {
                        for i in 0..n {
                            let sum = (0..count)
                                .filter(present)
                                .fold(0, |sum, j| m.add(sum, m.mul(transformed[j][i] % q, keys[j][c][i])));
                            assert!(out[i] < 2 * q && m.reduce_once(out[i]) == sum, "{q} {count} {isa:?} {c} {i}");
                        }
                    }
                }
            }
        }
    }
}
