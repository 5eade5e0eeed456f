//! Products of the digits' values with the key's, accumulated while the last forward pass holds them in registers.

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
        // SAFETY: the caller promises a processor with `S` and a vector `v` of the block, which has room there.
        unsafe { x.store(self.0.add(2 * S::REALS * v)) }
    }
}

/// Step (4) for a block of one or two rows of digits (KEPT is one less). Multiplies their values by the key's,
/// `[vectors][k + 1][2][REALS]` from each of `keys` on, and adds the products to the sums. The last row's values
/// arrive one vector at a time; `kept` holds those of the row before. `sums` points to the block in the first
/// component's sums; components are `apart`.
struct Products<const COMPONENTS: usize, const KEPT: usize> {
    kept: *const f64,
    keys: [*const f64; 2],
    sums: *mut f64,
    apart: usize,
    /// Whether the sums start here, so that they are written and not added to.
    first: bool,
}

impl<S: SimdReals, const COMPONENTS: usize, const KEPT: usize> Take<S> for Products<COMPONENTS, KEPT> {
    #[inline(always)]
    unsafe fn take(&mut self, v: usize, x: Complex<S>) {
        // SAFETY: the caller promises a processor with `S` and a vector `v` of the block; `kept`, `keys` and `sums`
        // point to the block's place, and sums of components lie `apart`.
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

/// Steps (3) and (4) of one or two levels of the digits (KEPT is one less), starting at `level`, with their key from
/// `key_row` on.
#[inline(always)]
pub(super) unsafe fn sums_of_rows<S: Compiled, const COMPONENTS: usize, const KEPT: usize>(
    tables: &FftTables,
    key_row: *const f64,
    level: usize,
    scratch: &mut Scratch,
    ahead: &mut Ahead<'_, f64>,
    first: bool,
) {
    // SAFETY: the caller promises a processor with `S` and a key row of `KEPT + 1` levels; scratch has `N` values and
    // more of each level and component, and blocks lie within `N`.
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
                // one level at a time, because the registers do not hold both
                let kept = kept.add(block_values);
                fft::last_block::<S>(tables, last, block, &mut Keep(kept));
                for v in 0..fft::BLOCK_POINTS / S::REALS {
                    products.take(v, Complex::<S>::load(kept.add(2 * S::REALS * v)));
                }
            }
        }
    }
}
