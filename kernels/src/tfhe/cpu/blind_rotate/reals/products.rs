//! Products of the digits' values and the key's values. They are added up while the last forward pass holds the digits'
//! values in registers.

use crate::cpu::ahead::Ahead;
use crate::cpu::simd::SimdReals;
use crate::tfhe::cpu::fft::{self, Complex, FftTables, Take};

use super::compiled::Compiled;
use super::{Scratch, row_distance};

/// Stores the values of a block.
struct Keep(*mut f64);

impl<S: SimdReals> Take<S> for Keep {
    #[inline(always)]
    unsafe fn take(&mut self, v: usize, x: Complex<S>) {
        // SAFETY: the caller promises that the processor supports `S` and that the block has room for vector `v`.
        unsafe { x.store(self.0.add(2 * S::REALS * v)) }
    }
}

/// Step (4), the products with the key, for a block of one or two rows of digits (KEPT is 0 or 1). Multiplies the
/// digits' values by the key's values, `[vectors][k + 1][2][REALS]` at each pointer of `keys`, and adds the products to
/// the sums. The values of the last row arrive one vector at a time; `kept` points to the values of the row before, if
/// any. `sums` points to the block in the sums of the first component; the sums of the next component are `apart`
/// doubles further.
struct Products<const COMPONENTS: usize, const KEPT: usize> {
    kept: *const f64,
    keys: [*const f64; 2],
    sums: *mut f64,
    apart: usize,
    /// Whether these products are the first, so that they overwrite the sums.
    first: bool,
}

impl<S: SimdReals, const COMPONENTS: usize, const KEPT: usize> Take<S> for Products<COMPONENTS, KEPT> {
    #[inline(always)]
    unsafe fn take(&mut self, v: usize, x: Complex<S>) {
        // SAFETY: the caller promises that the processor supports `S` and that `v` is a vector of the block. `kept`,
        // `keys` and `sums` point to the block's place, and the sums of neighbouring components are `apart` doubles
        // apart.
        unsafe {
            // (4) multiply by the key of step i, sum up
            let at = 2 * S::REALS * v;
            let kept: [Complex<S>; KEPT] = std::array::from_fn(|_| Complex::load(self.kept.add(at)));
            for c in 0..COMPONENTS {
                let to = self.sums.add(at + c * self.apart);
                let of_key = 2 * S::REALS * (v * COMPONENTS + c);
                let mut sum = if self.first { Complex::<S>::zero() } else { Complex::load(to) };
                for row in 0..KEPT {
                    sum = sum.mul_add(kept[row], Complex::load(self.keys[row].add(of_key)));
                }
                sum.mul_add(x, Complex::load(self.keys[KEPT].add(of_key))).store(to);
            }
        }
    }
}

/// Steps (3) and (4), the transforms and the products with the key, for `KEPT + 1` levels of the digits (one or two),
/// starting at `level`. Their key starts at `key_row`.
#[inline(always)]
pub(super) unsafe fn sums_of_rows<S: Compiled, const COMPONENTS: usize, const KEPT: usize>(
    tables: &FftTables,
    key_row: *const f64,
    level: usize,
    scratch: &mut Scratch,
    ahead: &mut Ahead<'_, f64>,
    first: bool,
) {
    // SAFETY: the caller promises that the processor supports `S` and that the key row has `KEPT + 1` levels. Scratch
    // has at least `N` values for each level and each component, and blocks lie within `N`.
    unsafe {
        let n = tables.polynomial_size();
        let (block_values, apart) = (2 * fft::BLOCK_POINTS, row_distance(n));
        // (3) transform the digits
        for row in 0..=KEPT {
            let digits = &scratch.digits[(level + row) * n..][..n];
            S::forward_passes(tables, digits, &mut scratch.values[row * apart..][..n]);
        }
        let (values, kept) = (scratch.values.as_ptr(), scratch.kept.as_mut_ptr());
        for block in 0..n / block_values {
            let at = block * block_values;
            let keys = std::array::from_fn(|row| key_row.wrapping_add((row * n + at) * COMPONENTS));
            let sums = scratch.sums.as_mut_ptr().add(at);
            let mut products = Products::<COMPONENTS, KEPT> { kept, keys, sums, apart, first };
            ahead.call::<S>();
            if KEPT == 1 {
                fft::last_block::<S>(tables, values, block, &mut Keep(kept));
                ahead.call::<S>();
            }
            let last = values.add(KEPT * apart);
            if S::REALS == 8 {
                fft::last_block::<S>(tables, last, block, &mut products);
            } else {
                // finish the transform first and multiply afterwards, because the registers do not hold the data of both
                let kept = kept.add(block_values);
                fft::last_block::<S>(tables, last, block, &mut Keep(kept));
                for v in 0..fft::BLOCK_POINTS / S::REALS {
                    products.take(v, Complex::<S>::load(kept.add(2 * S::REALS * v)));
                }
            }
        }
    }
}
