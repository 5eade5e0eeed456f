// Sample extraction: a coefficient of an RLWE ciphertext as an LWE ciphertext of dimension kN on the torus:
// kernels/src/tfhe/cpu/sample_extract.rs in CUDA. Needs `torus` and `place`.

constexpr unsigned NO_ROW = 0xffffffff;
constexpr unsigned EIGHTH = 1u << 29;
// Number of slots of a wire.
constexpr unsigned PARTS = (EXTRACTED_DIMENSION + LWE_DIMENSION + 1) / (LWE_DIMENSION + 1);

// Word `at` of the sample of coefficient h. The accumulator is [K + 1][N], in [0, q).
__device__ inline unsigned extracted(const unsigned* own, unsigned at, unsigned h) {
    // (1) mask: A_c[h], .., A_c[0], -A_c[N - 1], .., -A_c[h + 1] for every c, each to the nearest torus word
    // (2) body: b[h], likewise
    unsigned i = at % N;
    return to_torus(i <= h ? own[at - i + h - i] : negate_mod(own[at - i + N + h - i]));
}

// `acc` is [rows][K + 1][N]. `table` is [gates][2] from word `first` on: a row, then a second row for a MUX or NO_ROW.
// `out` gets [gates][kN + 1] torus words, from row `first_out` on. A group takes gate after gate.
extern "C" __global__ void __launch_bounds__(THREADS) sample_extract(
    const unsigned* acc, const unsigned* table, unsigned* out, unsigned gates, unsigned first, unsigned first_out) {
    table += first;
    for (unsigned gate = blockIdx.x; gate < gates; gate += gridDim.x) {
        unsigned row = table[2 * gate], second = table[2 * gate + 1];
        for (unsigned at = threadIdx.x; at <= EXTRACTED_DIMENSION; at += THREADS) {
            unsigned word = extracted(acc + row * (K + 1) * N, at, 0);
            if (second != NO_ROW) {
                // (3) a MUX: the sum of its two samples and 1/8
                word += extracted(acc + second * (K + 1) * N, at, 0);
                if (at == EXTRACTED_DIMENSION) word += EIGHTH;
            }
            out[(first_out + gate) * (EXTRACTED_DIMENSION + 1) + at] = word;
        }
    }
}

// `table` is [wires][2 + PARTS] from word `first` on: a row of `acc`, a coefficient, and the place of each slot of the
// wire in `arena`. A slot has n + 1 words. A group takes wire after wire.
extern "C" __global__ void __launch_bounds__(THREADS) extract_wires(
    const unsigned* acc, const unsigned* table, unsigned* arena, unsigned wires, unsigned first) {
    table += first;
    for (unsigned wire = blockIdx.x; wire < wires; wire += gridDim.x) {
        const unsigned* entry = table + (2 + PARTS) * wire;
        unsigned row = entry[0], coefficient = entry[1];
        for (unsigned at = threadIdx.x; at <= EXTRACTED_DIMENSION; at += THREADS) {
            unsigned part = at / (LWE_DIMENSION + 1);
            unsigned* slot = arena + word_of(entry[2 + part]);
            slot[at % (LWE_DIMENSION + 1)] = extracted(acc + row * (K + 1) * N, at, coefficient);
        }
    }
}
