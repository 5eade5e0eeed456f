// Mod switch: torus words to exponents of X, in [0, 2 N); kernels/src/tfhe/cpu/mod_switch.rs in CUDA.

// `rows` is [rows][n + 1], switched in place. A group has a row; THREADS is a power of two. CENTRED is 1 for the
// centred switch.
extern "C" __global__ void __launch_bounds__(THREADS) mod_switch(unsigned* rows) {
    __shared__ unsigned sums[THREADS];
    constexpr unsigned SHIFT = 31 - LOG_N, HALF = 1u << (SHIFT - 1);
    unsigned* row = rows + blockIdx.x * (LWE_DIMENSION + 1);
    unsigned sum = 0;
    for (unsigned at = threadIdx.x; at < LWE_DIMENSION; at += THREADS) {
        // (1) mask: a~ <- floor((a + 2^(31 - log 2N)) / 2^(32 - log 2N)) mod 2N
        unsigned word = row[at], exponent = (word + HALF) >> SHIFT;
        // (2) errors: sum <- sum + floor(e / 2), e = 2^(32 - log 2N) a~ - a, signed
        int error = int((exponent << SHIFT) - word);
        sum += unsigned(error >> 1);
        row[at] = exponent;
    }
    if (CENTRED) {
        // adds up the threads' sums in pairs; words wrap, so the order does not matter
        sums[threadIdx.x] = sum;
        for (unsigned apart = THREADS / 2; apart > 0; apart /= 2) {
            __syncthreads();
            if (threadIdx.x < apart) sums[threadIdx.x] += sums[threadIdx.x + apart];
        }
    }
    if (threadIdx.x == 0) {
        unsigned body = row[LWE_DIMENSION];
        // (3) centred: b <- b + sum
        if (CENTRED) body += sums[0];
        // (4) body: b~ <- floor((b + 2^(31 - log 2N)) / 2^(32 - log 2N)) mod 2N
        row[LWE_DIMENSION] = (body + HALF) >> SHIFT;
    }
}
