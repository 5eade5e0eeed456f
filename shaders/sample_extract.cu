// Sample extraction: coefficient 0 of an RLWE ciphertext as an LWE ciphertext of dimension kN on the torus:
// kernels/src/tfhe/cpu/sample_extract.rs in CUDA. Needs `torus`.

constexpr unsigned NO_ROW = 0xffffffff;
constexpr unsigned EIGHTH = 1u << 29;

// Word `at` of the sample of an accumulator [K + 1][N], in [0, q).
__device__ inline unsigned extracted(const unsigned* own, unsigned at) {
    // (1) mask: A_c[0], -A_c[N - 1], .., -A_c[1] for every c, each to the nearest torus word
    // (2) body: b[0], likewise
    unsigned i = at % N;
    return to_torus(i == 0 ? own[at] : negate_mod(own[at - i + N - i]));
}

// `acc` is [rows][K + 1][N], `table` [gates][2] from word `first` on: a row, and a second one for a MUX or NO_ROW;
// `out` [gates][kN + 1] torus words. A group takes gate after gate.
extern "C" __global__ void __launch_bounds__(THREADS) sample_extract(
    const unsigned* acc, const unsigned* table, unsigned* out, unsigned gates, unsigned first) {
    table += first;
    for (unsigned gate = blockIdx.x; gate < gates; gate += gridDim.x) {
        unsigned row = table[2 * gate], second = table[2 * gate + 1];
        for (unsigned at = threadIdx.x; at <= EXTRACTED_DIMENSION; at += THREADS) {
            unsigned word = extracted(acc + row * (K + 1) * N, at);
            if (second != NO_ROW) {
                // (3) a MUX: the sum of its two samples and 1/8
                word += extracted(acc + second * (K + 1) * N, at);
                if (at == EXTRACTED_DIMENSION) word += EIGHTH;
            }
            out[gate * (EXTRACTED_DIMENSION + 1) + at] = word;
        }
    }
}
