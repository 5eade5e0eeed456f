// What a gate adds up before its bootstrap, and NOT, which is all of it: kernels/src/tfhe/cpu/linear.rs in CUDA. Needs
// `distance`.

// `arena` is [slots][n + 1], `table` [rows][7] from word `first` on: constant, slot x, factor f, slot y, factor g, and
// how far from `arena` the row's own arena is; `out` [rows][n + 1]. A group takes row after row.
extern "C" __global__ void __launch_bounds__(THREADS) linear(
    const unsigned* arena, const unsigned* table, unsigned* out, unsigned rows, unsigned first) {
    table += first;
    for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
        const unsigned* entry = table + 7 * row;
        const unsigned* own = arena + distance(entry + 5);
        unsigned constant = entry[0], f = entry[2], g = entry[4];
        const unsigned* x = own + entry[1] * (LWE_DIMENSION + 1);
        const unsigned* y = own + entry[3] * (LWE_DIMENSION + 1);
        for (unsigned i = threadIdx.x; i <= LWE_DIMENSION; i += THREADS) {
            // (1) f x + g y, word by word
            unsigned sum = f * x[i] + g * y[i];
            // (2) plus the constant in the body
            out[row * (LWE_DIMENSION + 1) + i] = i == LWE_DIMENSION ? sum + constant : sum;
        }
    }
}

// `table` is [rows][4] from word `first` on: operand, result, both slots of the row's own arena, and how far from
// `arena` that is. A group takes row after row.
extern "C" __global__ void __launch_bounds__(THREADS) negate(
    unsigned* arena, const unsigned* table, unsigned rows, unsigned first) {
    table += first;
    for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
        const unsigned* entry = table + 4 * row;
        unsigned* own = arena + distance(entry + 2);
        const unsigned* operand = own + entry[0] * (LWE_DIMENSION + 1);
        unsigned* result = own + entry[1] * (LWE_DIMENSION + 1);
        for (unsigned i = threadIdx.x; i <= LWE_DIMENSION; i += THREADS) {
            // (3) negation, word by word
            result[i] = 0u - operand[i];
        }
    }
}
