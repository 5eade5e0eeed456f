// The stages of a long transform whose partners are less than ROW words apart: kernels/src/cpu/ntt.rs, and the work
// that comes before its inverse or after it.
//
// A row of N words is ROWS rows of ROW words here. A warp transforms one of them in its registers (`ntt.registers`),
// and a group has several warps. Values are in the order of kernels/src/ring.rs.
//
// Groups in x share the rows of a row of N words, groups in y are jobs. `table` begins with the jobs, which name rows
// by their places. `primes` is as in `limb`; `roots` is [primes][N]. From the prelude: N, LOG_N, ROW, ROWS, THREADS.
// Needs `limb`, `ntt.registers`, `gadget`.

constexpr unsigned W = ROW / 32;
constexpr unsigned WARPS = THREADS / 32;
constexpr unsigned PADDED = ROW + ROW / 32;
// Groups that a multiprocessor should hold at least: 64 registers a thread.
constexpr unsigned GROUPS = 1024 / THREADS;

static_assert(ROWS % WARPS == 0, "every warp has a row");

// The roots of row `base - ROWS`. The row with the mirrored groups is `2 ROWS - 1 - base`.
struct RowRoots {
    const uint2* roots;
    unsigned base;

    __device__ __forceinline__ uint2 far(unsigned stage, unsigned group) const {
        return roots[(base << stage) + group];
    }
    __device__ __forceinline__ uint2 near(unsigned stage, unsigned lane, unsigned block) const {
        return roots[((32 * base + lane) << stage) + block];
    }
};

// The row of this warp, and the part of its words that this lane has in the near layout.
struct Own {
    unsigned lane, row;

    __device__ __forceinline__ Own() : lane(threadIdx.x % 32), row(blockIdx.x * WARPS + threadIdx.x / 32) {}
    __device__ __forceinline__ RowRoots roots(const uint2* all, unsigned prime) const {
        return {all + (unsigned long long)prime * N, ROWS + row};
    }
    __device__ __forceinline__ RowRoots mirrored(const uint2* all, unsigned prime) const {
        return {all + (unsigned long long)prime * N, 2 * ROWS - 1 - row};
    }
    __device__ __forceinline__ unsigned far(unsigned i) const { return row * ROW + 32 * i + lane; }
    __device__ __forceinline__ unsigned near() const { return row * ROW + W * lane; }
};

// Four words at a time, if a lane has so many.
constexpr unsigned QUAD = W < 4 ? W : 4;
struct alignas(4 * QUAD) Words {
    unsigned word[QUAD];
};

__device__ __forceinline__ void load_near(unsigned (&v)[W], const unsigned* from) {
#pragma unroll
    for (unsigned i = 0; i < W; i += QUAD) {
        const Words words = *reinterpret_cast<const Words*>(from + i);
#pragma unroll
        for (unsigned k = 0; k < QUAD; k++) v[i + k] = words.word[k];
    }
}

__device__ __forceinline__ void store_near(unsigned* to, const unsigned (&v)[W]) {
#pragma unroll
    for (unsigned i = 0; i < W; i += QUAD) {
        Words words;
#pragma unroll
        for (unsigned k = 0; k < QUAD; k++) words.word[k] = v[i + k];
        *reinterpret_cast<Words*>(to + i) = words;
    }
}

// Loads a row that `ntt_columns` began, and finishes its transform: in [0, 4 q), near layout.
__device__ __forceinline__ void transform(Limb p, const RowRoots& roots, unsigned (&v)[1][W], const unsigned* begun,
                                          unsigned* shared, Own own) {
#pragma unroll
    for (unsigned i = 0; i < W; i++) v[0][i] = begun[own.far(i)];
    forward_far(p, roots, v[0], own.lane);
    far_to_near(v[0], shared, own.lane);
    forward_near(p, roots, v, own.lane);
}

