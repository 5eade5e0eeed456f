// The sum of a gate before its bootstrap, and NOT, which has no bootstrap: kernels/src/tfhe/cpu/linear.rs in CUDA.
// Needs `place`.

// `arena` holds rows of n + 1 words at places. `table` is [rows][5] from word `first` on: the constant, factor f, the
// place of x, factor g, the place of y. `out` is [rows][n + 1]. A group takes row after row.
extern "C" __global__ void __launch_bounds__(THREADS) linear(
    const unsigned* arena, const unsigned* table, unsigned* out, unsigned rows, unsigned first) {
    table += first;
    for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
        const unsigned* entry = table + 5 * row;
        unsigned constant = entry[0], f = entry[1], g = entry[3];
        const unsigned* x = arena + word_of(entry[2]);
        const unsigned* y = arena + word_of(entry[4]);
        for (unsigned i = threadIdx.x; i <= LWE_DIMENSION; i += THREADS) {
            // (1) f x + g y, word by word
            unsigned sum = f * x[i] + g * y[i];
            // (2) plus the constant in the body
            out[row * (LWE_DIMENSION + 1) + i] = i == LWE_DIMENSION ? sum + constant : sum;
        }
    }
}

// `table` is [rows][2] from word `first` on: the places of the operand and of the result in `arena`. A group takes row
// after row.
extern "C" __global__ void __launch_bounds__(THREADS) negate(
    unsigned* arena, const unsigned* table, unsigned rows, unsigned first) {
    table += first;
    for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
        const unsigned* entry = table + 2 * row;
        const unsigned* operand = arena + word_of(entry[0]);
        unsigned* result = arena + word_of(entry[1]);
        for (unsigned i = threadIdx.x; i <= LWE_DIMENSION; i += THREADS) {
            // (3) negation, word by word
            result[i] = 0u - operand[i];
        }
    }
}
