//! Sums and products of rows of one prime, word by word.

use crate::cpu::automorphism::Permutation;
use crate::cpu::ntt::{self, NttTables, reduce};
use crate::cpu::simd::{Isa, Simd, Square};
use crate::modular::Modulus;
use crate::ring::Root;

/// Vectors with `q`, `2q` and `1 / q mod 2^32` in every lane.
struct Lanes<S: Simd> {
    q: S::V,
    q2: S::V,
    inverse: S::V,
}

impl<S: Simd> Lanes<S> {
    #[inline(always)]
    unsafe fn of(modulus: Modulus) -> Self {
        // SAFETY: the caller promises that the processor supports `S`.
        unsafe {
            let inverse = S::splat(modulus.montgomery_inverse());
            Lanes { q: S::splat(modulus.q()), q2: S::splat(2 * modulus.q()), inverse }
        }
    }

    /// Computes `x w` in `[0, 2q)`, for any `x`.
    #[inline(always)]
    unsafe fn times(&self, x: S::V, w: Root) -> S::V {
        // SAFETY: the caller promises that the processor supports `S`.
        unsafe {
            let quotient = S::mul_high_uniform(x, S::splat(w.companion));
            S::sub(S::mul_low(x, S::splat(w.value)), S::mul_low(quotient, self.q))
        }
    }

    /// Computes `sum / 2^32` in `[0, 2q)`, for a sum below `4 q^2 <= q 2^32`; in `[0, 4q)`, for a sum below `12 q^2`.
    #[inline(always)]
    unsafe fn reduced(&self, sum: S::Wide) -> S::V {
        // SAFETY: the caller promises that the processor supports `S`.
        unsafe { S::montgomery(sum, self.q, self.inverse) }
    }
}

/// Whether the row consists of whole vectors.
fn whole(isa: Isa, row: &[u32]) -> bool {
    row.len().is_multiple_of(isa.lanes())
}

/// Computes `out = a + b`. All rows are in `[0, q)`.
pub(crate) fn add(isa: Isa, modulus: Modulus, a: &[u32], b: &[u32], out: &mut [u32]) {
    assert!(a.len() == out.len() && b.len() == out.len() && whole(isa, out), "rows of one degree");
    dispatch_add(isa, modulus, a, b, out);
}

/// Computes `out = a - b`. All rows are in `[0, q)`.
pub(crate) fn sub(isa: Isa, modulus: Modulus, a: &[u32], b: &[u32], out: &mut [u32]) {
    assert!(a.len() == out.len() && b.len() == out.len() && whole(isa, out), "rows of one degree");
    dispatch_sub(isa, modulus, a, b, out);
}

/// Computes `out = x w`, for any words `x`. The results are in `[0, q)`.
pub(crate) fn scale(isa: Isa, modulus: Modulus, x: &[u32], w: Root, out: &mut [u32]) {
    assert!(x.len() == out.len() && whole(isa, out), "rows of one degree");
    dispatch_scale(isa, modulus, x, w, out);
}

/// Computes `out = a b`. All rows are in `[0, q)`.
pub(crate) fn multiply(isa: Isa, modulus: Modulus, a: &[u32], b: &[u32], out: &mut [u32]) {
    assert!(a.len() == out.len() && b.len() == out.len() && whole(isa, out), "rows of one degree");
    let square = Root::new(modulus, modulus.pow(2 % modulus.q(), 32));
    dispatch_multiply(isa, modulus, a, b, square, out);
}

/// Largest number of products whose sum fits a word after one reduction.
const TOGETHER: usize = 12;

/// Computes `out_c = sum over the terms of x y_c`, for terms `(x, [y_0, y_1])`. All rows are in `[0, q)`. Up to
/// [`TOGETHER`] products are added before they are reduced.
pub(crate) fn multiply_add(isa: Isa, modulus: Modulus, terms: &[(&[u32], [&[u32]; 2])], out: [&mut [u32]; 2]) {
    let n = out[0].len();
    let inputs = terms.iter().all(|(x, y)| x.len() == n && y.iter().all(|row| row.len() == n));
    assert!(inputs && out[1].len() == n && whole(isa, out[0]), "rows of one degree");
    let square = Root::new(modulus, modulus.pow(2 % modulus.q(), 32));
    dispatch_multiply_add(isa, modulus, terms, square, out);
}