// Finishes the transform of a row. A job is [3]: the prime's index, the place of the begun row in scratch memory, and
// the place of the result there, in [0, q).
extern "C" __global__ void __launch_bounds__(THREADS, GROUPS) ntt_rows(
    const unsigned* table, unsigned* scratch, const unsigned* primes, const uint2* roots) {
    __shared__ unsigned shared[WARPS * PADDED];
    const Own own;
    const unsigned* job = table + 3 * blockIdx.y;
    const Limb p = limb_of(primes, job[0]);
    unsigned v[1][W];
    transform(p, own.roots(roots, job[0]), v, scratch + word_of(job[1] & ~IN_SCRATCH),
              shared + threadIdx.x / 32 * PADDED, own);
#pragma unroll
    for (unsigned i = 0; i < W; i++) v[0][i] = reduce_all(p, v[0][i]);
    store_near(scratch + word_of(job[2] & ~IN_SCRATCH) + own.near(), v[0]);
}

// Begins an inverse transform. A job is [6]: the prime's index, the place of the row in [0, 2 q), the place of the
// result in scratch memory, in [0, 2 q), and a row that is added first: its place or NO_ROW, and its factor with the
// companion.
extern "C" __global__ void __launch_bounds__(THREADS, GROUPS) ntt_rows_inverse(
    const unsigned* table, unsigned* scratch, const unsigned* primes, const uint2* roots, const unsigned* rows) {
    __shared__ unsigned shared[WARPS * PADDED];
    const Own own;
    const unsigned* job = table + 6 * blockIdx.y;
    const Limb p = limb_of(primes, job[0]);
    unsigned v[W];
    load_near(v, row_of(rows, scratch, job[1]) + own.near());
    if (job[3] != NO_ROW) {
        const uint2 factor = make_uint2(job[4], job[5]);
        unsigned added[W];
        load_near(added, row_of(rows, scratch, job[3]) + own.near());
#pragma unroll
        for (unsigned i = 0; i < W; i++) v[i] = reduce(v[i] + mul_lazy(p, added[i], factor), 2 * p.q);
    }
    const RowRoots mirrored = own.mirrored(roots, job[0]);
    inverse_near(p, mirrored, v, own.lane);
    near_to_far(v, shared + threadIdx.x / 32 * PADDED, own.lane);
    inverse_far(p, mirrored, v, own.lane);
    unsigned* to = scratch + word_of(job[2] & ~IN_SCRATCH);
#pragma unroll
    for (unsigned i = 0; i < W; i++) to[own.far(i)] = v[i];
}

// The words of a key's row. A key keeps them in the order in which lanes read them: [ROWS][W / QUAD][32][QUAD].
__device__ __forceinline__ void load_key(unsigned (&v)[W], const unsigned* key, Own own) {
#pragma unroll
    for (unsigned i = 0; i < W; i += QUAD) {
        const unsigned at = own.row * ROW + 32 * i + QUAD * own.lane;
        const Words words = *reinterpret_cast<const Words*>(key + at);
#pragma unroll
        for (unsigned k = 0; k < QUAD; k++) v[i + k] = words.word[k];
    }
}

