//! The ring `Z_q[X]/(X^N + 1)`: roots, the plain number-theoretic transform, products.
//!
//! The transforms here are the readable ones, a word at a time; [`crate::cpu`] has the same transform on vectors. Clients
//! transform their secret keys by these: they are constant time (see [`crate::modular`]) and hold no division at all.

use std::sync::OnceLock;

use crate::modular::{self, RING_MODULUS, companion, mul, mul_lazy, reduce_once};

/// Smallest and largest supported `N`.
pub const POLYNOMIAL_SIZES: std::ops::RangeInclusive<usize> = 64..=2048;

/// A constant factor with its Shoup companion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// `w` in `[0, q)`.
    pub value: u32,
    /// `floor(w 2^32 / q)`.
    pub companion: u32,
}

impl From<u32> for Root {
    fn from(value: u32) -> Self {
        Root { value, companion: companion(value) }
    }
}

/// Tables of one ring degree.
pub struct Ring {
    /// `psi^bitreverse(i)` for i in 1..N, psi a primitive 2N-th root of unity: group `g` of the stage with `m` groups uses
    /// `roots[m + g]`.
    pub roots: Vec<Root>,
    /// Their inverses at the same places.
    pub inverse_roots: Vec<Root>,
    /// `1 / N`.
    pub inverse_degree: Root,
}

impl Ring {
    /// Tables for `N = polynomial_size`, made once a process.
    ///
    /// # Panics
    /// When `N` is not a power of two within [`POLYNOMIAL_SIZES`].
    pub fn of(polynomial_size: usize) -> &'static Ring {
        static RINGS: [OnceLock<Ring>; 6] = [const { OnceLock::new() }; 6];
        assert!(polynomial_size.is_power_of_two() && POLYNOMIAL_SIZES.contains(&polynomial_size));
        RINGS[(polynomial_size / 64).trailing_zeros() as usize].get_or_init(|| Ring::new(polynomial_size))
    }

    fn new(n: usize) -> Ring {
        let psi = modular::pow(generator(), (RING_MODULUS - 1) / (2 * n as u32));
        let powers = |base: u32| {
            let mut table = vec![Root::default(); n];
            let mut power = 1;
            for i in 0..n {
                table[i.reverse_bits() >> (usize::BITS - n.trailing_zeros())] = power.into();
                power = mul(power, base);
            }
            table
        };
        Ring {
            roots: powers(psi),
            inverse_roots: powers(modular::inverse(psi)),
            inverse_degree: modular::inverse(n as u32).into(),
        }
    }

    /// `N`.
    pub fn polynomial_size(&self) -> usize {
        self.roots.len()
    }

    /// Coefficients in natural order to values in bit-reversed order, in place; in and out in `[0, q)`.
    ///
    /// Negacyclic Cooley-Tukey with the twist folded into the roots (Longa, Naehrig, eprint 2016/504, Alg. 1).
    pub fn forward(&self, row: &mut [u32]) {
        let n = self.polynomial_size();
        assert_eq!(row.len(), n);
        let (mut groups, mut half) = (1, n / 2);
        while half >= 1 {
            for group in 0..groups {
                let w = self.roots[groups + group];
                let (low, high) = row[2 * half * group..][..2 * half].split_at_mut(half);
                for (x, y) in low.iter_mut().zip(high) {
                    let t = reduce_once(mul_lazy(*y, w.value, w.companion));
                    (*x, *y) = (modular::add(*x, t), modular::sub(*x, t));
                }
            }
            (groups, half) = (2 * groups, half / 2);
        }
    }

    /// Values in bit-reversed order to coefficients in natural order, in place; in and out in `[0, q)` (same, Alg. 2).
    pub fn inverse(&self, row: &mut [u32]) {
        let n = self.polynomial_size();
        assert_eq!(row.len(), n);
        let (mut groups, mut half) = (n / 2, 1);
        while groups >= 1 {
            for group in 0..groups {
                let w = self.inverse_roots[groups + group];
                let (low, high) = row[2 * half * group..][..2 * half].split_at_mut(half);
                for (x, y) in low.iter_mut().zip(high) {
                    let t = modular::sub(*x, *y);
                    (*x, *y) = (modular::add(*x, *y), reduce_once(mul_lazy(t, w.value, w.companion)));
                }
            }
            (groups, half) = (groups / 2, 2 * half);
        }
        let w = self.inverse_degree;
        for x in row {
            *x = reduce_once(mul_lazy(*x, w.value, w.companion));
        }
    }

    /// `out += a b` in the transformed domain, all `[N]` words in `[0, q)`.
    pub fn multiply_add(&self, out: &mut [u32], a: &[u32], b: &[u32]) {
        for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
            *out = modular::add(*out, mul(a, b));
        }
    }
}

/// A generator of the multiplicative group modulo `q`: the least one.
fn generator() -> u32 {
    let order = RING_MODULUS - 1;
    let mut primes = Vec::new();
    let mut rest = order;
    let mut p = 2;
    while p * p <= rest {
        if rest.is_multiple_of(p) {
            primes.push(p);
            while rest.is_multiple_of(p) {
                rest /= p;
            }
        }
        p += 1;
    }
    if rest > 1 {
        primes.push(rest);
    }
    (2..).find(|&g| primes.iter().all(|p| modular::pow(g, order / p) != 1)).expect("the group is cyclic")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `a b` in `Z_q[X]/(X^N + 1)`, from the definition.
    fn schoolbook(a: &[u32], b: &[u32]) -> Vec<u32> {
        let n = a.len();
        let mut out = vec![0; n];
        for (i, &x) in a.iter().enumerate() {
            for (j, &y) in b.iter().enumerate() {
                let product = mul(x, y);
                let at = (i + j) % n;
                out[at] = if i + j < n { modular::add(out[at], product) } else { modular::sub(out[at], product) };
            }
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn transformed_products_are_the_schoolbook_ones(
            log_n in 6u32..=11, seed: [u32; 2],
        ) {
            let n = 1usize << log_n;
            let row = |seed: u32| -> Vec<u32> {
                (0..n as u32).map(|i| (i ^ seed).wrapping_mul(2_654_435_761).wrapping_add(seed) % RING_MODULUS).collect()
            };
            let (a, b) = (row(seed[0]), row(seed[1]));
            let ring = Ring::of(n);
            let (mut fa, mut fb, mut out) = (a.clone(), b.clone(), vec![0; n]);
            ring.forward(&mut fa);
            ring.forward(&mut fb);
            ring.multiply_add(&mut out, &fa, &fb);
            ring.inverse(&mut out);
            prop_assert_eq!(out, schoolbook(&a, &b));
        }
    }
}
