// The sums of gates and cells, over the slots of an arena: kernels/src/tfhe/cpu/cells.rs in CUDA. Needs `place`.

// Sums that go to their row of `out`, and sums that are added to it. Every other word names a place.
constexpr unsigned TO_ROW = 0xffffffff, ONTO_ROW = 0xfffffffe;
constexpr unsigned QUARTER = 1u << 31;

// `arena` holds slots of n + 1 words at places. `table` has [rows][4] from word `first` on: the constant of the body,
// the index of the row's first word of terms, the number of terms, and where the sum goes: TO_ROW, ONTO_ROW or a place
// in `arena`. Terms begin at word `first_term`. A term is a factor, and the place of each slot of the value. A value
// has `words` words, n + 1 or kN + 1, and `out` is [rows][words]. A group takes row after row.
extern "C" __global__ void __launch_bounds__(THREADS) add_terms(
    unsigned* arena, const unsigned* table, unsigned* out, unsigned rows, unsigned first, unsigned first_term,
    unsigned words) {
    unsigned term_words = 1 + (words + LWE_DIMENSION) / (LWE_DIMENSION + 1);
    for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
        const unsigned* entry = table + first + 4 * row;
        const unsigned* terms = table + first_term + entry[1];
        unsigned constant = entry[0], count = entry[2], to = entry[3];
        unsigned* result = to < ONTO_ROW ? arena + word_of(to) : out + row * words;
        for (unsigned at = threadIdx.x; at < words; at += THREADS) {
            unsigned part = at / (LWE_DIMENSION + 1), sum = to == ONTO_ROW ? result[at] : 0;
#pragma unroll 2
            for (unsigned t = 0; t < count; t++) {
                const unsigned* term = terms + t * term_words;
                // (1) plus factor value, word by word
                sum += term[0] * (arena + word_of(term[1 + part]))[at % (LWE_DIMENSION + 1)];
            }
            // (2) plus the constant in the body
            result[at] = at == words - 1 ? sum + constant : sum;
        }
    }
}

// `table` is [count] from word `first` on: row numbers of `exponents`, [rows][n + 1] in [0, 2 N). A thread takes row
// after row.
extern "C" __global__ void __launch_bounds__(THREADS) mark_quarter(
    const unsigned* table, unsigned* exponents, unsigned count, unsigned first) {
    for (unsigned at = blockIdx.x * THREADS + threadIdx.x; at < count; at += gridDim.x * THREADS) {
        // (3) a mark in the word of the body's exponent: the rotation starts with amplitude 1/4
        exponents[table[first + at] * (LWE_DIMENSION + 1) + LWE_DIMENSION] |= QUARTER;
    }
}
