//! Vectors of eight words: AVX2 and FMA.

use std::arch::x86_64::*;

use super::{Simd, SimdReals};

/// AVX2 and FMA.
#[derive(Clone, Copy)]
pub struct Avx2;

/// Moves the odd words to the even lanes, because a widening product reads only even lanes.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn odd(a: __m256i) -> __m256i {
    _mm256_srli_epi64::<32>(a)
}

/// Joins the high words of 64-bit products: `even` has the products of the even lanes, and `odd` has the products of
/// the odd lanes. The result is in the order of the lanes.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn high_words(even: __m256i, odd: __m256i) -> __m256i {
    _mm256_blend_epi32::<0b1010_1010>(_mm256_srli_epi64::<32>(even), odd)
}

// SAFETY: the methods are called only where AVX2 and FMA are enabled. They use pointers as the trait says.
unsafe impl Simd for Avx2 {
    const LANES: usize = 8;
    type V = __m256i;
    /// The sums of the even lanes, then the sums of the odd lanes.
    type Wide = (__m256i, __m256i);
    type Square = [__m256i; 8];

    #[inline(always)]
    unsafe fn load(from: *const u32) -> __m256i {
        // SAFETY: the caller promises the instruction set and `LANES` words at the pointer.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut u32, v: __m256i) {
        // SAFETY: the caller promises the instruction set and `LANES` words at the pointer.
        unsafe { _mm256_storeu_si256(to.cast(), v) }
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const u32) {
        // SAFETY: a prefetch cannot fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[inline(always)]
    unsafe fn prefetch_far(at: *const u32) {
        // SAFETY: a prefetch cannot fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn splat(word: u32) -> __m256i {
        _mm256_set1_epi32(word as i32)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn add(a: __m256i, b: __m256i) -> __m256i {
        _mm256_add_epi32(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn sub(a: __m256i, b: __m256i) -> __m256i {
        _mm256_sub_epi32(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn and(a: __m256i, b: __m256i) -> __m256i {
        _mm256_and_si256(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn or(a: __m256i, b: __m256i) -> __m256i {
        _mm256_or_si256(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn xor(a: __m256i, b: __m256i) -> __m256i {
        _mm256_xor_si256(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn min(a: __m256i, b: __m256i) -> __m256i {
        _mm256_min_epu32(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn shift_left<const BITS: u32>(a: __m256i) -> __m256i {
        _mm256_sll_epi32(a, _mm_cvtsi32_si128(BITS as i32))
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn shift_right(a: __m256i, bits: u32) -> __m256i {
        _mm256_srlv_epi32(a, _mm256_set1_epi32(bits as i32))
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn shift_left_by(a: __m256i, bits: __m256i) -> __m256i {
        _mm256_sllv_epi32(a, bits)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn mul_low(a: __m256i, b: __m256i) -> __m256i {
        _mm256_mullo_epi32(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn mul_high(a: __m256i, b: __m256i) -> __m256i {
        high_words(_mm256_mul_epu32(a, b), _mm256_mul_epu32(odd(a), odd(b)))
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn mul_high_uniform(a: __m256i, b: __m256i) -> __m256i {
        high_words(_mm256_mul_epu32(a, b), _mm256_mul_epu32(odd(a), b))
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn wide_zero() -> Self::Wide {
        (_mm256_setzero_si256(), _mm256_setzero_si256())
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn mul_add_wide(sum: Self::Wide, a: __m256i, b: __m256i) -> Self::Wide {
        (_mm256_add_epi64(sum.0, _mm256_mul_epu32(a, b)), _mm256_add_epi64(sum.1, _mm256_mul_epu32(odd(a), odd(b))))
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn montgomery(sum: Self::Wide, q: __m256i, q_inverse: __m256i) -> __m256i {
        let even = _mm256_mul_epu32(_mm256_mul_epu32(sum.0, q_inverse), q);
        let odds = _mm256_mul_epu32(_mm256_mul_epu32(sum.1, q_inverse), q);
        let high = high_words(sum.0, sum.1);
        _mm256_add_epi32(_mm256_sub_epi32(high, high_words(even, odds)), q)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn permute(v: __m256i, places: __m256i) -> __m256i {
        _mm256_permutevar8x32_epi32(v, places)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn square() -> [__m256i; 8] {
        [_mm256_setzero_si256(); 8]
    }
    /// Transposes in three rounds of two-vector shuffles: words, pairs, halves.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn transpose(s: &mut [__m256i; 8]) {
        let mut t = [_mm256_setzero_si256(); 8];
        for i in 0..4 {
            t[2 * i] = _mm256_unpacklo_epi32(s[2 * i], s[2 * i + 1]);
            t[2 * i + 1] = _mm256_unpackhi_epi32(s[2 * i], s[2 * i + 1]);
        }
        for i in 0..2 {
            s[4 * i] = _mm256_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
            s[4 * i + 1] = _mm256_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
            s[4 * i + 2] = _mm256_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
            s[4 * i + 3] = _mm256_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
        }
        for c in 0..4 {
            t[c] = _mm256_permute2x128_si256::<0x20>(s[c], s[4 + c]);
            t[4 + c] = _mm256_permute2x128_si256::<0x31>(s[c], s[4 + c]);
        }
        *s = t;
    }
}

// SAFETY: the methods are called only where the instruction set is enabled. They use pointers as the trait says.
unsafe impl SimdReals for Avx2 {
    const REALS: usize = 4;
    /// AMD's CPUs have separate adders since Zen. Intel's CPUs without AVX-512 have them since Golden Cove.
    const SEPARATE_ADDERS: bool = true;
    type R = __m256d;
    type SquareOfReals = [__m256d; 4];

    #[inline(always)]
    unsafe fn load_reals(from: *const f64) -> __m256d {
        // SAFETY: the caller promises the instruction set and `REALS` doubles at the pointer.
        unsafe { _mm256_loadu_pd(from) }
    }
    #[inline(always)]
    unsafe fn store_reals(to: *mut f64, v: __m256d) {
        // SAFETY: the caller promises the instruction set and `REALS` doubles at the pointer.
        unsafe { _mm256_storeu_pd(to, v) }
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn splat_real(real: f64) -> __m256d {
        _mm256_set1_pd(real)
    }
    #[inline(always)]
    unsafe fn from_words(from: *const u32) -> __m256d {
        // SAFETY: the caller promises the instruction set and `REALS` words at the pointer.
        unsafe { _mm256_cvtepi32_pd(_mm_loadu_si128(from.cast())) }
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn add_reals(a: __m256d, b: __m256d) -> __m256d {
        _mm256_add_pd(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn sub_reals(a: __m256d, b: __m256d) -> __m256d {
        _mm256_sub_pd(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn mul_reals(a: __m256d, b: __m256d) -> __m256d {
        _mm256_mul_pd(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn mul_add(a: __m256d, b: __m256d, c: __m256d) -> __m256d {
        _mm256_fmadd_pd(a, b, c)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn mul_sub(a: __m256d, b: __m256d, c: __m256d) -> __m256d {
        _mm256_fmsub_pd(a, b, c)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn neg_mul_add(a: __m256d, b: __m256d, c: __m256d) -> __m256d {
        _mm256_fnmadd_pd(a, b, c)
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn fraction(a: __m256d) -> __m256d {
        _mm256_sub_pd(a, _mm256_floor_pd(a))
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn low_words(a: __m256d, b: __m256d) -> __m256i {
        // each 128-bit half of the result has the low words of the two doubles in this half of `a`, then those of the
        // two doubles in this half of `b`
        let words = _mm256_shuffle_ps::<0b10_00_10_00>(_mm256_castpd_ps(a), _mm256_castpd_ps(b));
        _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(words))
    }
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn square_of_reals() -> [__m256d; 4] {
        [_mm256_setzero_pd(); 4]
    }
    /// Transposes in two rounds of two-vector shuffles: doubles, halves.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn transpose_reals(s: &mut [__m256d; 4]) {
        let mut t = [_mm256_setzero_pd(); 4];
        for i in 0..2 {
            t[2 * i] = _mm256_unpacklo_pd(s[2 * i], s[2 * i + 1]);
            t[2 * i + 1] = _mm256_unpackhi_pd(s[2 * i], s[2 * i + 1]);
        }
        for c in 0..2 {
            s[c] = _mm256_permute2f128_pd::<0x20>(t[c], t[2 + c]);
            s[2 + c] = _mm256_permute2f128_pd::<0x31>(t[c], t[2 + c]);
        }
    }
}
