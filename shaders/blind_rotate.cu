// Blind rotation: `n` external products that multiply a constant polynomial by X to the power of an encrypted phase;
// kernels/src/tfhe/cpu/blind_rotate.rs in CUDA. Needs `torus`, `place` and `ntt`.
//
// A group has one row. Its accumulator [K + 1][N], in [0, q), is in global memory; the polynomial under transformation
// is in shared memory; sums are in registers. Outside transforms, word `threadIdx.x + w THREADS` of a polynomial
// belongs to one thread.

// Sets accumulators to X^-b (0, .., 0, q/8 (1 + X + .. + X^(N-1))), or q/4 if b has the mark 2^31. `exponents` is
// [rows][n + 1] in [0, 2 N), mask then body b, which may have the mark. `acc` is [rows][K + 1][N]. A group takes row
// after row.
extern "C" __global__ void __launch_bounds__(THREADS) blind_rotate_start(
    const unsigned* exponents, unsigned* acc, unsigned rows) {
    for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
        unsigned b = exponents[row * (LWE_DIMENSION + 1) + LWE_DIMENSION];
        unsigned* own = acc + row * (K + 1) * N;
        unsigned amplitude = b >> 31 ? QUARTER_Q : EIGHTH_Q;
        for (unsigned i = threadIdx.x; i < N; i += THREADS) {
            for (unsigned c = 0; c < K; c++) own[c * N + i] = 0;
            // coefficient i of X^-b v is v_(i + b), negated for each wrap
            own[K * N + i] = (i + b) % (2 * N) < N ? amplitude : Q - amplitude;
        }
    }
}

// Steps `first` to `first + count` of the rotation, a group a row. `key` is [n][LEVELS][K + 1][K + 1][N] after
// `ntt_key`. `table` is [rows][3] from word `table_first` on: row, 1, and the place of the row's key in `key`.
extern "C" __global__ void __launch_bounds__(THREADS) blind_rotate(
    const unsigned* key, const uint2* roots, const unsigned* exponents, unsigned* acc, const unsigned* table,
    unsigned first, unsigned count, unsigned table_first) {
    __shared__ unsigned row[N];
    key += word_of(table[table_first + 3 * blockIdx.x + 2]);
    unsigned* own = acc + blockIdx.x * (K + 1) * N;
    for (unsigned step = first; step < first + count; step++) {
        unsigned a = exponents[blockIdx.x * (LWE_DIMENSION + 1) + step];
        const unsigned* key_step = key + step * (LEVELS * (K + 1) * (K + 1) * N);
        unsigned sums[K + 1][WORDS] = {};
        for (unsigned c = 0; c <= K; c++) {
            unsigned raised[WORDS];
            for (unsigned w = 0; w < WORDS; w++) {
                unsigned i = threadIdx.x + w * THREADS;
                // (1) difference: d <- X^a acc - acc
                unsigned from = (i - a) % (2 * N);
                unsigned rotated = own[c * N + from % N];
                unsigned d = sub_mod(from < N ? rotated : negate_mod(rotated), own[c * N + i]);
                // (2) decompose: d to balanced digits, by way of its torus word
                raised[w] = (to_torus_lazy(d) + DIGIT_OFFSET) >> DIGIT_SHIFT;
            }
            for (unsigned level = 0; level < LEVELS; level++) {
                for (unsigned w = 0; w < WORDS; w++) {
                    unsigned digit = raised[w] >> (BASE_LOG * (LEVELS - 1 - level)) & ((1u << BASE_LOG) - 1);
                    row[threadIdx.x + w * THREADS] = digit + Q - (1u << (BASE_LOG - 1));
                }
                // (3) transform the digits
                ntt_forward_lazy(row, roots);
                // (4) multiply by the key of step i, sum up
                const unsigned* key_row = key_step + (level * (K + 1) + c) * (K + 1) * N;
                for (unsigned w = 0; w < WORDS; w++) {
                    unsigned i = threadIdx.x + w * THREADS;
                    for (unsigned to = 0; to <= K; to++) {
                        sums[to][w] = add_mod(sums[to][w], mul_montgomery(row[i], key_row[to * N + i]));
                    }
                }
            }
        }
        for (unsigned c = 0; c <= K; c++) {
            for (unsigned w = 0; w < WORDS; w++) row[threadIdx.x + w * THREADS] = sums[c][w];
            // (5) transform back
            ntt_inverse_lazy(row, roots);
            for (unsigned w = 0; w < WORDS; w++) {
                unsigned i = threadIdx.x + w * THREADS;
                // (6) acc <- acc + sum
                // Other threads read this word in the next step. Barriers in the transforms of the other polynomials
                // come before that.
                own[c * N + i] = add_mod(own[c * N + i], reduce(row[i], Q));
            }
        }
    }
}
