// Rounds of groups that exchange words, as in blind_rotate.cluster: each of the 4 groups of a row shows 4 KB, waits for
// its partners, and reads the words of `partners` of them. `out` is [threads of the launch], the number of words that
// differ from the words that the partner wrote in this round.

constexpr unsigned GROUPS = 4;
constexpr unsigned QUADS = 256;

__device__ __forceinline__ void show(Quad* page, unsigned round) {
    for (unsigned at = threadIdx.x; at < QUADS; at += 128) page[at] = {round, at, round ^ at, round + at};
}

__device__ __forceinline__ unsigned wrong(const Quad& quad, unsigned round, unsigned at) {
    return (quad.word[0] != round) + (quad.word[1] != at) + (quad.word[2] != (round ^ at)) + (quad.word[3] != round + at);
}

// groups_sync in another form: one thread polls, and the other threads of the group wait for it.
#ifdef __CUDA_ARCH__
__device__ inline void groups_sync_one_polls(unsigned* arrived, unsigned expected) {
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
        unsigned seen;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
        } while (seen < expected);
    }
    __syncthreads();
}
#else
inline void groups_sync_one_polls(unsigned* arrived, unsigned expected, unsigned line = __builtin_LINE()) {
    groups_sync(arrived, expected, line);
}
#endif

// Through global memory, with the other form if `one_polls`. `shown` is [rows][2][4][1024], `arrived` is [rows] zeros.
extern "C" __global__ void __launch_bounds__(128)
    group_rounds(unsigned* out, Quad* shown, unsigned* arrived, unsigned rounds, unsigned partners,
                 unsigned one_polls) {
    const unsigned row = blockIdx.x / GROUPS, rank = blockIdx.x % GROUPS;
    unsigned errors = 0;
    for (unsigned round = 0; round < rounds; round++) {
        Quad* page = shown + (2 * row + round % 2) * GROUPS * QUADS;
        show(page + rank * QUADS, round);
        if (one_polls) groups_sync_one_polls(arrived + row, GROUPS * (round + 1));
        else groups_sync(arrived + row, GROUPS * (round + 1));
        for (unsigned next = 1; next <= partners; next++) {
            const Quad* from = page + (rank + next) % GROUPS * QUADS;
            for (unsigned at = threadIdx.x; at < QUADS; at += 128) errors += wrong(load_shown(from + at), round, at);
        }
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = errors;
}
