// Residues of the ring as words of the 32-bit torus: kernels/src/tfhe/torus.rs in CUDA.

// Maps `x` in [0, q) to the 32-bit torus: x 2^32 / q, at most two units too low. This code defines the exact result.
__device__ inline unsigned to_torus_lazy(unsigned x) { return 4 * x + __umulhi(4 * x, TORUS_CORRECTION); }

// Maps `x` in [0, q) to the 32-bit torus, rounded to nearest.
__device__ inline unsigned to_torus(unsigned x) {
    unsigned low = to_torus_lazy(x);
    // x 2^32 - low q, which is below 3 q
    unsigned rest = 0u - low * Q;
    return low + (rest + Q / 2) / Q;
}
