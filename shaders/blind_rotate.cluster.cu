// Blind rotation with low latency: one row spread over (K + 1) LEVELS blocks, for batches that leave most of the card
// idle.
//
// Computes the same words as blind_rotate.cu. Block `rank` = level (K + 1) + component of a row transforms that level's
// digits of that component and shows the values to its partners. After one barrier, each block multiplies all values by
// its component's column of the key and transforms back. All blocks of one component do the same and keep the same
// accumulator, so a second barrier is not needed. Partners are a cluster and read each other's shared memory (CLUSTERS,
// sm_90 and later); or they are blocks of one launch that all run at once, and exchange their values in global memory.
// A block is N/8 threads with 8 words each, in three layouts:
//   far:  word i of thread t is coefficient N/8 i + t. The first three stages; all threads have the same roots.
//   mid:  a warp holds 256 consecutive values; a lane holds 8 values of a block of N/8, N/64 apart. Three stages.
//   near: word i of thread t is value 8 t + i. The last three stages; for N 1024 one more comes before, between lanes.
// The roots of mid and near stay in registers. The key has the order of blind_rotate.warp.cu.
//
// Ranges as in blind_rotate.warp.cu. From the prelude also: CLUSTERS (0 or 1). Needs `modular`, `place`,
// `ntt.registers`, `blind_rotate.async` and `blind_rotate.registers`.

constexpr unsigned COMPONENTS = K + 1;
constexpr unsigned ROWS = LEVELS * COMPONENTS;  // of an RGSW ciphertext: the blocks of a row
constexpr unsigned W = N / 32;
constexpr unsigned T = N / 8;
constexpr bool BETWEEN_LANES = N == 1024;
constexpr unsigned LANES_OF_MID = N / 64;  // lanes that share a block of N/8 values in the mid layout
// Number of products of a value below 2Q and a key word that may be summed before a reduction.
constexpr unsigned TERMS_MAX = 4;

static_assert(N == 512 || N == 1024, "three layouts cover 9 or 10 stages");
static_assert(ROWS <= 8, "a cluster has at most 8 blocks");

struct alignas(16) Quad {
    unsigned word[4];
};

// A thread's roots: for the mid stages, for the stage between lanes, for the near stages; in the order of stages and
// blocks.
struct Roots {
    uint2 mid[7], between, near[7];
};

// Place of a value in shared memory. Four words of padding after every 32 words avoid bank conflicts in all layouts.
__device__ __forceinline__ constexpr unsigned place(unsigned value) { return value + 4 * (value >> 5); }
constexpr unsigned PADDED = N + N / 8;

// First value of this thread's mid words.
__device__ __forceinline__ unsigned mid_first(unsigned t) { return t / LANES_OF_MID * T + t % LANES_OF_MID; }

// Three stages within 8 words; `root` gives the root of a stage and block.
template <typename Of>
__device__ __forceinline__ void stages(unsigned (&v)[8], Of root) {
#pragma unroll
    for (unsigned stage = 0; stage < 3; stage++) {
        const unsigned half = 4 >> stage;
#pragma unroll
        for (unsigned pair = 0; pair < 4; pair++) {
            const unsigned low = pair / half * 2 * half + pair % half;
            butterfly(v[low], v[low + half], root((1u << stage) - 1 + pair / half));
        }
    }
}

// The inverse of `stages`; `root` gives the roots of the mirrored groups, which are minus the inverses.
template <typename Of>
__device__ __forceinline__ void inverse_stages(unsigned (&v)[8], Of root) {
#pragma unroll
    for (unsigned back = 0; back < 3; back++) {
        const unsigned stage = 2 - back, half = 4 >> stage;
#pragma unroll
        for (unsigned pair = 0; pair < 4; pair++) {
            const unsigned low = pair / half * 2 * half + pair % half;
            inverse_butterfly(v[low], v[low + half], root((1u << stage) - 1 + pair / half));
        }
    }
}

// Root of group `group` in the stage with `groups` groups, or the root of the mirrored group.
template <bool MIRRORED>
__device__ __forceinline__ uint2 root_of(const uint2* roots, unsigned groups, unsigned group) {
    return roots[groups + (MIRRORED ? groups - 1 - group : group)];
}

