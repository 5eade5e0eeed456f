// Gadget products: kernels/src/cpu/gadget.rs in CUDA. Helpers of `ntt_rows`. Needs `limb`.

// The words of one transformed digit, in [0, q), times the key's words, which are times 2^32.
template <unsigned W>
__device__ __forceinline__ void add_products(unsigned long long (&sums)[W], const unsigned (&digit)[W],
                                             const unsigned (&key)[W]) {
#pragma unroll
    for (unsigned i = 0; i < W; i++) {
        // (1) sum_c <- sum_c + d_j key_jc
        sums[i] += (unsigned long long)digit[i] * key[i];
    }
}

template <unsigned W>
__device__ __forceinline__ void fold(Limb p, unsigned long long (&sums)[W]) {
#pragma unroll
    for (unsigned i = 0; i < W; i++) sums[i] = folded(p, sums[i]);
}
