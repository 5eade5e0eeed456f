// Blind rotation with high throughput: all n steps in one launch, a transform in the registers of one warp (sm_80 and
// later).
//
// Computes the same words as blind_rotate.cu. A block has GATES rows that run in lock step, with a warp for each of
// their K + 1 polynomials. A step's key is copied to shared memory while earlier steps are computed, and all rows read
// it there.
// A lane holds W = N/32 words of a polynomial, in one of the two layouts of `ntt.registers`: far, where all lanes have
// the same roots, which are constants of the source, or near, where roots differ by lane. The key is stored in the near
// layout.
//
// Ranges: Q < 2^30. Digits and sums enter a transform in [0, 2Q); a butterfly's words stay in [0, 4Q).
// From the prelude also: GATES, TILES (steps whose key is in shared memory: 1 or 2), GROUPS (of a multiprocessor), and
// SLOTS (partial sums that a warp passes to other warps at a time: K, or 1, which takes less shared memory). Needs
// `modular`, `place`, `ntt.registers`, `blind_rotate.async` and `blind_rotate.registers`.

constexpr unsigned W = N / 32;
constexpr unsigned COMPONENTS = K + 1;
constexpr unsigned WARPS = GATES * COMPONENTS;
constexpr unsigned ROW_THREADS = 32 * COMPONENTS;

constexpr unsigned TILE = COMPONENTS * COMPONENTS * KEY_COLUMN;  // words of a step's key

// Memory of a warp: its transposes, and later its partial sums for other columns.
constexpr unsigned PADDED = N + N / 32;
constexpr unsigned OWN = ((PADDED > SLOTS * N ? PADDED : SLOTS * N) + 31) & ~31u;
constexpr unsigned ACCUMULATOR = COMPONENTS * N;

// Layout of a block's shared memory, in words. kernels/src/tfhe/gpu/blind_rotate/registers.rs computes the same end.
constexpr unsigned AT_KEY = 0;
constexpr unsigned AT_ROOTS = AT_KEY + TILES * TILE;
constexpr unsigned AT_ACCUMULATORS = AT_ROOTS + 2 * 32 * W;
constexpr unsigned AT_OWN = AT_ACCUMULATORS + GATES * ACCUMULATOR;

static_assert(N == 512 || N == 1024, "a lane holds 16 or 32 words");
static_assert(SLOTS > 0 && K % SLOTS == 0, "all slots are used each time");
static_assert(LEVELS * W <= 64 && LEVELS <= 3, "the digits of all levels stay in registers, their sum in 64 bits");

// The roots of both layouts: those of the far stages are constants, the others are in shared memory, [W][32], slot
// 2^stage - 1 + block.
struct WarpRoots {
    const uint2* of_lanes;

    __device__ __forceinline__ uint2 far(unsigned stage, unsigned group) const {
        return uniform_root((1u << stage) + group);
    }
    __device__ __forceinline__ uint2 near(unsigned stage, unsigned lane, unsigned block) const {
        return of_lanes[((1u << stage) - 1 + block) * 32 + lane];
    }
};

// Roots of the near stages in the order in which lanes read them, from the plain table [N] of value and companion.
__device__ __forceinline__ void lane_roots(uint2* to, const uint2* roots) {
    for (unsigned at = threadIdx.x; at < 32 * (W - 1); at += blockDim.x) {
        const unsigned slot = at / 32, lane = at % 32;
        unsigned stage = 0;
        while (slot + 1 >= 2u << stage) stage++;
        const unsigned block = slot + 1 - (1u << stage);
        to[at] = roots[(32u << stage) + (lane << stage) + block];
    }
}

