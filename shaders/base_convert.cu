// Base conversion: kernels/src/cpu/base_convert.rs in CUDA. Helpers of `ntt_columns`. Needs `limb`.

// Bits of a fraction in step (2).
constexpr unsigned FRACTION_BITS = 28;

// A source prime: its index, 30 minus its number of bits, the factor of step (1) with its companion, and the factor of
// the fraction in step (2).
constexpr unsigned SOURCE_WORDS = 5;

// One residue of a source, from any word to [0, q); its fraction is added to `sum`.
__device__ __forceinline__ unsigned scaled(Limb p, unsigned x, const unsigned* source, unsigned& sum) {
    // (1) y_i = x_i scale_i mod a_i
    const unsigned y = reduce(mul_lazy(p, x, make_uint2(source[2], source[3])), p.q);
    // (2) sum <- sum + y_i / a_i
    sum += __umulhi(y << source[1], source[4]);
    return y;
}

// Adds a residue, or the quotient, times its factor to the sum of a target. A sum has at most 12 terms, so that its
// reduction is below 4 p.
__device__ __forceinline__ void add_converted(unsigned long long& sum, unsigned y, unsigned factor) {
    // (3) out = sum of y_i factor_i
    sum += (unsigned long long)y * factor;
}
