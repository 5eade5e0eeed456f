//! The ring `Z_q[X]/(X^N + 1)`: roots, the plain number-theoretic transform, products.
//!
//! The transforms of this module are easy to read and work on one word at a time; [`crate::cpu`] has the same transform
//! on vectors. Clients use the transforms of this module on their secret keys, because these transforms run in constant
//! time (see [`crate::modular`]) and contain no division.

pub mod primes;

use crate::modular::Modulus;

/// The smallest and the largest supported `N`.
pub const POLYNOMIAL_SIZES: std::ops::RangeInclusive<usize> = 16..=1 << 15;

/// A constant factor with its Shoup companion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// `w` in `[0, q)`.
    pub value: u32,
    /// `floor(w 2^32 / q)`.
    pub companion: u32,
}

impl Root {
    /// Makes the root with the value `w` in `[0, q)`.
    pub fn new(modulus: Modulus, w: u32) -> Root {
        Root { value: w, companion: modulus.companion(w) }
    }
}

/// One modulus and one degree, with their tables.
pub struct Ring {
    /// `q`.
    pub modulus: Modulus,
    /// `psi^bitreverse(i)` for i in 0..N, psi a primitive 2N-th root of unity: group `g` of the stage with `m` groups uses
    /// `roots[m + g]`.
    pub roots: Vec<Root>,
    /// The inverses of `roots`, at the same places.
    pub inverse_roots: Vec<Root>,
    /// `1 / N`.
    pub inverse_degree: Root,
}

impl Ring {
    /// Makes the tables for `N = polynomial_size`.
    ///
    /// # Panics
    /// When `N` is not a power of two within [`POLYNOMIAL_SIZES`], or `q` is not 1 modulo `2N`.
    pub fn new(modulus: Modulus, polynomial_size: usize) -> Ring {
        let n = polynomial_size;
        assert!(n.is_power_of_two() && POLYNOMIAL_SIZES.contains(&n), "no ring has N = {n}");
        assert!(modulus.q() % (2 * n as u32) == 1, "{} has no 2N-th roots of unity, N = {n}", modulus.q());
        let psi = modulus.pow(generator(modulus), (modulus.q() - 1) / (2 * n as u32));
        let powers = |base: u32| {
            let mut table = vec![Root::default(); n];
            let mut power = 1;
            for i in 0..n {
                table[i.reverse_bits() >> (usize::BITS - n.trailing_zeros())] = Root::new(modulus, power);
                power = modulus.mul(power, base);
            }
            table
        };
        Ring {
            modulus,
            roots: powers(psi),
            inverse_roots: powers(modulus.inverse(psi)),
            inverse_degree: Root::new(modulus, modulus.inverse(n as u32)),
        }
    }

    /// `N`.
    pub fn polynomial_size(&self) -> usize {
        self.roots.len()
    }

    /// Transforms coefficients in natural order to values in bit-reversed order, in place. Input and output are in
    /// `[0, q)`.
    ///
    /// The method is negacyclic Cooley-Tukey with the twist folded into the roots (Longa, Naehrig, eprint 2016/504,
    /// Alg. 1).
    pub fn forward(&self, row: &mut [u32]) {
        assert_eq!(row.len(), self.polynomial_size());
        self.forward_spaced(row);
    }

    /// Like [`Ring::forward`], but for a polynomial in `X^gap`: `row` has its `N / gap` coefficients. The results are
    /// the values that [`Ring::forward`] finds for the whole polynomial, where each value comes `gap` times.
    ///
    /// # Panics
    /// When the number of coefficients is no power of two, or above `N`.
    pub fn forward_spaced(&self, row: &mut [u32]) {
        let (n, m) = (row.len(), self.modulus);
        assert!(n.is_power_of_two() && n <= self.polynomial_size(), "coefficients of a polynomial in a power of X");
        let (mut groups, mut half) = (1, n / 2);
        while half >= 1 {
            for group in 0..groups {
                let w = self.roots[groups + group];
                let (low, high) = row[2 * half * group..][..2 * half].split_at_mut(half);
                for (x, y) in low.iter_mut().zip(high) {
                    let t = m.reduce_once(m.mul_lazy(*y, w.value, w.companion));
                    (*x, *y) = (m.add(*x, t), m.sub(*x, t));
                }
            }
            (groups, half) = (2 * groups, half / 2);
        }
    }

    /// Transforms values in bit-reversed order to coefficients in natural order, in place. Input and output are in
    /// `[0, q)` (same source, Alg. 2).
    pub fn inverse(&self, row: &mut [u32]) {
        let (n, m) = (self.polynomial_size(), self.modulus);
        assert_eq!(row.len(), n);
        let (mut groups, mut half) = (n / 2, 1);
        while groups >= 1 {
            for group in 0..groups {
                let w = self.inverse_roots[groups + group];
                let (low, high) = row[2 * half * group..][..2 * half].split_at_mut(half);
                for (x, y) in low.iter_mut().zip(high) {
                    let t = m.sub(*x, *y);
                    (*x, *y) = (m.add(*x, *y), m.reduce_once(m.mul_lazy(t, w.value, w.companion)));
                }
            }
            (groups, half) = (groups / 2, 2 * half);
        }
        let w = self.inverse_degree;
        for x in row {
            *x = m.reduce_once(m.mul_lazy(*x, w.value, w.companion));
        }
    }