// Finishes the transforms of all digits under one prime and multiplies them by a key. A job is [5]: the prime's index,
// the places of both results in scratch memory, in [0, q), the index of the digits' words in the table, and the number
// of digits. A digit is [3]: the place of its row, whether this row is begun (0) or transformed, in [0, q) (1), and the
// place of the key's rows, [2][N].
extern "C" __global__ void __launch_bounds__(THREADS, 3) ntt_rows_gadget(
    const unsigned* table, unsigned* scratch, const unsigned* primes, const uint2* roots, const unsigned* rows,
    const unsigned* keys) {
    __shared__ unsigned shared[WARPS * PADDED];
    const Own own;
    const unsigned* job = table + 5 * blockIdx.y;
    const Limb p = limb_of(primes, job[0]);
    const RowRoots of_row = own.roots(roots, job[0]);
    unsigned long long sums[2][W] = {};
    const unsigned* digit = table + job[3];
    const unsigned digits = job[4];
    for (unsigned at = 0; at < digits; at++, digit += 3) {
        const unsigned* row = row_of(rows, scratch, digit[0]);
        unsigned v[1][W];
        if (digit[1] != 0) {
            load_near(v[0], row + own.near());
        } else {
            transform(p, of_row, v, row, shared + threadIdx.x / 32 * PADDED, own);
#pragma unroll
            for (unsigned i = 0; i < W; i++) v[0][i] = reduce_all(p, v[0][i]);
        }
        if (at > 0 && at % TOGETHER == 0) {
            fold(p, sums[0]);
            fold(p, sums[1]);
        }
        const unsigned* key = keys + word_of(digit[2]);
#pragma unroll
        for (unsigned c = 0; c < 2; c++) {
            unsigned words[W];
            load_key(words, key + c * N, own);
            add_products(sums[c], v[0], words);
        }
    }
#pragma unroll
    for (unsigned c = 0; c < 2; c++) {
        unsigned v[W];
#pragma unroll
        for (unsigned i = 0; i < W; i++) v[i] = reduce_all(p, montgomery_lazy(p, sums[c][i]));
        store_near(scratch + word_of(job[1 + c] & ~IN_SCRATCH) + own.near(), v);
    }
}

// The value that value `at` becomes under X -> X^g, where `inverse` is 1 / g modulo 2 N:
// kernels/src/cpu/automorphism.rs. The W values of a lane stay together, in another order.
__device__ __forceinline__ unsigned moved(unsigned at, unsigned inverse) {
    const unsigned exponent = 2 * (__brev(at) >> (32 - LOG_N)) + 1;
    return __brev(exponent * inverse % (2 * N) >> 1) >> (32 - LOG_N);
}

// Finishes the transform of a converted quotient and adds up to two rows with factors. A job is [10]: the prime's
// index; the place of the quotient's begun row in scratch memory; two rows, each a place or NO_ROW, and a factor with
// its companion; the place of the result, in [0, q); and 1 / g modulo 2 N, if the result is permuted by X -> X^g, or 1.
extern "C" __global__ void __launch_bounds__(THREADS, GROUPS) ntt_rows_combine(
    const unsigned* table, unsigned* scratch, const unsigned* primes, const uint2* roots, unsigned* rows) {
    __shared__ unsigned shared[WARPS * PADDED];
    const Own own;
    const unsigned* job = table + 10 * blockIdx.y;
    const Limb p = limb_of(primes, job[0]);
    unsigned* exchange = shared + threadIdx.x / 32 * PADDED;
    unsigned v[1][W];
    transform(p, own.roots(roots, job[0]), v, scratch + word_of(job[1] & ~IN_SCRATCH), exchange, own);
#pragma unroll
    for (unsigned i = 0; i < W; i++) v[0][i] = reduce(v[0][i], 2 * p.q);
#pragma unroll
    for (unsigned term = 2; term < 8; term += 3) {
        if (job[term] == NO_ROW) continue;
        const uint2 factor = make_uint2(job[term + 1], job[term + 2]);
        unsigned added[W];
        load_near(added, row_of(rows, scratch, job[term]) + own.near());
#pragma unroll
        for (unsigned i = 0; i < W; i++) v[0][i] = reduce(v[0][i] + mul_lazy(p, added[i], factor), 2 * p.q);
    }
#pragma unroll
    for (unsigned i = 0; i < W; i++) v[0][i] = reduce(v[0][i], p.q);
    unsigned at = own.near();
    const unsigned inverse = job[9];
    if (inverse != 1) {
        unsigned* block = exchange + own.lane * W + (own.lane * W >> 5);
#pragma unroll
        for (unsigned i = 0; i < W; i++) block[moved(at + i, inverse) % W] = v[0][i];
#pragma unroll
        for (unsigned i = 0; i < W; i++) v[0][i] = block[i];
        at = moved(at, inverse) / W * W;
    }
    store_near(row_to(rows, scratch, job[8]) + at, v[0]);
}
