// Modulus switch: torus words to exponents of X, in [0, 2 N): kernels/src/tfhe/cpu/mod_switch.rs in CUDA.

// `words` is [count], in place. A thread takes word after word.
extern "C" __global__ void __launch_bounds__(THREADS) mod_switch(unsigned* words, unsigned count) {
    for (unsigned at = blockIdx.x * THREADS + threadIdx.x; at < count; at += gridDim.x * THREADS) {
        // (1) x <- floor((x + 2^(31 - log 2N)) / 2^(32 - log 2N)) mod 2N
        words[at] = (words[at] + (1u << (30 - LOG_N))) >> (31 - LOG_N);
    }
}