/// Computes the tensor product of two ciphertexts. `a = (a0, a1)` and `b = (b0, b1)` are in `[0, q)`. The three results
/// are `a0 b0 / 2^32`, `(a0 b1 + a1 b0) / 2^32` and `a1 b1`, in `[0, 2q)`.
pub(crate) fn tensor(isa: Isa, modulus: Modulus, a: [&[u32]; 2], b: [&[u32]; 2], out: [&mut [u32]; 3]) {
    let n = a[0].len();
    let inputs = a.iter().chain(&b).all(|row| row.len() == n);
    assert!(inputs && out.iter().all(|row| row.len() == n) && whole(isa, a[0]), "rows of one degree");
    let square = Root::new(modulus, modulus.pow(2 % modulus.q(), 32));
    dispatch_tensor(isa, modulus, a, b, square, out);
}

/// Like [`tensor`], but adds the three results to `out`, whose rows are in `[0, 2q)` before and after.
pub(crate) fn add_tensor(isa: Isa, modulus: Modulus, a: [&[u32]; 2], b: [&[u32]; 2], out: [&mut [u32]; 3]) {
    let n = a[0].len();
    let inputs = a.iter().chain(&b).all(|row| row.len() == n);
    assert!(inputs && out.iter().all(|row| row.len() == n) && whole(isa, a[0]), "rows of one degree");
    let square = Root::new(modulus, modulus.pow(2 % modulus.q(), 32));
    dispatch_add_tensor(isa, modulus, a, b, square, out);
}

/// Computes `out = out + x w`, for any words `x`. The words of `out` are in `[0, 2q)` before and after.
pub(crate) fn add_scaled(isa: Isa, modulus: Modulus, x: &[u32], w: Root, out: &mut [u32]) {
    assert!(x.len() == out.len() && whole(isa, out), "rows of one degree");
    dispatch_add_scaled(isa, modulus, x, w, out);
}

/// Computes `out = t + x w`, plus `y z` if a second product is given. `t` is in `[0, 2q)`, `x` and `y` are any words;
/// the results are in `[0, q)`.
pub(crate) fn combine(
    isa: Isa,
    modulus: Modulus,
    t: &[u32],
    first: (&[u32], Root),
    second: Option<(&[u32], Root)>,
    out: &mut [u32],
) {
    let n = out.len();
    let second_fits = second.is_none_or(|(y, _)| y.len() == n);
    assert!(t.len() == n && first.0.len() == n && second_fits && whole(isa, t), "rows of one degree");
    dispatch_combine(isa, modulus, t, first, second, out);
}

/// Like [`combine`], but for a `t` whose transform [`ntt::begin_forward`] began, and with an optional permutation of
/// the result. The transform finishes here, square by square, and the words are combined and permuted while they are in
/// the L1 cache.
pub(crate) fn combine_begun(
    tables: &NttTables,
    t: &mut [u32],
    first: (&[u32], Root),
    second: Option<(&[u32], Root)>,
    permutation: Option<&Permutation>,
    out: &mut [u32],
) {
    let n = tables.polynomial_size();
    let second_fits = second.is_none_or(|(y, _)| y.len() == n);
    assert!(t.len() == n && first.0.len() == n && second_fits && out.len() == n, "rows of one degree");
    let fits = |permutation: &Permutation| permutation.fits(tables);
    assert!(permutation.is_none_or(fits), "a permutation of the tables' degree and vectors");
    dispatch_combine_begun(tables.isa(), tables, t, first, second, permutation, out);
}

#[inline(always)]
unsafe fn add_rows<S: Simd>(modulus: Modulus, a: &[u32], b: &[u32], out: &mut [u32]) {
    // SAFETY: the caller promises that the processor supports `S`, and that all rows have one length, a multiple of
    // `LANES`.
    unsafe {
        let m = Lanes::<S>::of(modulus);
        for at in (0..out.len()).step_by(S::LANES) {
            let sum = S::add(S::load(a.as_ptr().add(at)), S::load(b.as_ptr().add(at)));
            S::store(out.as_mut_ptr().add(at), reduce::<S>(sum, m.q));
        }
    }
}

