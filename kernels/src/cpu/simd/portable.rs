//! Vectors of four words as a plain array, which the compiler maps to a vector register if the CPU has one.

use super::Simd;

/// Plain Rust.
#[derive(Clone, Copy)]
pub struct Portable;

type V = [u32; 4];

#[inline(always)]
fn map2(a: V, b: V, f: impl Fn(u32, u32) -> u32) -> V {
    std::array::from_fn(|i| f(a[i], b[i]))
}

// SAFETY: the methods need no instruction set. They use pointers as the trait says.
unsafe impl Simd for Portable {
    const LANES: usize = 4;
    type V = V;
    type Wide = [u64; 4];
    type Square = [V; 4];

    #[inline(always)]
    unsafe fn load(from: *const u32) -> V {
        // SAFETY: the caller promises `LANES` words at the pointer.
        unsafe { from.cast::<V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut u32, v: V) {
        // SAFETY: the caller promises `LANES` words at the pointer.
        unsafe { to.cast::<V>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn splat(word: u32) -> V {
        [word; 4]
    }
    #[inline(always)]
    unsafe fn add(a: V, b: V) -> V {
        map2(a, b, u32::wrapping_add)
    }
    #[inline(always)]
    unsafe fn sub(a: V, b: V) -> V {
        map2(a, b, u32::wrapping_sub)
    }
    #[inline(always)]
    unsafe fn and(a: V, b: V) -> V {
        map2(a, b, |a, b| a & b)
    }
    #[inline(always)]
    unsafe fn or(a: V, b: V) -> V {
        map2(a, b, |a, b| a | b)
    }
    #[inline(always)]
    unsafe fn xor(a: V, b: V) -> V {
        map2(a, b, |a, b| a ^ b)
    }
    #[inline(always)]
    unsafe fn min(a: V, b: V) -> V {
        map2(a, b, u32::min)
    }
    #[inline(always)]
    unsafe fn shift_left<const BITS: u32>(a: V) -> V {
        a.map(|a| a << BITS)
    }
    #[inline(always)]
    unsafe fn shift_right(a: V, bits: u32) -> V {
        a.map(|a| a >> bits)
    }
    #[inline(always)]
    unsafe fn shift_left_by(a: V, bits: V) -> V {
        map2(a, bits, |a, bits| a << bits)
    }
    #[inline(always)]
    unsafe fn mul_low(a: V, b: V) -> V {
        map2(a, b, u32::wrapping_mul)
    }
    #[inline(always)]
    unsafe fn mul_high(a: V, b: V) -> V {
        map2(a, b, |a, b| ((a as u64 * b as u64) >> 32) as u32)
    }
    #[inline(always)]
    unsafe fn mul_high_uniform(a: V, b: V) -> V {
        // SAFETY: plain Rust runs on every processor.
        unsafe { Self::mul_high(a, b) }
    }
    #[inline(always)]
    unsafe fn wide_zero() -> [u64; 4] {
        [0; 4]
    }
    #[inline(always)]
    unsafe fn mul_add_wide(sum: [u64; 4], a: V, b: V) -> [u64; 4] {
        std::array::from_fn(|i| sum[i].wrapping_add(a[i] as u64 * b[i] as u64))
    }
    #[inline(always)]
    unsafe fn montgomery(sum: [u64; 4], q: V, q_inverse: V) -> V {
        std::array::from_fn(|i| {
            let m = (sum[i] as u32).wrapping_mul(q_inverse[i]);
            let high = ((m as u64 * q[i] as u64) >> 32) as u32;
            ((sum[i] >> 32) as u32).wrapping_sub(high).wrapping_add(q[i])
        })
    }
    #[inline(always)]
    unsafe fn permute(v: V, places: V) -> V {
        places.map(|place| v[place as usize % 4])
    }
    #[inline(always)]
    unsafe fn square() -> [V; 4] {
        [[0; 4]; 4]
    }
    #[inline(always)]
    unsafe fn transpose(square: &mut [V; 4]) {
        let from = *square;
        *square = std::array::from_fn(|i| std::array::from_fn(|j| from[j][i]));
    }
}
