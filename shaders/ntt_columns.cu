// The stages of a long transform whose partners are at least ROW words apart: kernels/src/cpu/ntt.rs, with base
// conversion before the transform and after its inverse.
//
// A row of N words is ROWS rows of ROW words here. A group takes a tile: all rows of some neighbouring columns. A
// thread holds V words of one column: rows part + ROWS/V i in the first stages, rows V part + i in the last ones. The
// tile in shared memory passes words from one order to the other.
//
// Groups in x are the tiles of a row, groups in y are jobs. `table` begins with the jobs. A job names records, which
// are further words of the table, and rows by their places in `scratch`. `primes` is as in `limb`; `roots` is
// [primes][N]. From the prelude: N, ROW, ROWS, LOG_ROWS, TILE (words of a tile), THREADS. Needs `limb`,
// `ntt.registers`, `base_convert`.

constexpr unsigned V = ROWS < 8 ? ROWS : 8;
constexpr unsigned LOG_V = LOG_ROWS < 3 ? LOG_ROWS : 3;
constexpr unsigned APART = ROWS / V;
constexpr unsigned COLUMNS = TILE / ROWS;

static_assert(THREADS == COLUMNS * APART, "a thread holds V words");
static_assert(ROWS <= 64, "two passes of at most three stages");

// The place of this thread's words: a column of the tile, and the number of the thread in this column.
struct Own {
    unsigned column, part;

    __device__ __forceinline__ Own() : column(threadIdx.x % COLUMNS), part(threadIdx.x / COLUMNS) {}
    // The row of word i in the first stages and in the last ones.
    __device__ __forceinline__ unsigned first(unsigned i) const { return part + APART * i; }
    __device__ __forceinline__ unsigned last(unsigned i) const { return V * part + i; }
    // A word of this thread's column in a row of N words.
    __device__ __forceinline__ unsigned word(unsigned row) const { return row * ROW + blockIdx.x * COLUMNS + column; }
    // The same in the tile.
    __device__ __forceinline__ unsigned in_tile(unsigned row) const { return row * COLUMNS + column; }
};

// The group of a pair of words in the last stages: in stage `stage`, the partners are ROWS >> (stage + 1) rows apart.
__device__ __forceinline__ unsigned group_of(const Own& own, unsigned stage, unsigned low) {
    return (V * own.part + low) >> (LOG_ROWS - stage);
}

// Input in [0, 2 q) as in the first stages, output in [0, 4 q) as in the last stages. Contains one barrier.
__device__ __forceinline__ void forward_columns(Limb p, const uint2* roots, unsigned (&v)[V], unsigned* tile, Own own) {
#pragma unroll
    for (unsigned stage = 0; stage < LOG_V; stage++) {
        const unsigned half = V >> (stage + 1);
#pragma unroll
        for (unsigned pair = 0; pair < V / 2; pair++) {
            const unsigned low = low_of(pair, half);
            const uint2 w = roots[(1u << stage) + block_of(pair, half)];
            if (stage == 0) butterfly_by<true>(p, v[low], v[low + half], w);
            else butterfly_by<false>(p, v[low], v[low + half], w);
        }
    }
    if (APART == 1) return;
#pragma unroll
    for (unsigned i = 0; i < V; i++) tile[own.in_tile(own.first(i))] = v[i];
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < V; i++) v[i] = tile[own.in_tile(own.last(i))];
#pragma unroll
    for (unsigned stage = LOG_V; stage < LOG_ROWS; stage++) {
        const unsigned half = ROWS >> (stage + 1);
#pragma unroll
        for (unsigned pair = 0; pair < V / 2; pair++) {
            const unsigned low = low_of(pair, half);
            butterfly_by<false>(p, v[low], v[low + half], roots[(1u << stage) + group_of(own, stage, low)]);
        }
    }
}

// The inverse: input in [0, 2 q) as in the last stages, output in [0, 2 q) as in the first ones, times ROWS. Contains
// two barriers; the first one lets a group use the tile again.
__device__ __forceinline__ void inverse_columns(Limb p, const uint2* roots, unsigned (&v)[V], unsigned* tile, Own own) {
    if (APART > 1) {
#pragma unroll
        for (unsigned back = 0; back < LOG_ROWS - LOG_V; back++) {
            const unsigned stage = LOG_ROWS - 1 - back, half = ROWS >> (stage + 1), groups = 1u << stage;
#pragma unroll
            for (unsigned pair = 0; pair < V / 2; pair++) {
                const unsigned low = low_of(pair, half);
                const uint2 w = roots[groups + groups - 1 - group_of(own, stage, low)];
                inverse_butterfly_by(p, v[low], v[low + half], w);
            }
        }
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < V; i++) tile[own.in_tile(own.last(i))] = v[i];
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < V; i++) v[i] = tile[own.in_tile(own.first(i))];
    }
#pragma unroll
    for (unsigned back = 0; back < LOG_V; back++) {
        const unsigned stage = LOG_V - 1 - back, half = V >> (stage + 1), groups = 1u << stage;
#pragma unroll
        for (unsigned pair = 0; pair < V / 2; pair++) {
            const unsigned low = low_of(pair, half);
            inverse_butterfly_by(p, v[low], v[low + half], roots[groups + groups - 1 - block_of(pair, half)]);
        }
    }
}