template <bool MIRRORED>
__device__ __forceinline__ Roots roots_of_thread(const uint2* roots, unsigned t) {
    Roots own;
#pragma unroll
    for (unsigned stage = 0; stage < 3; stage++) {
#pragma unroll
        for (unsigned block = 0; block < 1u << stage; block++) {
            const unsigned slot = (1u << stage) - 1 + block;
            own.mid[slot] = root_of<MIRRORED>(roots, 8u << stage, (t / LANES_OF_MID << stage) + block);
            own.near[slot] = root_of<MIRRORED>(roots, T << stage, (t << stage) + block);
        }
    }
    own.between = BETWEEN_LANES ? root_of<MIRRORED>(roots, T / 2, t / 2) : make_uint2(0, 0);
    return own;
}

__device__ __forceinline__ void to_row(unsigned* row, unsigned first, unsigned stride, const unsigned (&v)[8]) {
#pragma unroll
    for (unsigned i = 0; i < 8; i++) row[place(first + stride * i)] = v[i];
}

__device__ __forceinline__ void from_row(const unsigned* row, unsigned first, unsigned stride, unsigned (&v)[8]) {
#pragma unroll
    for (unsigned i = 0; i < 8; i++) v[i] = row[place(first + stride * i)];
}

__device__ __forceinline__ void store_near(unsigned* to, const unsigned (&v)[8], unsigned quads_apart) {
    reinterpret_cast<Quad*>(to)[0] = {v[0], v[1], v[2], v[3]};
    reinterpret_cast<Quad*>(to)[quads_apart] = {v[4], v[5], v[6], v[7]};
}

__device__ __forceinline__ void load_near(const unsigned* from, unsigned (&v)[8]) {
    const Quad low = reinterpret_cast<const Quad*>(from)[0], high = reinterpret_cast<const Quad*>(from)[1];
#pragma unroll
    for (unsigned i = 0; i < 4; i++) v[i] = low.word[i], v[4 + i] = high.word[i];
}

// From far, in [0, 2Q), to near, in [0, 4Q), through `row`; contains one barrier of the block.
__device__ __forceinline__ void forward(unsigned (&v)[8], unsigned* row, const Roots& roots, unsigned t) {
    stages(v, [](unsigned slot) { return uniform_root(slot + 1); });
    to_row(row, t, T, v);
    __syncthreads();
    from_row(row, mid_first(t), LANES_OF_MID, v);
    stages(v, [&](unsigned slot) { return roots.mid[slot]; });
    to_row(row, mid_first(t), LANES_OF_MID, v);
    __syncwarp();
    load_near(row + place(8 * t), v);
    if (BETWEEN_LANES) {
#pragma unroll
        for (unsigned i = 0; i < 8; i++) v[i] = butterfly_of_lanes(v[i], t & 1, 1, roots.between);
    }
    stages(v, [&](unsigned slot) { return roots.near[slot]; });
}

// From near to far, all in [0, 2Q), through `row`; contains one barrier of the block. `roots` are the mirrored ones.
__device__ __forceinline__ void inverse(unsigned (&v)[8], unsigned* row, const Roots& roots, unsigned t) {
    inverse_stages(v, [&](unsigned slot) { return roots.near[slot]; });
    if (BETWEEN_LANES) {
#pragma unroll
        for (unsigned i = 0; i < 8; i++) v[i] = inverse_butterfly_of_lanes(v[i], t & 1, 1, roots.between);
    }
    store_near(row + place(8 * t), v, 1);
    __syncwarp();
    from_row(row, mid_first(t), LANES_OF_MID, v);
    inverse_stages(v, [&](unsigned slot) { return roots.mid[slot]; });
    to_row(row, mid_first(t), LANES_OF_MID, v);
    __syncthreads();
    from_row(row, t, T, v);
    inverse_stages(v, [](unsigned slot) {
        // the mirrored group of the same stage
        return uniform_root(slot == 0 ? 1 : slot < 3 ? 5 - (slot + 1) : 11 - (slot + 1));
    });
}

