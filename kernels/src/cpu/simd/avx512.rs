//! Vectors of sixteen words: AVX-512 F and DQ.

use std::arch::x86_64::*;

use super::{Simd, SimdReals};

/// AVX-512 F and DQ.
#[derive(Clone, Copy)]
pub struct Avx512;

/// Mask of the even lanes. The odd lanes need no move, because the high halves of their 64-bit products are already
/// there.
const EVEN: __mmask16 = 0x5555;

/// Moves the odd words to the even lanes, because a widening product reads only even lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn odd(a: __m512i) -> __m512i {
    _mm512_srli_epi64::<32>(a)
}

/// Joins the high words of 64-bit products: `even` has the products of the even lanes, and `odd` has the products of
/// the odd lanes. The result is in the order of the lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn high_words(even: __m512i, odd: __m512i) -> __m512i {
    _mm512_mask_shuffle_epi32::<0b11_11_01_01>(odd, EVEN, even)
}

// SAFETY: the methods are called only where AVX-512 F and DQ are enabled. They use pointers as the trait says.
unsafe impl Simd for Avx512 {
    const LANES: usize = 16;
    type V = __m512i;
    /// The sums of the even lanes, then the sums of the odd lanes.
    type Wide = (__m512i, __m512i);
    type Square = [__m512i; 16];