// Transforms a key from coefficients, from step `first` on. `coefficients` is [steps][LEVELS][component][column][N],
// in [0, Q); `key` is [n][TILE], values in the near layout times 2^32/N. Each warp transforms a polynomial, and a
// block has as many warps as the launch sets. Shared memory: the roots, then PADDED words for each warp.
extern "C" __global__ void blind_rotate_warp_key(const unsigned* coefficients, const uint2* roots, unsigned* key,
                                                 unsigned polynomials, unsigned first) {
    DYNAMIC_SHARED(unsigned, shared);
    uint2* near_roots = reinterpret_cast<uint2*>(shared);
    lane_roots(near_roots, roots);
    __syncthreads();
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned polynomial = blockIdx.x * (blockDim.x / 32) + warp;
    if (polynomial >= polynomials) return;
    unsigned* own = shared + 2 * 32 * W + warp * PADDED;
    const WarpRoots warp_roots = {near_roots};
    const unsigned* from = coefficients + (unsigned long long)polynomial * N;
    unsigned v[1][W];
#pragma unroll
    for (unsigned i = 0; i < W; i++) v[0][i] = from[32 * i + lane];
    forward_far(RingPrime(), warp_roots, v[0], lane);
    far_to_near(v[0], own, lane);
    forward_near(RingPrime(), warp_roots, v, lane);
    const unsigned step = first + polynomial / (LEVELS * COMPONENTS * COMPONENTS), column = polynomial % COMPONENTS;
    const unsigned component = polynomial / COMPONENTS % COMPONENTS;
    const unsigned level = polynomial / (COMPONENTS * COMPONENTS) % LEVELS;
    const unsigned turn = (column + COMPONENTS - component) % COMPONENTS;
    unsigned* to = key + (unsigned long long)step * TILE + (component * COMPONENTS + turn) * KEY_COLUMN;
    to += lane * LEVELS + level;
#pragma unroll
    for (unsigned i = 0; i < W; i++)
        to[i * 32 * LEVELS] = reduce(mul_lazy(v[0][i], make_uint2(KEY_FACTOR, KEY_FACTOR_COMPANION)), Q);
}

// Copies a step's key to shared memory; every thread waits for its own part.
__device__ __forceinline__ void copy_tile(unsigned* to, const unsigned* from) {
    for (unsigned at = 4 * threadIdx.x; at < TILE; at += 4 * 32 * WARPS) copy_async16(to + at, from + at);
}

// Multiplies digits by their key, for the columns that are `first` to `first` + SLOTS - 1 columns after the warp's own:
// partial sums in [0, 2Q), written to `own`, [SLOTS][N]. The first call also sets `sum`, of the warp's own column.
__device__ __forceinline__ void multiply(unsigned (&sum)[W], const unsigned (&v)[LEVELS][W], const KeyWords* column,
                                         unsigned* own, unsigned first, unsigned lane) {
#pragma unroll
    for (unsigned i = 0; i < W; i++) {
#pragma unroll
        for (unsigned turn = first == 1 ? 0 : first; turn < first + SLOTS; turn++) {
            const KeyWords word = column[(turn * W + i) * 32];
            unsigned long long wide = 0;
#pragma unroll
            for (unsigned level = 0; level < LEVELS; level++)
                wide += (unsigned long long)v[level][i] * word.level[level];
            const unsigned part = reduce(montgomery_lazy(wide), 2 * Q);
            if (turn == 0) sum[i] = part;
            else own[(turn - first) * N + 32 * i + lane] = part;
        }
    }
}

// Adds the partial sums that the same turns of the other warps of a row gave for this column. `slots` are those of the
// row's first warp.
__device__ __forceinline__ void add_partial_sums(unsigned (&sum)[W], const unsigned* slots, unsigned first,
                                                 unsigned component, unsigned lane) {
#pragma unroll
    for (unsigned turn = first; turn < first + SLOTS; turn++) {
        const unsigned from = (component + COMPONENTS - turn) % COMPONENTS;
        const unsigned* partial = slots + from * OWN + (turn - first) * N + lane;
#pragma unroll
        for (unsigned i = 0; i < W; i++) sum[i] = reduce(sum[i] + partial[32 * i], 2 * Q);
    }
}