#[inline(always)]
unsafe fn sub_rows<S: Simd>(modulus: Modulus, a: &[u32], b: &[u32], out: &mut [u32]) {
    // SAFETY: the caller promises that the processor supports `S`, and that all rows have one length, a multiple of
    // `LANES`.
    unsafe {
        let m = Lanes::<S>::of(modulus);
        for at in (0..out.len()).step_by(S::LANES) {
            let difference = S::sub(S::add(S::load(a.as_ptr().add(at)), m.q), S::load(b.as_ptr().add(at)));
            S::store(out.as_mut_ptr().add(at), reduce::<S>(difference, m.q));
        }
    }
}

#[inline(always)]
unsafe fn scale_row<S: Simd>(modulus: Modulus, x: &[u32], w: Root, out: &mut [u32]) {
    // SAFETY: the caller promises that the processor supports `S`, and that all rows have one length, a multiple of
    // `LANES`.
    unsafe {
        let m = Lanes::<S>::of(modulus);
        for at in (0..out.len()).step_by(S::LANES) {
            let product = m.times(S::load(x.as_ptr().add(at)), w);
            S::store(out.as_mut_ptr().add(at), reduce::<S>(product, m.q));
        }
    }
}

#[inline(always)]
unsafe fn multiply_rows<S: Simd>(modulus: Modulus, a: &[u32], b: &[u32], square: Root, out: &mut [u32]) {
    // SAFETY: the caller promises that the processor supports `S`, and that all rows have one length, a multiple of
    // `LANES`.
    unsafe {
        let m = Lanes::<S>::of(modulus);
        for at in (0..out.len()).step_by(S::LANES) {
            let product = S::mul_add_wide(S::wide_zero(), S::load(a.as_ptr().add(at)), S::load(b.as_ptr().add(at)));
            let product = m.times(m.reduced(product), square);
            S::store(out.as_mut_ptr().add(at), reduce::<S>(product, m.q));
        }
    }
}

#[inline(always)]
unsafe fn multiply_add_rows<S: Simd>(
    modulus: Modulus,
    terms: &[(&[u32], [&[u32]; 2])],
    square: Root,
    [out_0, out_1]: [&mut [u32]; 2],
) {
    // SAFETY: the caller promises that the processor supports `S`, and that all rows have one length, a multiple of
    // `LANES`.
    unsafe {
        let m = Lanes::<S>::of(modulus);
        for at in (0..out_0.len()).step_by(S::LANES) {
            let mut sums = [S::splat(0); 2];
            for terms in terms.chunks(TOGETHER) {
                let mut wide = [S::wide_zero(); 2];
                for (x, y) in terms {
                    let x = S::load(x.as_ptr().add(at));
                    for c in 0..2 {
                        // (3) sum_c <- sum_c + plain x_c
                        wide[c] = S::mul_add_wide(wide[c], x, S::load(y[c].as_ptr().add(at)));
                    }
                }
                // twelve products are below 3 q 2^32, so the reduced sum is below 4q
                for c in 0..2 {
                    let reduced = reduce::<S>(m.reduced(wide[c]), m.q2);
                    sums[c] = reduce::<S>(S::add(sums[c], reduced), m.q2);
                }
            }
            for (out, sum) in [&mut *out_0, &mut *out_1].into_iter().zip(sums) {
                S::store(out.as_mut_ptr().add(at), reduce::<S>(m.times(sum, square), m.q));
            }
        }
    }
}

#[inline(always)]
unsafe fn tensor_rows<S: Simd>(modulus: Modulus, a: [&[u32]; 2], b: [&[u32]; 2], square: Root, out: [&mut [u32]; 3]) {
    // SAFETY: as for `tensor_rows_of`.
    unsafe { tensor_rows_of::<S, false>(modulus, a, b, square, out) }
}

#[inline(always)]
unsafe fn add_tensor_rows<S: Simd>(
    modulus: Modulus,
    a: [&[u32]; 2],
    b: [&[u32]; 2],
    square: Root,
    out: [&mut [u32]; 3],
) {
    // SAFETY: as for `tensor_rows_of`.
    unsafe { tensor_rows_of::<S, true>(modulus, a, b, square, out) }
}

