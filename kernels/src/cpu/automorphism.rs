//! Automorphisms `X -> X^g` of the ring, on transformed rows in the reading order of [`crate::cpu::ntt`]. An
//! automorphism permutes the words of a row.
//!
//! In bit-reversed order, value `i` is the value at `psi^(2 r + 1)`, where `r` is `i` with its bits reversed. At this
//! point, `a(X^g)` has the value that `a` has at `psi^(g (2 r + 1))`.
//!
//! All words of a square (`LANES` vectors) come from one square of the input. Let `t` be the top `2 log LANES` bits of
//! `r`: the number of a word in its square. Then word `t` of a square comes from word `h + g t` modulo `LANES^2` of the
//! input's square, where `h` depends on the square. In base `LANES`, the low digit of `h + g t` depends only on the low
//! digit of `t`. So in transposed squares, all words of a vector come from one vector. The carry to the high digit
//! selects one of `LANES` permutations of the vector's lanes.

use crate::cpu::ntt::{NttTables, reduce};
use crate::cpu::simd::{Isa, Simd, Square};
use crate::modular::Modulus;

/// A permutation of a row's words, stored as the place from which each word comes.
pub struct Permutation {
    isa: Isa,
    /// For each square of the permuted row, the index of the square of the input that is its source.
    squares: Vec<u32>,
    /// `[N / LANES]`: for each vector of each transposed square, the index of its source vector in the source
    /// square, and the index of the row of `lanes` that permutes the words of the source vector.
    vectors: Vec<(u8, u8)>,
    /// `[LANES][LANES]`: a row for each carry, with the source of each lane.
    lanes: Vec<u32>,
}

impl Permutation {
    /// Makes the permutation for `X -> X^element`, for rows of the degree and vector width of these tables.
    ///
    /// # Panics
    /// When `element` is even.
    pub fn of(tables: &NttTables, element: u32) -> Permutation {
        assert!(element % 2 == 1, "an automorphism's exponent is odd");
        let (n, lanes) = (tables.polynomial_size(), tables.lanes());
        let (bits, digit) = (n.trailing_zeros(), lanes.trailing_zeros());
        let reverse = |x: u32, bits: u32| if bits == 0 { 0 } else { x.reverse_bits() >> (u32::BITS - bits) };
        let (of_squares, mask) = (bits - 2 * digit, 2 * n as u32 - 1);
        let low = lanes as u32 - 1;
        let (mut squares, mut vectors) = (Vec::new(), Vec::with_capacity(n / lanes));
        for square in 0..1u32 << of_squares {
            // the exponent of psi at the point from which the square's first value (`t` = 0) comes
            let first = (2 * reverse(square, of_squares) + 1).wrapping_mul(element) & mask;
            let (source, own) = ((first >> 1) & ((1 << of_squares) - 1), first >> 1 >> of_squares);
            squares.push(reverse(source, of_squares));
            for vector in 0..lanes as u32 {
                let sum = own.wrapping_add(element.wrapping_mul(reverse(vector, digit)));
                vectors.push((reverse(sum & low, digit) as u8, (sum >> digit & low) as u8));
            }
        }
        let lane = |carry: u32, lane: u32| {
            reverse(carry.wrapping_add(element.wrapping_mul(reverse(lane, digit))) & low, digit)
        };
        let lanes = (0..=low).flat_map(|carry| (0..=low).map(move |at| lane(carry, at))).collect();
        Permutation { isa: tables.isa(), squares, vectors, lanes }
    }

    /// Returns the most bytes that a permutation of rows of `polynomial_size` words takes: the bytes with vectors of 4
    /// words, and the table of lanes with vectors of 16 words.
    pub(crate) fn bytes_max(polynomial_size: usize) -> usize {
        let (squares, vectors) = (polynomial_size / 16 * size_of::<u32>(), polynomial_size / 4 * 2);
        squares + vectors + 16 * 16 * size_of::<u32>()
    }

