//! Vectors of words: the few operations that the kernels need, for each instruction set.
//!
//! A kernel is written once, as an `#[inline(always)]` function that is generic over [`Simd`]. `dispatch!` compiles it
//! for each instruction set inside a function that enables the set, and [`Isa::detect`] chooses at run time. All sets
//! give equal results, because every operation is exact.
//!
//! Operations without pointers enable the instruction set themselves, so the compiler checks that each intrinsic
//! belongs to the set. These operations are inlined, like intrinsics, into functions that enable the set.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
pub(crate) mod portable;

/// The number of words in the longest vector.
pub(crate) const LANES_MAX: usize = 16;

/// Room for the words of a square, `LANES` vectors, aligned to whole cache lines.
#[repr(align(64))]
pub(crate) struct Square(pub(crate) [u32; LANES_MAX * LANES_MAX]);

impl Default for Square {
    fn default() -> Square {
        Square([0; LANES_MAX * LANES_MAX])
    }
}

/// Operations on vectors of `LANES` words, for one instruction set. All arithmetic is modulo 2^32 (or 2^64 for `Wide`).
///
/// # Safety
/// Every method may only be called on a CPU that has the instruction set; `load` and `store` need `LANES` words at the
/// pointer. Functions that are generic over `S: Simd` have the same condition: the CPU supports `S`.
pub(crate) unsafe trait Simd: Copy + 'static {
    /// The number of words in a vector; a power of two.
    const LANES: usize;
    /// The vector.
    type V: Copy;
    /// A 64-bit sum for each lane.
    type Wide: Copy;
    /// `LANES` vectors, for [`Simd::transpose`].
    type Square: AsMut<[Self::V]>;

    unsafe fn load(from: *const u32) -> Self::V;
    unsafe fn store(to: *mut u32, v: Self::V);
    /// Prefetches a cache line into L1; any address is allowed.
    #[inline(always)]
    unsafe fn prefetch(_at: *const u32) {}
    /// Prefetches a cache line into L2; any address is allowed.
    #[inline(always)]
    unsafe fn prefetch_far(_at: *const u32) {}
    unsafe fn splat(word: u32) -> Self::V;
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn and(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn or(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn xor(a: Self::V, b: Self::V) -> Self::V;
    /// Unsigned minimum.
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn shift_left<const BITS: u32>(a: Self::V) -> Self::V;
    /// Shifts right by `bits`, below 32.
    unsafe fn shift_right(a: Self::V, bits: u32) -> Self::V;
    /// Shifts left by the number in `bits`, below 32, lane by lane.
    unsafe fn shift_left_by(a: Self::V, bits: Self::V) -> Self::V;
    /// Low word of each lane's product.
    unsafe fn mul_low(a: Self::V, b: Self::V) -> Self::V;
    /// High word of each lane's product.
    unsafe fn mul_high(a: Self::V, b: Self::V) -> Self::V;
    /// High word of each lane's product, if all lanes of `b` are equal.
    unsafe fn mul_high_uniform(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn wide_zero() -> Self::Wide;
    /// `sum + a b`, 64 bits in each lane.
    unsafe fn mul_add_wide(sum: Self::Wide, a: Self::V, b: Self::V) -> Self::Wide;
    /// Montgomery's reduction: `(sum - (sum q_inverse mod 2^32) q) / 2^32 + q`, where `q_inverse` is `1 / q mod 2^32`.
    /// The result is in `(0, sum / 2^32 + q]`.
    unsafe fn montgomery(sum: Self::Wide, q: Self::V, q_inverse: Self::V) -> Self::V;
    /// Permutes: word `i` of the result is the word of `v` at `places[i]`, which is below `LANES`.
    unsafe fn permute(v: Self::V, places: Self::V) -> Self::V;
    /// Makes a square of zeros, to be filled.
    unsafe fn square() -> Self::Square;
    /// Transposes: word `j` of vector `i` becomes word `i` of vector `j`.
    unsafe fn transpose(square: &mut Self::Square);
}

/// Operations on vectors of doubles. A vector has half as many doubles as words. A product and the sum after it are
/// fused, which means that they are rounded once.
///
/// # Safety
/// The conditions of [`Simd`]. `load_reals` and `store_reals` need `REALS` doubles at the pointer, `from_words` needs
/// `REALS` words.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) unsafe trait SimdReals: Simd {
    /// The number of doubles in a vector: `LANES / 2`.
    const REALS: usize;
    /// Whether the CPU has adders beside its units for fused products, so that sums run in parallel with products.
    const SEPARATE_ADDERS: bool;
    /// The vector.
    type R: Copy;
    /// `REALS` vectors, for [`SimdReals::transpose_reals`].
    type SquareOfReals: AsMut<[Self::R]>;

    unsafe fn load_reals(from: *const f64) -> Self::R;
    unsafe fn store_reals(to: *mut f64, v: Self::R);
    unsafe fn splat_real(real: f64) -> Self::R;
    /// Loads signed words as doubles.
    unsafe fn from_words(from: *const u32) -> Self::R;
    unsafe fn add_reals(a: Self::R, b: Self::R) -> Self::R;
    unsafe fn sub_reals(a: Self::R, b: Self::R) -> Self::R;
    unsafe fn mul_reals(a: Self::R, b: Self::R) -> Self::R;
    /// `a b + c`.
    unsafe fn mul_add(a: Self::R, b: Self::R, c: Self::R) -> Self::R;
    /// `a b - c`.
    unsafe fn mul_sub(a: Self::R, b: Self::R, c: Self::R) -> Self::R;
    /// `c - a b`.
    unsafe fn neg_mul_add(a: Self::R, b: Self::R, c: Self::R) -> Self::R;
    /// Computes `a` minus the integer below `a`, for `|a|` below 2^51. The result is exact, except that the last bit of
    /// the result is rounded if `a` is negative.
    unsafe fn fraction(a: Self::R) -> Self::R;
    /// Returns the low words of the doubles' bits: first the words of `a`, then the words of `b`.
    unsafe fn low_words(a: Self::R, b: Self::R) -> Self::V;
    /// Makes a square of zeros.
    unsafe fn square_of_reals() -> Self::SquareOfReals;
    /// Transposes: double `j` of vector `i` becomes double `i` of vector `j`.
    unsafe fn transpose_reals(square: &mut Self::SquareOfReals);
}

/// The instruction sets that this build knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// 16 words: AVX-512 F and DQ.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 8 words: AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 4 words in plain Rust.
    Portable,
}

