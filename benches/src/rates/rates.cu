// The throughput of single instructions. Every entry is a loop of independent instructions of one kind, enough to keep
// a multiprocessor busy. A thread does OPERATIONS of them in a round. The result is written, so that the compiler
// cannot remove them.

struct alignas(16) Quad {
    unsigned word[4];
};

constexpr unsigned CHAINS = 8;
constexpr unsigned OPERATIONS = 128;

// `out` is [threads of the launch].
template <class T, class Step>
__device__ __forceinline__ void repeat(unsigned* out, unsigned rounds, Step step) {
    T v[CHAINS];
#pragma unroll
    for (unsigned i = 0; i < CHAINS; i++) v[i] = T(threadIdx.x + 3 * i + 1);
    for (unsigned round = 0; round < rounds; round++) {
#pragma unroll
        for (unsigned turn = 0; turn < OPERATIONS / CHAINS; turn++) {
#pragma unroll
            for (unsigned i = 0; i < CHAINS; i++) v[i] = step(v[i]);
        }
    }
    T sum = v[0];
#pragma unroll
    for (unsigned i = 1; i < CHAINS; i++) sum = sum + v[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = unsigned((unsigned long long)sum);
}

// IMAD
extern "C" __global__ void __launch_bounds__(256)
    rate_multiply(unsigned* out, unsigned rounds, unsigned x, unsigned y) {
    repeat<unsigned>(out, rounds, [=](unsigned v) { return v * x + y; });
}

// IMAD.HI
extern "C" __global__ void __launch_bounds__(256)
    rate_multiply_high(unsigned* out, unsigned rounds, unsigned x, unsigned y) {
    repeat<unsigned>(out, rounds, [=](unsigned v) { return __umulhi(v, x) + y; });
}

// IMAD.WIDE
extern "C" __global__ void __launch_bounds__(256)
    rate_multiply_wide(unsigned* out, unsigned rounds, unsigned x, unsigned) {
    repeat<unsigned long long>(out, rounds, [=](unsigned long long v) { return v + (unsigned long long)unsigned(v) * x; });
}

// SHF
extern "C" __global__ void __launch_bounds__(256)
    rate_shift(unsigned* out, unsigned rounds, unsigned x, unsigned) {
    repeat<unsigned>(out, rounds, [=](unsigned v) { return v >> x; });
}

// VIADDMNMX, if the card has it: a reduction
extern "C" __global__ void __launch_bounds__(256)
    rate_reduce(unsigned* out, unsigned rounds, unsigned x, unsigned) {
    repeat<unsigned>(out, rounds, [=](unsigned v) { return min(v, v - x); });
}

// DFMA
extern "C" __global__ void __launch_bounds__(256)
    rate_double(unsigned* out, unsigned rounds, unsigned x, unsigned y) {
    const double factor = 1.0 / (2.0 + x), more = y;
    repeat<double>(out, rounds, [=](double v) { return v * factor + more; });
}

// LDS.64 without bank conflicts; a thread reads all words of its lane
extern "C" __global__ void __launch_bounds__(256) rate_load_shared(unsigned* out, unsigned rounds, unsigned x, unsigned) {
    __shared__ uint2 words[OPERATIONS][32];
    for (unsigned at = threadIdx.x; at < OPERATIONS * 32; at += blockDim.x) words[at / 32][at % 32] = make_uint2(at, x);
    const unsigned lane = threadIdx.x % 32;
    unsigned sum = 0;
    for (unsigned round = 0; round < rounds; round++) {
        // the barrier makes the compiler assume that the words have changed
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < OPERATIONS; i++) sum += words[i][lane].x ^ words[i][lane].y;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Reads `words` words, whole quads, `rounds` times, bypassing the multiprocessors' own caches: from the L2 cache if
// they fit there.
extern "C" __global__ void __launch_bounds__(256)
    rate_l2(const Quad* from, unsigned* out, unsigned rounds, unsigned words) {
    unsigned sum = 0;
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < words / 4; at += gridDim.x * blockDim.x) {
            const Quad quad = load_shown(from + at);
            sum += quad.word[0] ^ quad.word[1] ^ quad.word[2] ^ quad.word[3];
        }
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
