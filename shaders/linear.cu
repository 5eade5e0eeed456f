// What a gate adds up before its bootstrap, and NOT, which is all of it: kernels/src/cpu/linear.rs in CUDA.

// `arena` is [slots][n + 1], `table` [rows][5] from word `first` on: constant, slot x, factor f, slot y, factor g;
// `out` [rows][n + 1]. A group takes row after row.
extern "C" __global__ void __launch_bounds__(THREADS) linear(
    const unsigned* arena, const unsigned* table, unsigned* out, unsigned rows, unsigned first) {
    table += first;
    for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
        unsigned constant = table[5 * row];
        const unsigned* x = arena + table[5 * row + 1] * (LWE_DIMENSION + 1);
        const unsigned* y = arena + table[5 * row + 3] * (LWE_DIMENSION + 1);
        unsigned f = table[5 * row + 2], g = table[5 * row + 4];
        for (unsigned i = threadIdx.x; i <= LWE_DIMENSION; i += THREADS) {
            // (1) f x + g y, word by word
            unsigned sum = f * x[i] + g * y[i];
            // (2) plus the constant in the body
            out[row * (LWE_DIMENSION + 1) + i] = i == LWE_DIMENSION ? sum + constant : sum;
        }
    }
}

// `table` is [rows][2] from word `first` on: operand, result, both slots of `arena`. A group takes row after row.
extern "C" __global__ void __launch_bounds__(THREADS) negate(
    unsigned* arena, const unsigned* table, unsigned rows, unsigned first) {
    table += first;
    for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
        const unsigned* operand = arena + table[2 * row] * (LWE_DIMENSION + 1);
        unsigned* result = arena + table[2 * row + 1] * (LWE_DIMENSION + 1);
        for (unsigned i = threadIdx.x; i <= LWE_DIMENSION; i += THREADS) {
            // (3) negation, word by word
            result[i] = 0u - operand[i];
        }
    }
}
