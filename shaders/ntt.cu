// The number-theoretic transform of one row in shared memory: kernels/src/ring.rs, with four words of a thread at a
// time.
//
// Transforms coefficients in natural order to values in bit-reversed order, and back. A pass computes two stages. A
// thread's four words stay in registers during a pass, and a barrier separates passes. If LOG_N is odd, the last stage
// runs alone. `roots` is [2][N]: first the roots of the transform, then those of its inverse, each a value and its
// companion.

// Values in [0, 4 q), in and out.
__device__ inline void butterfly(unsigned& x, unsigned& y, uint2 w) {
    // (1) butterfly: (x, y) <- (x + w y, x - w y)
    unsigned low = reduce(x, 2 * Q);
    unsigned t = mul_lazy(y, w);
    x = low + t;
    y = low + 2 * Q - t;
}

// Values in [0, 2 q), in and out.
__device__ inline void inverse_butterfly(unsigned& x, unsigned& y, uint2 w) {
    // (2) inverse butterfly: (x, y) <- (x + y, w (x - y))
    unsigned difference = x + 2 * Q - y;
    x = reduce(x + y, 2 * Q);
    y = mul_lazy(difference, w);
}

// Transforms [N] words of shared memory in place, by THREADS threads. Input and output are in [0, 4 q). Begins and
// ends with a barrier.
__device__ inline void ntt_forward_lazy(unsigned* row, const uint2* roots) {
    // the loop over passes is unrolled, so that the divisions below become shifts
#pragma unroll
    for (unsigned groups = 1; groups <= N / 4; groups *= 4) {
        __syncthreads();
        unsigned quarter = N / 4 / groups;
        for (unsigned at = threadIdx.x; at < N / 4; at += THREADS) {
            unsigned group = at / quarter;
            unsigned* v = row + 4 * quarter * group + at % quarter;
            unsigned v0 = v[0], v1 = v[quarter], v2 = v[2 * quarter], v3 = v[3 * quarter];
            uint2 w = roots[groups + group], low = roots[2 * (groups + group)], high = roots[2 * (groups + group) + 1];
            butterfly(v0, v2, w);
            butterfly(v1, v3, w);
            butterfly(v0, v1, low);
            butterfly(v2, v3, high);
            v[0] = v0;
            v[quarter] = v1;
            v[2 * quarter] = v2;
            v[3 * quarter] = v3;
        }
    }
    __syncthreads();
    if (LOG_N % 2 == 1) {
        for (unsigned at = threadIdx.x; at < N / 2; at += THREADS) {
            butterfly(row[2 * at], row[2 * at + 1], roots[N / 2 + at]);
        }
        __syncthreads();
    }
}

// The inverse, times N: [N] words of shared memory in place, by THREADS threads. Input and output are in [0, 2 q).
// Begins and ends with a barrier.
__device__ inline void ntt_inverse_lazy(unsigned* row, const uint2* roots) {
    const uint2* inverse_roots = roots + N;
    __syncthreads();
    if (LOG_N % 2 == 1) {
        for (unsigned at = threadIdx.x; at < N / 2; at += THREADS) {
            inverse_butterfly(row[2 * at], row[2 * at + 1], inverse_roots[N / 2 + at]);
        }
        __syncthreads();
    }
#pragma unroll
    for (unsigned groups = LOG_N % 2 == 1 ? N / 8 : N / 4; groups > 0; groups /= 4) {
        unsigned quarter = N / 4 / groups;
        for (unsigned at = threadIdx.x; at < N / 4; at += THREADS) {
            unsigned group = at / quarter;
            unsigned* v = row + 4 * quarter * group + at % quarter;
            unsigned v0 = v[0], v1 = v[quarter], v2 = v[2 * quarter], v3 = v[3 * quarter];
            uint2 w = inverse_roots[groups + group];
            uint2 low = inverse_roots[2 * (groups + group)], high = inverse_roots[2 * (groups + group) + 1];
            inverse_butterfly(v0, v1, low);
            inverse_butterfly(v2, v3, high);
            inverse_butterfly(v0, v2, w);
            inverse_butterfly(v1, v3, w);
            v[0] = v0;
            v[quarter] = v1;
            v[2 * quarter] = v2;
            v[3 * quarter] = v3;
        }
        __syncthreads();
    }
}

// `rows_data` is [rows][N] words in [0, q), transformed in place; results are in [0, q). A group takes row after row.
extern "C" __global__ void __launch_bounds__(THREADS) ntt_forward(
    unsigned* rows_data, const uint2* roots, unsigned rows) {
    __shared__ unsigned row[N];
    for (unsigned at = blockIdx.x; at < rows; at += gridDim.x) {
        for (unsigned i = threadIdx.x; i < N; i += THREADS) row[i] = rows_data[at * N + i];
        ntt_forward_lazy(row, roots);
        for (unsigned i = threadIdx.x; i < N; i += THREADS) rows_data[at * N + i] = reduce(reduce(row[i], 2 * Q), Q);
    }
}

// The inverse of `ntt_forward`, times N, with the same arguments.
extern "C" __global__ void __launch_bounds__(THREADS) ntt_inverse(
    unsigned* rows_data, const uint2* roots, unsigned rows) {
    __shared__ unsigned row[N];
    for (unsigned at = blockIdx.x; at < rows; at += gridDim.x) {
        for (unsigned i = threadIdx.x; i < N; i += THREADS) row[i] = rows_data[at * N + i];
        ntt_inverse_lazy(row, roots);
        for (unsigned i = threadIdx.x; i < N; i += THREADS) rows_data[at * N + i] = reduce(row[i], Q);
    }
}

// `ntt_forward`, then every value times 2^32 / N. A blind rotation's product needs this factor in its key, because
// Montgomery's reduction divides by 2^32 and `ntt_inverse_lazy` multiplies by N.
extern "C" __global__ void __launch_bounds__(THREADS) ntt_key(unsigned* rows_data, const uint2* roots, unsigned rows) {
    __shared__ unsigned row[N];
    uint2 factor = make_uint2(KEY_FACTOR, KEY_FACTOR_COMPANION);
    for (unsigned at = blockIdx.x; at < rows; at += gridDim.x) {
        for (unsigned i = threadIdx.x; i < N; i += THREADS) row[i] = rows_data[at * N + i];
        ntt_forward_lazy(row, roots);
        for (unsigned i = threadIdx.x; i < N; i += THREADS) rows_data[at * N + i] = reduce(mul_lazy(row[i], factor), Q);
    }
}
