//! Products of residues, word by word, added to sums, with one prime for each limb: a step of every gadget product
//! (eprint 2018/931, 3.2).

use crate::modular::Modulus;

/// Computes `sums += x y` modulo each limb's prime. `sums` and `x` are `[batch][limbs][N]` words in `[0, q)`. `y` is
/// `[limbs][N]`, multiplied by 2^32 and used for the whole batch. Results are in `[0, q)`.
///
/// # Panics
/// When the words do not form whole limbs or batches.
pub fn mul_add(primes: &[Modulus], polynomial_size: usize, sums: &mut [u32], x: &[u32], y: &[u32]) {
    let batch_words = primes.len() * polynomial_size;
    assert!(y.len() == batch_words && x.len() == sums.len() && sums.len().is_multiple_of(batch_words), "whole limbs");
    for (sums, x) in sums.chunks_exact_mut(batch_words).zip(x.chunks_exact(batch_words)) {
        for (at, sum) in sums.iter_mut().enumerate() {
            let prime = primes[at / polynomial_size];
            // (1) sum <- sum + x y / 2^32 modulo the limb's prime
            *sum = prime.add(*sum, prime.mul_montgomery(x[at], y[at]));
        }
    }
}