    /// Computes `out += a b` in the transformed domain. All rows are `[N]` words in `[0, q)`.
    pub fn multiply_add(&self, out: &mut [u32], a: &[u32], b: &[u32]) {
        let m = self.modulus;
        for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
            *out = m.add(*out, m.mul(a, b));
        }
    }
}

/// Finds the least generator of the multiplicative group modulo `q`.
fn generator(modulus: Modulus) -> u32 {
    let order = modulus.q() - 1;
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
    (2..).find(|&g| primes.iter().all(|p| modulus.pow(g, order / p) != 1)).expect("the group is cyclic")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::modular::tests::PRIMES;
    use proptest::prelude::*;

    /// Lists every ring of [`PRIMES`]: modulus and degree.
    pub fn rings() -> impl Iterator<Item = (Modulus, usize)> {
        let sizes = || (4..=15).map(|log_n| 1usize << log_n);
        PRIMES.into_iter().map(Modulus::new).flat_map(move |modulus| {
            sizes().filter(move |&n| modulus.q() % (2 * n as u32) == 1).map(move |n| (modulus, n))
        })
    }

    /// Makes `N` pseudorandom words below `bound`.
    pub fn words(n: usize, seed: u32, bound: u32) -> Vec<u32> {
        (0..n as u32).map(|i| ((i ^ seed).wrapping_mul(2_654_435_761) ^ seed.rotate_left(16)) % bound).collect()
    }

    /// Like [`words`], but only a few words are nonzero. For such words, the definition of the product is fast to
    /// compute.
    pub fn sparse(n: usize, seed: u32, bound: u32) -> Vec<u32> {
        let mut out = vec![0; n];
        let of_random = words(n, seed, bound);
        for i in [0, 1, n / 2 - 1, n / 2, n - 1, seed as usize % n, seed.rotate_left(11) as usize % n] {
            out[i] = of_random[i];
        }
        out
    }

    /// Computes the product `a b` in `Z_q[X]/(X^N + 1)` from the definition.
    pub fn schoolbook(m: Modulus, a: &[u32], b: &[u32]) -> Vec<u32> {
        let n = a.len();
        let mut out = vec![0; n];
        for (j, &y) in b.iter().enumerate().filter(|(_, y)| **y != 0) {
            for (i, &x) in a.iter().enumerate() {
                let product = m.mul(x, y);
                let at = (i + j) % n;
                out[at] = if i + j < n { m.add(out[at], product) } else { m.sub(out[at], product) };
            }
        }
        out
    }

    fn product(ring: &Ring, a: &[u32], b: &[u32]) -> Vec<u32> {
        let (mut a, mut b, mut out) = (a.to_vec(), b.to_vec(), vec![0; a.len()]);
        ring.forward(&mut a);
        ring.forward(&mut b);
        ring.multiply_add(&mut out, &a, &b);
        ring.inverse(&mut out);
        out
    }

    #[test]
    fn the_powers_of_the_root_are_those_of_a_primitive_2n_th_root_of_unity() {
        for (modulus, n) in rings() {
            let ring = Ring::new(modulus, n);
            // root 1 is psi^(N / 2), and its square psi^N is -1
            assert_eq!(modulus.mul(ring.roots[1].value, ring.roots[1].value), modulus.q() - 1, "{modulus:?} {n}");
            let inverse = |(w, inverse): (&Root, &Root)| modulus.mul(w.value, inverse.value) == 1;
            assert!(ring.roots.iter().zip(&ring.inverse_roots).all(inverse), "{modulus:?} {n}");
        }
    }

    #[test]
    fn a_modulus_without_roots_of_unity_and_a_degree_out_of_range_have_no_ring() {
        for (q, n) in [(12289, 4096), (65537, 1 << 16), (65537, 8), (65537, 48), (1_073_692_673, 1 << 14)] {
            assert!(std::panic::catch_unwind(|| Ring::new(Modulus::new(q), n)).is_err(), "{q} {n}");
        }
    }

    #[test]
    fn transformed_products_are_the_schoolbook_ones_in_every_ring() {
        for (modulus, n) in rings() {
            let (a, b) = (words(n, 1, modulus.q()), sparse(n, 77, modulus.q()));
            let ring = Ring::new(modulus, n);
            assert!(product(&ring, &a, &b) == schoolbook(modulus, &a, &b), "{modulus:?} {n}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn transformed_products_are_the_schoolbook_ones(
            ring in (0..rings().count()).prop_map(|i| rings().nth(i).expect("a ring")), seed: [u32; 2],
        ) {
            let (modulus, n) = ring;
            // the test above covers larger rings
            prop_assume!(n <= 2048);
            let [a, b] = seed.map(|seed| words(n, seed, modulus.q()));
            prop_assert_eq!(product(&Ring::new(modulus, n), &a, &b), schoolbook(modulus, &a, &b));
        }
    }
}
