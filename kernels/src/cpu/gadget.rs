//! Products of digits with the rows of a key, summed: the inner loop of every key switch (eprint 2018/931, 3.2; hybrid form: Han,
//! Ki, eprint 2019/688).

use crate::cpu::ntt::reduce;
use crate::cpu::simd::{Isa, Simd};
use crate::modular::Modulus;
use crate::ring::Root;

/// Products whose sum's reduction fits a word.
const TOGETHER: usize = 12;

/// Lays a polynomial of a key out among those of its prime, times `2^32`: `[N / lanes][digits][2][lanes]`, so that the loop reads one
/// stream. `place` is twice the digit, and one more for the mask.
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

/// `out_c = sum over j of d_j key_jc mod p`: `digits` are numbers of digits with their rows in `[0, 2p)`, not all of the key's where a
/// ciphertext has fewer primes than the key; `key` as [`arrange`] leaves it, `out` two rows in `[0, 2p)`.
pub(crate) fn product(isa: Isa, modulus: Modulus, digits: &[(usize, &[u32])], key: &[u32], out: [&mut [u32]; 2]) {
    let n = out[0].len();
    assert!(out[1].len() == n && key.len().is_multiple_of(2 * n), "rows of one degree");
    let of_key = key.len() / (2 * n);
    assert!(digits.iter().all(|(digit, row)| *digit < of_key && row.len() == n), "digits of the key");
    dispatch_product(isa, modulus, digits, key, out);
}

#[inline(always)]
unsafe fn product_rows<S: Simd>(modulus: Modulus, digits: &[(usize, &[u32])], key: &[u32], out: [&mut [u32]; 2]) {
    unsafe {
        let step = key.len() / out[0].len() * S::LANES;
        let (q, q2) = (S::splat(modulus.q()), S::splat(2 * modulus.q()));
        let inverse = S::splat(modulus.montgomery_inverse());
        let mut key = key.as_ptr();
        let [out_0, out_1] = out;
        for at in (0..out_0.len()).step_by(S::LANES) {
            let mut sums = [S::splat(0); 2];
            for digits in digits.chunks(TOGETHER) {
                let mut wide = [S::wide_zero(); 2];
                for (digit, row) in digits {
                    let key = key.add(2 * digit * S::LANES);
                    // (1) sum_c <- sum_c + d_j key_jc
                    let d = reduce::<S>(S::load(row.as_ptr().add(at)), q);
                    wide[0] = S::mul_add_wide(wide[0], d, S::load(key));
                    wide[1] = S::mul_add_wide(wide[1], d, S::load(key.add(S::LANES)));
                }
                // (2) at most (12 / 4 + 1) p, so below 4p
                for c in 0..2 {
                    let reduced = reduce::<S>(S::montgomery(wide[c], q, inverse), q2);
                    sums[c] = reduce::<S>(S::add(sums[c], reduced), q2);
                }
            }
            S::store(out_0.as_mut_ptr().add(at), sums[0]);
            S::store(out_1.as_mut_ptr().add(at), sums[1]);
            key = key.add(step);
        }
    }
}

crate::cpu::simd::dispatch! {
    fn dispatch_product = product_rows(
        modulus: Modulus,
        digits: &[(usize, &[u32])],
        key: &[u32],
        out: [&mut [u32]; 2],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::tests::words;

    #[test]
    fn products_are_summed_by_their_definition_for_few_and_many_digits() {
        let n = 256;
        for q in [786_433, 1_073_479_681] {
            let m = Modulus::new(q);
            for count in [1, 3, 12, 13, 25] {
                let row = |seed: usize, bound: u32| words(n, seed as u32, bound);
                let digits: Vec<Vec<u32>> = (0..count).map(|j| row(j, 2 * q)).collect();
                let keys: Vec<[Vec<u32>; 2]> = (0..count).map(|j| [row(100 + j, q), row(200 + j, q)]).collect();
                for isa in Isa::available() {
                    let mut arranged = vec![0; 2 * count * n];
                    for (place, polynomial) in keys.iter().flatten().enumerate() {
                        arrange(isa.lanes(), m, polynomial, place, &mut arranged);
                    }
                    // all but the second
                    let present = |at: &usize| *at != 1;
                    let refs: Vec<(usize, &[u32])> =
                        (0..count).filter(present).map(|at| (at, &digits[at][..])).collect();
                    let mut out = [vec![0; n], vec![0; n]];
                    let [b, a] = &mut out;
                    product(isa, m, &refs, &arranged, [b, a]);
                    for (c, out) in out.iter().enumerate() {
                        for i in 0..n {
                            let sum = (0..count)
                                .filter(present)
                                .fold(0, |sum, j| m.add(sum, m.mul(digits[j][i] % q, keys[j][c][i])));
                            assert!(out[i] < 2 * q && m.reduce_once(out[i]) == sum, "{q} {count} {isa:?} {c} {i}");
                        }
                    }
                }
            }
        }
    }
}