    #[inline(always)]
    unsafe fn load(from: *const u32) -> __m512i {
        // SAFETY: the caller promises the instruction set and `LANES` words at the pointer.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut u32, v: __m512i) {
        // SAFETY: the caller promises the instruction set and `LANES` words at the pointer.
        unsafe { _mm512_storeu_si512(to.cast(), v) }
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
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn splat(word: u32) -> __m512i {
        _mm512_set1_epi32(word as i32)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn add(a: __m512i, b: __m512i) -> __m512i {
        _mm512_add_epi32(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn sub(a: __m512i, b: __m512i) -> __m512i {
        _mm512_sub_epi32(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn and(a: __m512i, b: __m512i) -> __m512i {
        _mm512_and_si512(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn or(a: __m512i, b: __m512i) -> __m512i {
        _mm512_or_si512(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn xor(a: __m512i, b: __m512i) -> __m512i {
        _mm512_xor_si512(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn min(a: __m512i, b: __m512i) -> __m512i {
        _mm512_min_epu32(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn shift_left<const BITS: u32>(a: __m512i) -> __m512i {
        _mm512_slli_epi32::<BITS>(a)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn shift_right(a: __m512i, bits: u32) -> __m512i {
        _mm512_srlv_epi32(a, _mm512_set1_epi32(bits as i32))
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn shift_left_by(a: __m512i, bits: __m512i) -> __m512i {
        _mm512_sllv_epi32(a, bits)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn mul_low(a: __m512i, b: __m512i) -> __m512i {
        _mm512_mullo_epi32(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn mul_high(a: __m512i, b: __m512i) -> __m512i {
        high_words(_mm512_mul_epu32(a, b), _mm512_mul_epu32(odd(a), odd(b)))
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn mul_high_uniform(a: __m512i, b: __m512i) -> __m512i {
        high_words(_mm512_mul_epu32(a, b), _mm512_mul_epu32(odd(a), b))
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn wide_zero() -> Self::Wide {
        (_mm512_setzero_si512(), _mm512_setzero_si512())
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn mul_add_wide(sum: Self::Wide, a: __m512i, b: __m512i) -> Self::Wide {
        (_mm512_add_epi64(sum.0, _mm512_mul_epu32(a, b)), _mm512_add_epi64(sum.1, _mm512_mul_epu32(odd(a), odd(b))))
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn montgomery(sum: Self::Wide, q: __m512i, q_inverse: __m512i) -> __m512i {
        let even = _mm512_mul_epu32(_mm512_mul_epu32(sum.0, q_inverse), q);
        let odds = _mm512_mul_epu32(_mm512_mul_epu32(sum.1, q_inverse), q);
        let high = high_words(sum.0, sum.1);
        _mm512_add_epi32(_mm512_sub_epi32(high, high_words(even, odds)), q)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn permute(v: __m512i, places: __m512i) -> __m512i {
        _mm512_permutexvar_epi32(places, v)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn square() -> [__m512i; 16] {
        [_mm512_setzero_si512(); 16]
    }
    /// Transposes in four rounds of two-vector shuffles: words, pairs, quads, halves.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn transpose(s: &mut [__m512i; 16]) {
        let mut t = [_mm512_setzero_si512(); 16];
        for i in 0..8 {
            t[2 * i] = _mm512_unpacklo_epi32(s[2 * i], s[2 * i + 1]);
            t[2 * i + 1] = _mm512_unpackhi_epi32(s[2 * i], s[2 * i + 1]);
        }
        for i in 0..4 {
            s[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
            s[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
            s[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
            s[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
        }
        // now quarter p (128 bits) of s[4r + c] holds column 4p + c of rows 4r to 4r + 3
        for c in 0..4 {
            t[c] = _mm512_shuffle_i32x4::<0b10_00_10_00>(s[c], s[4 + c]);
            t[4 + c] = _mm512_shuffle_i32x4::<0b11_01_11_01>(s[c], s[4 + c]);
            t[8 + c] = _mm512_shuffle_i32x4::<0b10_00_10_00>(s[8 + c], s[12 + c]);
            t[12 + c] = _mm512_shuffle_i32x4::<0b11_01_11_01>(s[8 + c], s[12 + c]);
        }
        // now t[c] holds quarters 0 and 2 of s[c], followed by quarters 0 and 2 of s[4 + c]; t[4 + c] holds quarters 1
        // and 3 of the same two vectors. Likewise, t[8 + c] and t[12 + c] hold the quarters of s[8 + c] and s[12 + c]
        for c in 0..4 {
            s[c] = _mm512_shuffle_i32x4::<0b10_00_10_00>(t[c], t[8 + c]);
            s[8 + c] = _mm512_shuffle_i32x4::<0b11_01_11_01>(t[c], t[8 + c]);
            s[4 + c] = _mm512_shuffle_i32x4::<0b10_00_10_00>(t[4 + c], t[12 + c]);
            s[12 + c] = _mm512_shuffle_i32x4::<0b11_01_11_01>(t[4 + c], t[12 + c]);
        }
    }
}

// SAFETY: the methods are called only where the instruction set is enabled. They use pointers as the trait says.
unsafe impl SimdReals for Avx512 {
    const REALS: usize = 8;
    const SEPARATE_ADDERS: bool = false;
    type R = __m512d;
    type SquareOfReals = [__m512d; 8];

    #[inline(always)]
    unsafe fn load_reals(from: *const f64) -> __m512d {
        // SAFETY: the caller promises the instruction set and `REALS` doubles at the pointer.
        unsafe { _mm512_loadu_pd(from) }
    }
    #[inline(always)]
    unsafe fn store_reals(to: *mut f64, v: __m512d) {
        // SAFETY: the caller promises the instruction set and `REALS` doubles at the pointer.
        unsafe { _mm512_storeu_pd(to, v) }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn splat_real(real: f64) -> __m512d {
        _mm512_set1_pd(real)
    }
    #[inline(always)]
    unsafe fn from_words(from: *const u32) -> __m512d {
        // SAFETY: the caller promises the instruction set and `REALS` words at the pointer.
        unsafe { _mm512_cvtepi32_pd(_mm256_loadu_si256(from.cast())) }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn add_reals(a: __m512d, b: __m512d) -> __m512d {
        _mm512_add_pd(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn sub_reals(a: __m512d, b: __m512d) -> __m512d {
        _mm512_sub_pd(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn mul_reals(a: __m512d, b: __m512d) -> __m512d {
        _mm512_mul_pd(a, b)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn mul_add(a: __m512d, b: __m512d, c: __m512d) -> __m512d {
        _mm512_fmadd_pd(a, b, c)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn mul_sub(a: __m512d, b: __m512d, c: __m512d) -> __m512d {
        _mm512_fmsub_pd(a, b, c)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn neg_mul_add(a: __m512d, b: __m512d, c: __m512d) -> __m512d {
        _mm512_fnmadd_pd(a, b, c)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn fraction(a: __m512d) -> __m512d {
        _mm512_sub_pd(a, _mm512_roundscale_pd::<_MM_FROUND_TO_NEG_INF>(a))
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn low_words(a: __m512d, b: __m512d) -> __m512i {
        let places = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        _mm512_permutex2var_epi32(_mm512_castpd_si512(a), places, _mm512_castpd_si512(b))
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn square_of_reals() -> [__m512d; 8] {
        [_mm512_setzero_pd(); 8]
    }
    /// Transposes in three rounds of two-vector shuffles: doubles, pairs, halves.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn transpose_reals(s: &mut [__m512d; 8]) {
        let mut t = [_mm512_setzero_pd(); 8];
        for i in 0..4 {
            t[2 * i] = _mm512_unpacklo_pd(s[2 * i], s[2 * i + 1]);
            t[2 * i + 1] = _mm512_unpackhi_pd(s[2 * i], s[2 * i + 1]);
        }
        // now quarter p (128 bits) of t[2r + c] holds column 2p + c of rows 2r and 2r + 1
        for c in 0..2 {
            s[c] = _mm512_shuffle_f64x2::<0b10_00_10_00>(t[c], t[2 + c]);
            s[2 + c] = _mm512_shuffle_f64x2::<0b11_01_11_01>(t[c], t[2 + c]);
            s[4 + c] = _mm512_shuffle_f64x2::<0b10_00_10_00>(t[4 + c], t[6 + c]);
            s[6 + c] = _mm512_shuffle_f64x2::<0b11_01_11_01>(t[4 + c], t[6 + c]);
        }
        // now s[c] holds quarters 0 and 2 of t[c], followed by quarters 0 and 2 of t[2 + c]; s[2 + c] holds quarters 1
        // and 3 of the same two vectors. Likewise, s[4 + c] and s[6 + c] hold the quarters of t[4 + c] and t[6 + c]
        for c in 0..2 {
            t[c] = _mm512_shuffle_f64x2::<0b10_00_10_00>(s[c], s[4 + c]);
            t[4 + c] = _mm512_shuffle_f64x2::<0b11_01_11_01>(s[c], s[4 + c]);
            t[2 + c] = _mm512_shuffle_f64x2::<0b10_00_10_00>(s[2 + c], s[6 + c]);
            t[6 + c] = _mm512_shuffle_f64x2::<0b11_01_11_01>(s[2 + c], s[6 + c]);
        }
        *s = t;
    }
}
