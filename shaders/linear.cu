// The sum of a gate before its bootstrap, and NOT, which has no bootstrap: kernels/src/tfhe/cpu/linear.rs in CUDA.
// Needs `distance`.

// `arena` is the first of the chunks that hold rows of n + 1 words. `table` is [rows][7] from word `first` on: the
// constant, factor f, the distance from `arena` to x, factor g, the distance to y. `out` is [rows][n + 1]. A group
// takes row after row.
extern "C" __global__ void __launch_bounds__(THREADS) linear(
    const unsigned* arena, const unsigned* table, unsigned* out, unsigned rows, unsigned first) {
    table += first;
    for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
        const unsigned* entry = table + 7 * row;
        unsigned constant = entry[0], f = entry[1], g = entry[4];
        const unsigned* x = arena + distance(entry + 2);
        const unsigned* y = arena + distance(entry + 5);
        for (unsigned i = threadIdx.x; i <= LWE_DIMENSION; i += THREADS) {
            // (1) f x + g y, word by word
            unsigned sum = f * x[i] + g * y[i];
            // (2) plus the constant in the body
            out[row * (LWE_DIMENSION + 1) + i] = i == LWE_DIMENSION ? sum + constant : sum;
        }
    }
}

// `table` is [rows][4] from word `first` on: the distances from `arena` to the operand and to the result. A group
// takes row after row.
extern "C" __global__ void __launch_bounds__(THREADS) negate(
    unsigned* arena, const unsigned* table, unsigned rows, unsigned first) {
    table += first;
    for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
        const unsigned* entry = table + 4 * row;
        const unsigned* operand = arena + distance(entry);
        unsigned* result = arena + distance(entry + 2);
        for (unsigned i = threadIdx.x; i <= LWE_DIMENSION; i += THREADS) {
            // (3) negation, word by word
            result[i] = 0u - operand[i];
        }
    }
}