// Runs all `steps` = n steps, with ROWS blocks a row. `exponents` is [rows][n + 1] in
// [0, 2 N); `accumulators` is [rows][K + 1][N], written, in [0, Q). `table` is [rows][3] from word `table_first` on:
// row, 1, and the place of the row's key in `key`. Without CLUSTERS, `shown` is [rows][2][ROWS][N] words of any
// content and `arrived` is [rows] zeros, and all blocks of the launch must fit on the card at once. With CLUSTERS,
// neither is used.
extern "C" __global__ void __launch_bounds__(T)
    blind_rotate_cluster(const unsigned* key, const uint2* roots, const unsigned* exponents, unsigned* accumulators,
                         unsigned* shown, unsigned* arrived, const unsigned* table, unsigned steps,
                         unsigned table_first) {
    __shared__ Quad row_quads[PADDED / 4];
    __shared__ Quad shown_in_cluster[CLUSTERS ? 2 : 1][CLUSTERS ? N / 4 : 1];
    __shared__ unsigned accumulator[N];
    unsigned* row = row_quads[0].word;
    const unsigned t = threadIdx.x, gate = blockIdx.x / ROWS, rank = blockIdx.x % ROWS;
    const unsigned component = rank % COMPONENTS, level = rank / COMPONENTS;
    Quad* shown_of_row = reinterpret_cast<Quad*>(shown) + (unsigned long long)gate * 2 * ROWS * (N / 4);
    exponents += (unsigned long long)gate * (steps + 1);
    key += word_of(table[table_first + 3 * gate + 2]);
    const Roots forward_roots = roots_of_thread<false>(roots, t), inverse_roots = roots_of_thread<true>(roots, t);

    // acc <- X^-b (0, .., 0, q/8 (1 + X + .. + X^(N-1))), or q/4
    const unsigned b = exponents[steps], amplitude = amplitude_of(b);
#pragma unroll
    for (unsigned i = 0; i < 8; i++) accumulator[T * i + t] = component < K ? 0 : turned(T * i + t, b, amplitude);
    __syncthreads();

    for (unsigned step = 0; step < steps; step++) {
        const unsigned a = exponents[step];
        // this step's column of the key is loaded here, so that it arrives while the digits are transformed
        KeyWords column[COMPONENTS][8];
#pragma unroll
        for (unsigned c = 0; c < COMPONENTS; c++) {
            const unsigned turn = (component + COMPONENTS - c) % COMPONENTS;
            const unsigned long long at = ((unsigned long long)step * COMPONENTS + c) * COMPONENTS + turn;
            const KeyWords* from = reinterpret_cast<const KeyWords*>(key + at * KEY_COLUMN);
            from += 8 * t % W * 32 + 8 * t / W;
#pragma unroll
            for (unsigned i = 0; i < 8; i++) column[c][i] = from[32 * i];
        }
        unsigned v[8];
#pragma unroll
        for (unsigned i = 0; i < 8; i++) v[i] = digit_of(raised_digits(accumulator, T * i + t, a), level);
        // (3) transform the digits
        forward(v, row, forward_roots, t);
#pragma unroll
        for (unsigned i = 0; i < 8; i++) v[i] = reduce(v[i], 2 * Q);
        Quad* values = CLUSTERS ? shown_in_cluster[step % 2] : shown_of_row + step % 2 * ROWS * (N / 4);
        store_near(values[(CLUSTERS ? 0 : rank * (N / 4)) + t].word, v, T);
        if (CLUSTERS) cluster_sync();
        else groups_sync(arrived + gate, ROWS * (step + 1));
        // (4) multiply by the key of step i, sum up
        unsigned sum[8];
#pragma unroll
        for (unsigned quad = 0; quad < 2; quad++) {
#pragma unroll
            for (unsigned first = 0; first < ROWS; first += TERMS_MAX) {
                unsigned long long wide[4] = {0, 0, 0, 0};
#pragma unroll
                for (unsigned r = first; r < ROWS && r < first + TERMS_MAX; r++) {
                    const Quad value =
                        CLUSTERS ? *remote(values + quad * T + t, r) : load_shown(values + r * (N / 4) + quad * T + t);
#pragma unroll
                    for (unsigned i = 0; i < 4; i++)
                        wide[i] += (unsigned long long)value.word[i] *
                                   column[r % COMPONENTS][4 * quad + i].level[r / COMPONENTS];
                }
#pragma unroll
                for (unsigned i = 0; i < 4; i++) {
                    const unsigned part = reduce(montgomery_lazy(wide[i]), 2 * Q);
                    sum[4 * quad + i] = first == 0 ? part : reduce(sum[4 * quad + i] + part, 2 * Q);
                }
            }
        }
        // (5) transform back
        inverse(sum, row, inverse_roots, t);
        // (6) acc <- acc + sum
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            const unsigned j = T * i + t;
            accumulator[j] = add_mod(accumulator[j], reduce(sum[i], Q));
        }
        __syncthreads();
    }
    if (level == 0) {
        unsigned* to = accumulators + ((unsigned long long)gate * COMPONENTS + component) * N;
#pragma unroll
        for (unsigned i = 0; i < 8; i++) to[T * i + t] = accumulator[T * i + t];
    }
    if (CLUSTERS) cluster_sync();  // partners may still read this block's values
}