// Finishes the inverse transforms of some source primes, and makes them ready for conversion. A job is [2]: the index
// of its record, and the place of its rows, [sources + 1][N]. The first rows are as `ntt_rows_inverse` leaves them, and
// become the residues of step (1). The last row receives the quotients. A record is the number of sources, then
// [sources][5] words.
extern "C" __global__ void __launch_bounds__(THREADS) ntt_columns_inverse(
    const unsigned* table, unsigned* scratch, const unsigned* primes, const uint2* roots) {
    __shared__ unsigned tile[TILE];
    const Own own;
    const unsigned* job = table + 2 * blockIdx.y;
    const unsigned* record = table + job[0];
    unsigned* row = scratch + word_of(job[1] & ~IN_SCRATCH);
    unsigned quotients[V];
#pragma unroll
    for (unsigned i = 0; i < V; i++) quotients[i] = 1u << (FRACTION_BITS - 1);
    const unsigned sources = record[0];
    const unsigned* source = record + 1;
#pragma unroll 1
    for (unsigned at = 0; at < sources; at++, source += SOURCE_WORDS, row += N) {
        const Limb p = limb_of(primes, source[0]);
        unsigned v[V];
#pragma unroll
        for (unsigned i = 0; i < V; i++) v[i] = row[own.word(own.last(i))];
        inverse_columns(p, roots + (unsigned long long)source[0] * N, v, tile, own);
#pragma unroll
        for (unsigned i = 0; i < V; i++) row[own.word(own.first(i))] = scaled(p, v[i], source, quotients[i]);
    }
#pragma unroll
    for (unsigned i = 0; i < V; i++) row[own.word(own.first(i))] = quotients[i] >> FRACTION_BITS;
}

// Converts rows to one prime and begins the transform of the result. A job is [3]: the index of its record, the place
// of the rows that `ntt_columns_inverse` left, and the place of the result, in [0, 2 p). A record is the target's
// index, the number of sources, then the factors of the sources and of the quotient, times 2^32.
extern "C" __global__ void __launch_bounds__(THREADS) ntt_columns(
    const unsigned* table, unsigned* scratch, const unsigned* primes, const uint2* roots) {
    __shared__ unsigned tile[TILE];
    const Own own;
    const unsigned* job = table + 3 * blockIdx.y;
    const unsigned* record = table + job[0];
    const unsigned* from = scratch + word_of(job[1] & ~IN_SCRATCH);
    const Limb p = limb_of(primes, record[0]);
    unsigned long long sums[V] = {};
    const unsigned rows = record[1] + 1;
#pragma unroll 1
    for (unsigned at = 0; at < rows; at++, from += N) {
        const unsigned factor = record[2 + at];
#pragma unroll
        for (unsigned i = 0; i < V; i++) add_converted(sums[i], from[own.word(own.first(i))], factor);
    }
    unsigned v[V];
#pragma unroll
    for (unsigned i = 0; i < V; i++) v[i] = reduce(montgomery_lazy(p, sums[i]), 2 * p.q);
    forward_columns(p, roots + (unsigned long long)record[0] * N, v, tile, own);
    unsigned* to = scratch + word_of(job[2] & ~IN_SCRATCH);
#pragma unroll
    for (unsigned i = 0; i < V; i++) to[own.word(own.last(i))] = reduce(v[i], 2 * p.q);
}

// Reduces the coefficients of a plaintext and begins their transform. A job is [4]: the prime's index, the place of the
// plaintext in `keys`, the binary logarithm of its gap, and the place of the result, in [0, 2 p). A plaintext is [2][N
// / gap] words: the high and the low words of its coefficients plus 2^62; all other coefficients are 0.
extern "C" __global__ void __launch_bounds__(THREADS) ntt_columns_weights(
    const unsigned* table, unsigned* scratch, const unsigned* primes, const uint2* roots, const unsigned* keys) {
    __shared__ unsigned tile[TILE];
    const Own own;
    const unsigned* job = table + 4 * blockIdx.y;
    const Limb p = limb_of(primes, job[0]);
    const unsigned offset = primes[PRIME_WORDS * job[0] + 4], log_gap = job[2];
    const unsigned* high = keys + word_of(job[1]);
    const unsigned* low = high + (N >> log_gap);
    unsigned v[V];
#pragma unroll
    for (unsigned i = 0; i < V; i++) {
        const unsigned at = own.word(own.first(i)), of = at >> log_gap;
        v[i] = 0;
        if (of << log_gap == at) {
            const unsigned sum = reduce(offset + mul_lazy(p, high[of], p.unit), 2 * p.q);
            v[i] = reduce(sum + mul_residues(low[of], p.unit.x, p.q, p.q_inverse), 2 * p.q);
        }
    }
    forward_columns(p, roots + (unsigned long long)job[0] * N, v, tile, own);
    unsigned* to = scratch + word_of(job[3] & ~IN_SCRATCH);
#pragma unroll
    for (unsigned i = 0; i < V; i++) to[own.word(own.last(i))] = reduce(v[i], 2 * p.q);
}
