//! Automorphisms `X -> X^g` of the ring, on transformed rows in the reading order of [`crate::cpu::ntt`]: a permutation.
//!
//! Value `i` in bit-reversed order is that at `psi^(2 r + 1)` with `r` the reversed bits of `i`; `a(X^g)` there is `a` at
//! `psi^(g (2 r + 1))`.

use crate::cpu::ntt::NttTables;

/// Where each word of a permuted row comes from.
pub struct Permutation(Vec<u32>);

impl Permutation {
    /// That of `X -> X^element`, for rows of these tables' degree and vectors.
    ///
    /// # Panics
    /// When the element is even.
    pub fn of(tables: &NttTables, element: u32) -> Permutation {
        assert!(element % 2 == 1, "an automorphism's exponent is odd");
        let (n, lanes) = (tables.polynomial_size(), tables.lanes());
        let bits = n.trailing_zeros();
        let reverse = |i: u32| i.reverse_bits() >> (u32::BITS - bits);
        let mask = 2 * n as u32 - 1;
        let source = |place: usize| {
            let exponent = (2 * reverse(swapped(place, lanes) as u32) + 1).wrapping_mul(element) & mask;
            swapped(reverse(exponent >> 1) as usize, lanes) as u32
        };
        Permutation((0..n).map(source).collect())
    }

    /// The permuted row.
    pub(crate) fn apply(&self, row: &[u32], out: &mut [u32]) {
        assert!(row.len() == self.0.len() && out.len() == row.len(), "rows of the permutation's degree");
        for (out, &from) in out.iter_mut().zip(&self.0) {
            // SAFETY: every source is below N, the row's length
            *out = unsafe { *row.get_unchecked(from as usize) };
        }
    }
}

/// Bit-reversed place to reading order and back: blocks of `lanes` by `lanes` words are transposed.
fn swapped(place: usize, lanes: usize) -> usize {
    let bits = lanes.trailing_zeros();
    let (low, high) = (place & (lanes - 1), (place >> bits) & (lanes - 1));
    (place & !(lanes * lanes - 1)) | (low << bits) | high
}

/// A row in bit-reversed order, as [`crate::ring::Ring::forward`] leaves it, to reading order, or back.
pub fn swap_order(tables: &NttTables, row: &[u32], out: &mut [u32]) {
    assert!(row.len() == tables.polynomial_size() && out.len() == row.len(), "rows of the tables' degree");
    let lanes = tables.lanes();
    for (row, out) in row.chunks_exact(lanes * lanes).zip(out.chunks_exact_mut(lanes * lanes)) {
        for i in 0..lanes {
            for j in 0..lanes {
                out[i * lanes + j] = row[j * lanes + i];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cpu::ntt::forward_all;
    use crate::cpu::simd::Isa;
    use crate::ring::Ring;
    use crate::ring::tests::{rings, words};

    #[test]
    fn reading_order_swapped_is_the_order_of_the_plain_transform() {
        for (modulus, n) in rings() {
            let ring = Arc::new(Ring::new(modulus, n));
            let mut plain = words(n, 3, modulus.q());
            let row = plain.clone();
            ring.forward(&mut plain);
            for isa in Isa::available() {
                let tables = NttTables::new(isa, ring.clone());
                let (mut values, mut swapped) = (row.clone(), vec![0; n]);
                forward_all(&tables, &mut values);
                values.iter_mut().for_each(|x| *x = modulus.reduce_once(*x));
                swap_order(&tables, &values, &mut swapped);
                assert!(swapped == plain, "{modulus:?} {n} {isa:?}");
            }
        }
    }

    #[test]
    fn permuted_values_are_those_of_the_polynomial_of_the_power() {
        for (modulus, n) in rings().filter(|(_, n)| *n <= 1024) {
            let ring = Arc::new(Ring::new(modulus, n));
            let row = words(n, 9, modulus.q());
            for element in [1, 5, 25, 2 * n as u32 - 1, 2 * n as u32 - 5, n as u32 + 1] {
                let mut image = vec![0; n];
                for (i, &x) in row.iter().enumerate() {
                    let power = i * element as usize % (2 * n);
                    image[power % n] = if power < n { x } else { modulus.sub(0, x) };
                }
                for isa in Isa::available() {
                    let tables = NttTables::new(isa, ring.clone());
                    let (mut values, mut expected, mut out) = (row.clone(), image.clone(), vec![0; n]);
                    forward_all(&tables, &mut values);
                    forward_all(&tables, &mut expected);
                    Permutation::of(&tables, element).apply(&values, &mut out);
                    let reduced = |row: &[u32]| row.iter().map(|&x| modulus.reduce_once(x)).collect::<Vec<_>>();
                    assert!(reduced(&out) == reduced(&expected), "{modulus:?} {n} {element} {isa:?}");
                }
            }
        }
    }
}