#[inline(always)]
unsafe fn tensor_rows_of<S: Simd, const ADDS: bool>(
    modulus: Modulus,
    a: [&[u32]; 2],
    b: [&[u32]; 2],
    square: Root,
    out: [&mut [u32]; 3],
) {
    // SAFETY: the caller promises that the processor supports `S`, and that all rows have one length, a multiple of
    // `LANES`.
    unsafe {
        let m = Lanes::<S>::of(modulus);
        let n = a[0].len();
        let out = out.map(|row| row.as_mut_ptr());
        for at in (0..n).step_by(S::LANES) {
            let [a0, a1] = a.map(|row| S::load(row.as_ptr().add(at)));
            let [b0, b1] = b.map(|row| S::load(row.as_ptr().add(at)));
            let zero = S::wide_zero();
            // (2) (d0, d1, d2) <- (d0 + a0 b0, d1 + a0 b1 + a1 b0, d2 + a1 b1)
            let product = m.reduced(S::mul_add_wide(zero, a0, b0));
            let cross = m.reduced(S::mul_add_wide(S::mul_add_wide(zero, a0, b1), a1, b0));
            let last = m.times(m.reduced(S::mul_add_wide(zero, a1, b1)), square);
            for (out, word) in out.into_iter().zip([product, cross, last]) {
                let word = if ADDS { reduce::<S>(S::add(S::load(out.add(at)), word), m.q2) } else { word };
                S::store(out.add(at), word);
            }
        }
    }
}

#[inline(always)]
unsafe fn add_scaled_row<S: Simd>(modulus: Modulus, x: &[u32], w: Root, out: &mut [u32]) {
    // SAFETY: the caller promises that the processor supports `S`, and that both rows have one length, a multiple of
    // `LANES`.
    unsafe {
        let m = Lanes::<S>::of(modulus);
        for at in (0..out.len()).step_by(S::LANES) {
            let place = out.as_mut_ptr().add(at);
            let sum = S::add(S::load(place), m.times(S::load(x.as_ptr().add(at)), w));
            S::store(place, reduce::<S>(sum, m.q2));
        }
    }
}

#[inline(always)]
unsafe fn combine_rows<S: Simd>(
    modulus: Modulus,
    t: &[u32],
    first: (&[u32], Root),
    second: Option<(&[u32], Root)>,
    out: &mut [u32],
) {
    // SAFETY: the caller promises that the processor supports `S`, and that all rows have one length, a multiple of
    // `LANES`.
    unsafe {
        let m = Lanes::<S>::of(modulus);
        for at in (0..out.len()).step_by(S::LANES) {
            // (1) sum <- constant + f a + g b
            let mut sum = S::add(S::load(t.as_ptr().add(at)), m.times(S::load(first.0.as_ptr().add(at)), first.1));
            if let Some((y, z)) = second {
                sum = S::add(reduce::<S>(sum, m.q2), m.times(S::load(y.as_ptr().add(at)), z));
            }
            S::store(out.as_mut_ptr().add(at), reduce::<S>(reduce::<S>(sum, m.q2), m.q));
        }
    }
}

#[inline(always)]
unsafe fn combine_begun_rows<S: Simd>(
    tables: &NttTables,
    t: &mut [u32],
    first: (&[u32], Root),
    second: Option<(&[u32], Root)>,
    permutation: Option<&Permutation>,
    out: &mut [u32],
) {
    // SAFETY: the caller promises that the processor supports `S`, the instruction set of the tables, and that each row
    // has the tables' degree.
    unsafe {
        match tables.unreduced().is_some() {
            true => combine_squares::<S, true>(tables, t, first, second, permutation, out),
            false => combine_squares::<S, false>(tables, t, first, second, permutation, out),
        }
    }
}

