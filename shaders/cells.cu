// The sums of cells, over the slots of an arena: kernels/src/tfhe/cpu/cells.rs in CUDA. Needs `place`.

// Number of slots of a wire.
constexpr unsigned PARTS = (EXTRACTED_DIMENSION + LWE_DIMENSION + 1) / (LWE_DIMENSION + 1);
constexpr unsigned QUARTER = 1u << 31;

// `arena` holds slots of n + 1 words at places. `table` is [rows][3] from word `first` on: the constant of the body,
// the index of the table word where the row's terms begin, and the number of terms. A term is [1 + PARTS]: a factor,
// and the place of each slot of the wire. `out` is [rows][kN + 1]. A group takes row after row.
extern "C" __global__ void __launch_bounds__(THREADS) wire_sum(
    const unsigned* arena, const unsigned* table, unsigned* out, unsigned rows, unsigned first) {
    for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
        const unsigned* entry = table + first + 3 * row;
        const unsigned* terms = table + entry[1];
        unsigned constant = entry[0], count = entry[2];
        for (unsigned at = threadIdx.x; at <= EXTRACTED_DIMENSION; at += THREADS) {
            unsigned part = at / (LWE_DIMENSION + 1), sum = 0;
            for (unsigned t = 0; t < count; t++) {
                const unsigned* term = terms + t * (1 + PARTS);
                // (1) sum of factor wire, word by word
                sum += term[0] * (arena + word_of(term[1 + part]))[at % (LWE_DIMENSION + 1)];
            }
            // (2) plus a result's constant in the body
            out[row * (EXTRACTED_DIMENSION + 1) + at] = at == EXTRACTED_DIMENSION ? sum + constant : sum;
        }
    }
}

// `table` is [rows][4] from word `first` on: the constant of the body, the index of the table word where the row's
// terms begin, the number of terms, and 1 if the row of `out` already holds a sum, else 0. A term is [2]: a factor, and
// the input's place in `arena`. `out` is [rows][n + 1]. A group takes row after row.
extern "C" __global__ void __launch_bounds__(THREADS) input_sum(
    const unsigned* arena, const unsigned* table, unsigned* out, unsigned rows, unsigned first) {
    for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
        const unsigned* entry = table + first + 4 * row;
        const unsigned* terms = table + entry[1];
        unsigned constant = entry[0], count = entry[2], there = entry[3];
        for (unsigned i = threadIdx.x; i <= LWE_DIMENSION; i += THREADS) {
            unsigned sum = there ? out[row * (LWE_DIMENSION + 1) + i] : 0;
#pragma unroll 2
            for (unsigned t = 0; t < count; t++) {
                // (3) plus the sum of factor input, word by word
                sum += terms[2 * t] * (arena + word_of(terms[2 * t + 1]))[i];
            }
            // (4) plus the constant in the body
            out[row * (LWE_DIMENSION + 1) + i] = i == LWE_DIMENSION ? sum + constant : sum;
        }
    }
}

// `table` is [count] from word `first` on: row numbers of `exponents`, [rows][n + 1] in [0, 2 N). A thread takes row
// after row.
extern "C" __global__ void __launch_bounds__(THREADS) mark_quarter(
    const unsigned* table, unsigned* exponents, unsigned count, unsigned first) {
    for (unsigned at = blockIdx.x * THREADS + threadIdx.x; at < count; at += gridDim.x * THREADS) {
        // (5) a mark in the word of the body's exponent: the rotation starts with amplitude 1/4
        exponents[table[first + at] * (LWE_DIMENSION + 1) + LWE_DIMENSION] |= QUARTER;
    }
}