impl Isa {
    /// Returns the best instruction set of this CPU.
    pub fn detect() -> Isa {
        Isa::available()[0]
    }

    /// Lists all instruction sets that this CPU supports, best first.
    pub fn available() -> Vec<Isa> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            // the same features as `dispatch!` enables
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let avx512 = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq");
            if avx512 && avx2 && is_x86_feature_detected!("bmi2") {
                all.push(Isa::Avx512);
            }
            if avx2 {
                all.push(Isa::Avx2);
            }
        }
        all.push(Isa::Portable);
        all
    }

    /// The number of words in a vector.
    pub fn lanes(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::Avx512::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::Avx2::LANES,
            Isa::Portable => portable::Portable::LANES,
        }
    }

    /// The number of doubles in a vector, if the set has vectors of doubles with fused products.
    pub(crate) fn reals(self) -> Option<usize> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Some(avx512::Avx512::REALS),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Some(avx2::Avx2::REALS),
            Isa::Portable => None,
        }
    }

    /// Returns [`SimdReals::SEPARATE_ADDERS`] of this set; false if the set has no vectors of doubles.
    pub(crate) fn separate_adders(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::Avx512::SEPARATE_ADDERS,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::Avx2::SEPARATE_ADDERS,
            Isa::Portable => false,
        }
    }

    /// The set's name in the field `fhe_engine` of the service's health response.
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => "avx2",
            Isa::Portable => "portable",
        }
    }
}

/// Defines `fn name(isa, args)` that runs a generic kernel compiled for the instruction set. The function does not
/// check that the CPU supports `isa`, or that slices have the lengths that the kernel reads, so its callers must check
/// this. With `reals`, the kernel is generic over [`SimdReals`], and `isa` must have vectors of doubles.
macro_rules! dispatch {
    ($(#[$meta:meta])* reals $vis:vis fn $name:ident = $kernel:ident($($arg:ident: $ty:ty),* $(,)?)) => {
        $crate::cpu::simd::dispatch! {
            @portable unreachable!("vectors of doubles are not in plain Rust");
            $(#[$meta])* $vis fn $name = $kernel($($arg: $ty),*)
        }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident = $kernel:ident($($arg:ident: $ty:ty),* $(,)?)) => {
        $crate::cpu::simd::dispatch! {
            // SAFETY: plain Rust runs on every processor.
            @portable unsafe { $kernel::<$crate::cpu::simd::portable::Portable>($($arg),*) };
            $(#[$meta])* $vis fn $name = $kernel($($arg: $ty),*)
        }
    };
    (@portable $portable:expr;
        $(#[$meta:meta])* $vis:vis fn $name:ident = $kernel:ident($($arg:ident: $ty:ty),*)) => {
        $(#[$meta])*
        $vis fn $name(isa: $crate::cpu::simd::Isa, $($arg: $ty),*) {
            use $crate::cpu::simd::Isa;
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx2,fma,bmi2")]
            fn avx512($($arg: $ty),*) {
                // SAFETY: the instruction set is enabled here.
                unsafe { $kernel::<$crate::cpu::simd::avx512::Avx512>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $ty),*) {
                // SAFETY: the instruction set is enabled here.
                unsafe { $kernel::<$crate::cpu::simd::avx2::Avx2>($($arg),*) }
            }
            match isa {
                // SAFETY: callers take `isa` from `Cpu::with` or from a transform's tables. Both check that the
                // processor supports `isa`.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as for `avx512`.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => unsafe { avx2($($arg),*) },
                Isa::Portable => $portable,
            }
        }
    };
}
pub(crate) use dispatch;