#[inline(always)]
unsafe fn combine_squares<S: Simd, const SHORT: bool>(
    tables: &NttTables,
    t: &mut [u32],
    first: (&[u32], Root),
    second: Option<(&[u32], Root)>,
    permutation: Option<&Permutation>,
    out: &mut [u32],
) {
    // SAFETY: the caller promises that the processor supports `S`, and that each row has the tables' degree, so
    // consists of whole squares. The permutation's sources are squares of such a row, and `combined` has the size of a
    // square.
    unsafe {
        let modulus = tables.modulus();
        let (m, one) = (Lanes::<S>::of(modulus), Root::new(modulus, 1));
        let words = S::LANES * S::LANES;
        let mut combined = Square::default();
        for square in 0..out.len() / words {
            let source = permutation.map_or(square, |permutation| permutation.source(square));
            ntt::end_square::<S, SHORT>(tables, t, source);
            let place = out.as_mut_ptr().add(square * words);
            let to = if permutation.is_some() { combined.0.as_mut_ptr() } else { place };
            for at in (0..words).step_by(S::LANES) {
                let from = source * words + at;
                let word = S::load(t.as_ptr().add(from));
                let mut sum = S::add(word, m.times(S::load(first.0.as_ptr().add(from)), first.1));
                if let Some((y, z)) = second {
                    // a word of an unreduced transform (`SHORT`) leaves room for two products, so the sum needs no
                    // reduction between them
                    let before = if SHORT { sum } else { reduce::<S>(sum, m.q2) };
                    sum = S::add(before, m.times(S::load(y.as_ptr().add(from)), z));
                }
                let sum = if SHORT { m.times(sum, one) } else { reduce::<S>(sum, m.q2) };
                S::store(to.add(at), reduce::<S>(sum, m.q));
            }
            if let Some(permutation) = permutation {
                permutation.square::<S>(square, to, place);
            }
        }
    }
}