// Runs all `steps` = n steps. `exponents` is [rows][n + 1] in [0, 2N); `accumulators` is [rows][K + 1][N], written, in
// [0, Q). `table` is [groups][3] from word `table_first` on: a group's first row, its number of rows (at most GATES,
// all of one key), and the place of their key in `key`. n is not a constant, so that presets of one ring share a
// compilation. A multiprocessor runs GROUPS groups at once. The launch bounds say so, because the compiler would
// otherwise leave registers to more groups, and spill; groups of more than 256 threads spill if they say so, with K 1.
extern "C" __global__ void __launch_bounds__(32 * WARPS, K == 2 || 32 * WARPS <= 256 ? GROUPS : 0)
    blind_rotate_warp(const unsigned* key, const uint2* roots, const unsigned* exponents, unsigned* accumulators,
                      const unsigned* table, unsigned steps, unsigned table_first) {
    DYNAMIC_SHARED(unsigned, shared);
    unsigned* tiles = shared + AT_KEY;
    uint2* near_roots = reinterpret_cast<uint2*>(shared + AT_ROOTS);
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned gate = warp / COMPONENTS, component = warp % COMPONENTS;
    const unsigned* share = table + table_first + 3 * blockIdx.x;
    // a block with fewer rows than GATES repeats its last row
    const unsigned row = share[0] + min(gate, share[1] - 1);
    // a sum of integers, because the compiler would otherwise keep both terms of the pointer in registers, and spill
    key = reinterpret_cast<const unsigned*>(reinterpret_cast<unsigned long long>(key) + 4 * word_of(share[2]));
    unsigned* accumulator = shared + AT_ACCUMULATORS + gate * ACCUMULATOR + component * N;
    unsigned* own = shared + AT_OWN + warp * OWN;
    const WarpRoots warp_roots = {near_roots};
    exponents += (unsigned long long)row * (steps + 1);

    if (steps > 0) copy_tile(tiles, key);
    copy_async_commit();
    lane_roots(near_roots, roots);
    // acc <- X^-b (0, .., 0, q/8 (1 + X + .. + X^(N-1))), or q/4
    const unsigned b = exponents[steps], amplitude = amplitude_of(b);
#pragma unroll
    for (unsigned i = 0; i < W; i++) {
        const unsigned j = 32 * i + lane;
        accumulator[j] = component < K ? 0 : turned(j, b, amplitude);
    }
    __syncthreads();

    unsigned a = exponents[0];
    for (unsigned step = 0; step < steps; step++) {
        const unsigned next_a = exponents[step + 1];
        unsigned v[LEVELS][W];
#pragma unroll
        for (unsigned i = 0; i < W; i++) {
            const unsigned raised = raised_digits(accumulator, 32 * i + lane, a);
#pragma unroll
            for (unsigned level = 0; level < LEVELS; level++) v[level][i] = digit_of(raised, level);
        }
        // (3) transform the digits
#pragma unroll
        for (unsigned level = 0; level < LEVELS; level++) {
            forward_far(RingPrime(), warp_roots, v[level], lane);
            far_to_near(v[level], own, lane);
        }
        forward_near(RingPrime(), warp_roots, v, lane);
        __syncwarp();
        copy_async_wait<0>();
        // this step's key has arrived; with two tiles, no thread reads the last step's key any more
        __syncthreads();
        // (4) multiply by the key of step i, sum up
        const unsigned* tile = tiles + step % TILES * TILE;
        const KeyWords* column = reinterpret_cast<const KeyWords*>(tile + component * COMPONENTS * KEY_COLUMN) + lane;
        unsigned sum[W];
        multiply(sum, v, column, own, 1, lane);
        const unsigned* row_slots = own - component * OWN;
        // the turns but the last ones, if the slots do not hold those of all turns
#pragma unroll
        for (unsigned first = 1; first + SLOTS < COMPONENTS; first += SLOTS) {
            part_sync<ROW_THREADS>();  // the row has filled its slots
            add_partial_sums(sum, row_slots, first, component, lane);
            part_sync<ROW_THREADS>();  // the row has read its slots
            multiply(sum, v, column, own, first + SLOTS, lane);
        }
        // the row has filled its slots for the last time; with one tile, no thread reads this step's key any more
        if (TILES == 2) part_sync<ROW_THREADS>();
        else __syncthreads();
        const unsigned next = step + 1;
        if (next < steps) copy_tile(tiles + next % TILES * TILE, key + next * (unsigned long long)TILE);
        copy_async_commit();
        add_partial_sums(sum, row_slots, COMPONENTS - SLOTS, component, lane);
        part_sync<ROW_THREADS>();  // all partial sums of the row are read
        // (5) transform back
        inverse_near(RingPrime(), warp_roots, sum, lane);
        near_to_far(sum, own, lane);
        inverse_far(RingPrime(), warp_roots, sum, lane);
        // (6) acc <- acc + sum
#pragma unroll
        for (unsigned i = 0; i < W; i++) {
            const unsigned j = 32 * i + lane;
            accumulator[j] = add_mod(accumulator[j], reduce(sum[i], Q));
        }
        __syncwarp();
        a = next_a;
    }
    const unsigned of_share = part_of_thread<ROW_THREADS>();
    if (of_share < load_again(share + 1)) {
        unsigned* to = accumulators + (unsigned long long)(load_again(share) + of_share) * ACCUMULATOR + component * N;
#pragma unroll
        for (unsigned i = 0; i < W; i++) to[32 * i + lane] = accumulator[32 * i + lane];
    }
}