    /// Counts the bytes of the permutation.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.squares[..]) + size_of_val(&self.vectors[..]) + size_of_val(&self.lanes[..])
    }

    /// Permutes `row` and writes the result to `out`.
    pub(crate) fn apply(&self, row: &[u32], out: &mut [u32]) {
        let n = self.vectors.len() * self.isa.lanes();
        assert!(row.len() == n && out.len() == n, "rows of the permutation's degree");
        dispatch_permute(self.isa, self, row, out);
    }

    /// Permutes `row` and adds the result to `out`. Both rows are in `[0, 2q)`, for the `q` of `modulus`.
    pub(crate) fn add_to(&self, modulus: Modulus, row: &[u32], out: &mut [u32]) {
        let n = self.vectors.len() * self.isa.lanes();
        assert!(row.len() == n && out.len() == n, "rows of the permutation's degree");
        dispatch_permute_add(self.isa, self, modulus, row, out);
    }

    /// Whether the permutation suits rows of these tables.
    pub(crate) fn fits(&self, tables: &NttTables) -> bool {
        self.isa == tables.isa() && self.vectors.len() * tables.lanes() == tables.polynomial_size()
    }

    /// Returns the index of the square that becomes square `at`.
    #[inline(always)]
    pub(crate) fn source(&self, at: usize) -> usize {
        self.squares[at] as usize
    }

    /// Writes square `at` of the permuted row from the words of its source; both are `[LANES][LANES]`.
    ///
    /// # Safety
    /// The CPU has the instruction set `S`, which is that of the permutation. Both pointers are to whole squares that
    /// do not overlap.
    #[inline(always)]
    pub(crate) unsafe fn square<S: Simd>(&self, at: usize, from: *const u32, out: *mut u32) {
        let vectors = &self.vectors[at * S::LANES..][..S::LANES];
        // SAFETY: the caller keeps the conditions above. A square has LANES vectors, and the sources in the permutation
        // are below LANES.
        unsafe {
            let (mut source, mut square) = (S::square(), S::square());
            let loaded = source.as_mut();
            for i in 0..S::LANES {
                loaded[i] = S::load(from.add(i * S::LANES));
            }
            S::transpose(&mut source);
            let (source, permuted) = (source.as_mut(), square.as_mut());
            for (permuted, &(vector, carry)) in permuted.iter_mut().zip(vectors) {
                let places = S::load(self.lanes.as_ptr().add(usize::from(carry) * S::LANES));
                *permuted = S::permute(*source.get_unchecked(usize::from(vector)), places);
            }
            S::transpose(&mut square);
            for (i, &v) in square.as_mut().iter().enumerate() {
                S::store(out.add(i * S::LANES), v);
            }
        }
    }
}

#[inline(always)]
unsafe fn permute_row<S: Simd>(permutation: &Permutation, row: &[u32], out: &mut [u32]) {
    let words = S::LANES * S::LANES;
    for (at, out) in out.chunks_exact_mut(words).enumerate() {
        let from = row[permutation.source(at) * words..][..words].as_ptr();
        // SAFETY: the caller promises that the processor supports `S`. The two squares are whole and lie in different
        // rows.
        unsafe { permutation.square::<S>(at, from, out.as_mut_ptr()) }
    }
}

#[inline(always)]
unsafe fn permute_add_row<S: Simd>(permutation: &Permutation, modulus: Modulus, row: &[u32], out: &mut [u32]) {
    let words = S::LANES * S::LANES;
    let mut permuted = Square::default();
    for (at, out) in out.chunks_exact_mut(words).enumerate() {
        let from = row[permutation.source(at) * words..][..words].as_ptr();
        // SAFETY: the caller promises that the processor supports `S`. All squares are whole, and `permuted` has the size
        // of a square.
        unsafe {
            let q2 = S::splat(2 * modulus.q());
            permutation.square::<S>(at, from, permuted.0.as_mut_ptr());
            for at in (0..words).step_by(S::LANES) {
                let place = out.as_mut_ptr().add(at);
                // (1) out <- out + row of the value at the exponent times g
                let sum = S::add(S::load(place), S::load(permuted.0.as_ptr().add(at)));
                S::store(place, reduce::<S>(sum, q2));
            }
        }
    }
}

crate::cpu::simd::dispatch! {
    fn dispatch_permute_add = permute_add_row(permutation: &Permutation, modulus: Modulus, row: &[u32], out: &mut [u32])
}
crate::cpu::simd::dispatch! {
    fn dispatch_permute = permute_row(permutation: &Permutation, row: &[u32], out: &mut [u32])
}

/// Reorders a row from bit-reversed order, as [`crate::ring::Ring::forward`] leaves it, to reading order, or back.
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