crate::cpu::simd::dispatch! {
    fn dispatch_combine_begun = combine_begun_rows(
        tables: &NttTables,
        t: &mut [u32],
        first: (&[u32], Root),
        second: Option<(&[u32], Root)>,
        permutation: Option<&Permutation>,
        out: &mut [u32],
    )
}
crate::cpu::simd::dispatch! {
    fn dispatch_add = add_rows(modulus: Modulus, a: &[u32], b: &[u32], out: &mut [u32])
}
crate::cpu::simd::dispatch! {
    fn dispatch_sub = sub_rows(modulus: Modulus, a: &[u32], b: &[u32], out: &mut [u32])
}
crate::cpu::simd::dispatch! {
    fn dispatch_scale = scale_row(modulus: Modulus, x: &[u32], w: Root, out: &mut [u32])
}
crate::cpu::simd::dispatch! {
    fn dispatch_multiply = multiply_rows(modulus: Modulus, a: &[u32], b: &[u32], square: Root, out: &mut [u32])
}
crate::cpu::simd::dispatch! {
    fn dispatch_multiply_add = multiply_add_rows(
        modulus: Modulus,
        terms: &[(&[u32], [&[u32]; 2])],
        square: Root,
        out: [&mut [u32]; 2],
    )
}
crate::cpu::simd::dispatch! {
    fn dispatch_tensor = tensor_rows(modulus: Modulus, a: [&[u32]; 2], b: [&[u32]; 2], square: Root, out: [&mut [u32]; 3])
}
crate::cpu::simd::dispatch! {
    fn dispatch_add_tensor = add_tensor_rows(
        modulus: Modulus,
        a: [&[u32]; 2],
        b: [&[u32]; 2],
        square: Root,
        out: [&mut [u32]; 3],
    )
}
crate::cpu::simd::dispatch! {
    fn dispatch_add_scaled = add_scaled_row(modulus: Modulus, x: &[u32], w: Root, out: &mut [u32])
}
crate::cpu::simd::dispatch! {
    fn dispatch_combine = combine_rows(
        modulus: Modulus,
        t: &[u32],
        first: (&[u32], Root),
        second: Option<(&[u32], Root)>,
        out: &mut [u32],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modular::tests::PRIMES;
    use crate::ring::tests::words;

    #[test]
    fn rows_are_computed_word_by_word_on_every_instruction_set() {
        let n = 64;
        for m in PRIMES.into_iter().filter(|&q| q > 1 << 17).map(Modulus::new) {
            let q = m.q();
            let [a0, a1, b0, b1] = [1, 2, 3, 4].map(|seed| words(n, seed, q));
            let [lazy, any] = [words(n, 5, 2 * q), words(n, 6, u32::MAX)];
            let (w, z) = (Root::new(m, q - 2), Root::new(m, q / 3));
            let montgomery = m.inverse(m.pow(2, 32));
            for isa in Isa::available() {
                let mut out = [(); 3].map(|()| vec![0; n]);
                add(isa, m, &a0, &b0, &mut out[0]);
                sub(isa, m, &a0, &b0, &mut out[1]);
                multiply(isa, m, &a0, &b0, &mut out[2]);
                for i in 0..n {
                    let expected = [m.add(a0[i], b0[i]), m.sub(a0[i], b0[i]), m.mul(a0[i], b0[i])];
                    assert_eq!([out[0][i], out[1][i], out[2][i]], expected, "{q} {isa:?} {i}");
                }
                let mut products = [(); 3].map(|()| vec![0; n]);
                let [d0, d1, d2] = &mut products;
                tensor(isa, m, [&a0, &a1], [&b0, &b1], [d0, d1, d2]);
                let mut sums = [&lazy, &lazy, &lazy].map(Clone::clone);
                let [d0, d1, d2] = &mut sums;
                add_tensor(isa, m, [&a0, &a1], [&b0, &b1], [d0, d1, d2]);
                add_scaled(isa, m, &any, w, d2);
                for i in 0..n {
                    let added = [0, 0, m.mul(any[i] % q, w.value)];
                    for ((sum, product), added) in sums.iter().zip(&products).zip(added) {
                        assert!(sum[i] < 2 * q, "{q} {isa:?} {i}");
                        assert_eq!(sum[i] % q, m.add(m.add(lazy[i] % q, product[i] % q), added), "{q} {isa:?} {i}");
                    }
                }
                scale(isa, m, &any, w, &mut out[0]);
                combine(isa, m, &lazy, (&any, w), None, &mut out[1]);
                combine(isa, m, &lazy, (&any, w), Some((&b1, z)), &mut out[2]);
                for i in 0..n {
                    let scaled = m.mul(any[i] % q, w.value);
                    let sum = m.add(scaled, lazy[i] % q);
                    let expected = [scaled, sum, m.add(sum, m.mul(b1[i], z.value))];
                    assert_eq!([out[0][i], out[1][i], out[2][i]], expected, "{q} {isa:?} {i}");
                }
                for count in [0, 1, 2, TOGETHER, TOGETHER + 1, 30] {
                    // the largest words beside others, because their products fill the sums
                    let row = |seed: u32| if seed.is_multiple_of(3) { words(n, seed, q) } else { vec![q - 1; n] };
                    let terms: Vec<[Vec<u32>; 3]> =
                        (0..count as u32).map(|term| [3, 4, 5].map(|seed| row(seed + 7 * term))).collect();
                    let rows: Vec<(&[u32], [&[u32]; 2])> =
                        terms.iter().map(|[x, y0, y1]| (&x[..], [&y0[..], &y1[..]])).collect();
                    let [first, second, _] = &mut out;
                    multiply_add(isa, m, &rows, [first, second]);
                    for i in 0..n {
                        let expected =
                            [1, 2].map(|c| terms.iter().fold(0, |sum, term| m.add(sum, m.mul(term[0][i], term[c][i]))));
                        assert_eq!([out[0][i], out[1][i]], expected, "{q} {isa:?} {i}, {count} terms");
                    }
                }
                let [d0, d1, d2] = &mut out;
                tensor(isa, m, [&a0, &a1], [&b0, &b1], [d0, d1, d2]);
                for i in 0..n {
                    assert!(out.iter().all(|row| row[i] < 2 * q));
                    let cross = m.add(m.mul(a0[i], b1[i]), m.mul(a1[i], b0[i]));
                    let expected =
                        [m.mul(m.mul(a0[i], b0[i]), montgomery), m.mul(cross, montgomery), m.mul(a1[i], b1[i])];
                    assert_eq!([0, 1, 2].map(|c| out[c][i] % q), expected, "{q} {isa:?} {i}");
                }
            }
        }
    }
}
