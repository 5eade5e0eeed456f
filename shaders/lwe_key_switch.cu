// Key switch: from an LWE ciphertext under the ring key to one under the small key;
// kernels/src/tfhe/cpu/lwe_key_switch.rs in CUDA. Needs `place`.
//
// A group has TILE_GATES gates of one key and TILE_COLUMNS columns of their results. Its warps share the key rows: each
// takes every SLICES-th row. A thread keeps COLUMNS columns of all the gates in registers, so that a word of the key is
// read once for all of them. Digits are staged in shared memory, CHUNK coefficients at a time. At the end, the warps'
// sums are added there.

constexpr unsigned LANES = 32;
constexpr unsigned SLICES = THREADS / LANES;
constexpr unsigned STAGED_DIGITS = CHUNK * KS_LEVELS * TILE_GATES;
constexpr unsigned STAGED_SUMS = SLICES * TILE_GATES * TILE_COLUMNS;

// `key` is [kN][KS_LEVELS][KEY_COLUMNS] torus words, where KEY_COLUMNS are whole tiles. `samples` is [gates][kN + 1].
// `results` holds the results, rows of n + 1 words. `table` has, from word `table_first` on, [gates]: the result's
// first word in units of `unit` words; and from `shares_first` on, [tiles of gates][3]: the first gate, the number of
// gates (at most TILE_GATES), and the place of their key in `key`. A group has a tile of gates and columns.
extern "C" __global__ void __launch_bounds__(THREADS) lwe_key_switch(
    const unsigned* key, const unsigned* samples, const unsigned* table, unsigned* results, unsigned table_first,
    unsigned shares_first, unsigned unit) {
    const unsigned* share = table + shares_first + 3 * (blockIdx.x / (KEY_COLUMNS / TILE_COLUMNS));
    const unsigned first_gate = share[0], gates = share[1];
    key += word_of(share[2]);
    table += table_first;
    // aligned, so that one load reads the digits of all gates of a tile
    __shared__ __align__(16) unsigned staged[STAGED_DIGITS > STAGED_SUMS ? STAGED_DIGITS : STAGED_SUMS];
    unsigned first_column = blockIdx.x % (KEY_COLUMNS / TILE_COLUMNS) * TILE_COLUMNS;
    unsigned lane = threadIdx.x % LANES, slice = threadIdx.x / LANES;
    unsigned sums[TILE_GATES][COLUMNS] = {};
    for (unsigned first = 0; first < EXTRACTED_DIMENSION; first += CHUNK) {
        unsigned coefficients = min(CHUNK, EXTRACTED_DIMENSION - first);
        for (unsigned at = threadIdx.x; at < TILE_GATES * coefficients; at += THREADS) {
            unsigned gate = at / coefficients, i = at % coefficients;
            // gates beyond the last gate have digits of 0
            const unsigned* sample = samples + (first_gate + gate) * (EXTRACTED_DIMENSION + 1);
            unsigned a = gate < gates ? sample[first + i] : 0;
            // (1) v <- round(a D^t / 2^32)
            // KS_COVERED is D^t; as a 32-bit word, 2^32 is 0
            unsigned v = KS_COVERED == 0 ? a : __umulhi(a, KS_COVERED) + (a * KS_COVERED >> 31);
            for (unsigned level = KS_LEVELS; level-- > 0;) {
                // (2) balanced digits of v, least significant first; the last carry stands for 2^32, so it is dropped
                unsigned low = v % KS_BASE;
                bool carry = low > (KS_BASE - 1) / 2;
                staged[(i * KS_LEVELS + level) * TILE_GATES + gate] = carry ? low - KS_BASE : low;
                v = v / KS_BASE + carry;
            }
        }
        __syncthreads();
#pragma unroll 4
        for (unsigned row = slice; row < coefficients * KS_LEVELS; row += SLICES) {
            const unsigned* key_row = key + (first * KS_LEVELS + row) * KEY_COLUMNS + first_column + lane;
            for (unsigned c = 0; c < COLUMNS; c++) {
                unsigned word = key_row[c * LANES];
                for (unsigned gate = 0; gate < TILE_GATES; gate++) {
                    // (3) sum <- sum - digit * key row
                    sums[gate][c] -= staged[row * TILE_GATES + gate] * word;
                }
            }
        }
        __syncthreads();
    }
    for (unsigned gate = 0; gate < TILE_GATES; gate++) {
        for (unsigned c = 0; c < COLUMNS; c++) {
            staged[(slice * TILE_GATES + gate) * TILE_COLUMNS + c * LANES + lane] = sums[gate][c];
        }
    }
    __syncthreads();
    for (unsigned at = threadIdx.x; at < TILE_GATES * TILE_COLUMNS; at += THREADS) {
        unsigned gate = first_gate + at / TILE_COLUMNS, column = first_column + at % TILE_COLUMNS;
        if (at / TILE_COLUMNS >= gates || column > LWE_DIMENSION) continue;
        // (4) the sample's body goes to the body
        unsigned sum = column == LWE_DIMENSION ? samples[gate * (EXTRACTED_DIMENSION + 1) + EXTRACTED_DIMENSION] : 0;
        for (unsigned s = 0; s < SLICES; s++) sum += staged[s * TILE_GATES * TILE_COLUMNS + at];
        unsigned* result = results + (unsigned long long)unit * table[gate];
        result[column] = sum;
    }
}
