// Sums and products of rows, word by word: kernels/src/cpu/pointwise.rs in CUDA.
//
// Groups in x share a row, groups in y are jobs. `table` begins with the jobs, which name rows by their places. Rows
// are in [0, q), and so are results. `primes` is as in `limb`. From the prelude: N, THREADS. Needs `limb`.

// `to` = f a + g b + constant. A job is [9]: the prime's index; the place of the result; two rows, each a place or
// NO_ROW, and a factor with its companion; and the constant, in [0, q).
extern "C" __global__ void __launch_bounds__(THREADS) sums(
    const unsigned* table, unsigned* scratch, const unsigned* primes, unsigned* rows) {
    const unsigned* job = table + 9 * blockIdx.y;
    const Limb p = limb_of(primes, job[0]);
    const unsigned at = blockIdx.x * THREADS + threadIdx.x;
    // (1) sum <- constant + f a + g b
    unsigned sum = job[8];
#pragma unroll
    for (unsigned term = 2; term < 8; term += 3) {
        if (job[term] == NO_ROW) continue;
        const unsigned word = row_of(rows, scratch, job[term])[at];
        sum = reduce(sum + mul_lazy(p, word, make_uint2(job[term + 1], job[term + 2])), 2 * p.q);
    }
    row_to(rows, scratch, job[1])[at] = reduce(sum, p.q);
}

// A sum of products, divided by nothing: the reduction's 2^-32 is made good.
__device__ __forceinline__ unsigned whole(Limb p, unsigned long long sum) {
    return reduce(mul_lazy(p, montgomery_lazy(p, sum), p.unit), p.q);
}

// The sum of tensor products of ciphertexts. A job is [8]: the prime's index; the places of the three results; the
// index of the pairs' words in the table, and the number of pairs; and two rows that are added to the first two
// results, as places or NO_ROW. A pair is [4]: the places of a0, a1, b0 and b1.
extern "C" __global__ void __launch_bounds__(THREADS) products(
    const unsigned* table, unsigned* scratch, const unsigned* primes, unsigned* rows) {
    const unsigned* job = table + 8 * blockIdx.y;
    const Limb p = limb_of(primes, job[0]);
    const unsigned at = blockIdx.x * THREADS + threadIdx.x;
    unsigned long long d0 = 0, d1 = 0, d2 = 0;
    const unsigned* pair = table + job[4];
    const unsigned pairs = job[5];
    for (unsigned of = 0; of < pairs; of++, pair += 4) {
        if (of > 0 && of % (TOGETHER / 2) == 0) {
            d0 = folded(p, d0);
            d1 = folded(p, d1);
            d2 = folded(p, d2);
        }
        const unsigned long long a0 = row_of(rows, scratch, pair[0])[at], a1 = row_of(rows, scratch, pair[1])[at];
        const unsigned long long b0 = row_of(rows, scratch, pair[2])[at], b1 = row_of(rows, scratch, pair[3])[at];
        // (2) (d0, d1, d2) <- (d0 + a0 b0, d1 + a0 b1 + a1 b0, d2 + a1 b1)
        d0 += a0 * b0;
        d1 += a0 * b1 + a1 * b0;
        d2 += a1 * b1;
    }
    unsigned sums[3] = {whole(p, d0), whole(p, d1), whole(p, d2)};
#pragma unroll
    for (unsigned c = 0; c < 2; c++) {
        if (job[6 + c] != NO_ROW) sums[c] = reduce(sums[c] + row_of(rows, scratch, job[6 + c])[at], p.q);
    }
#pragma unroll
    for (unsigned c = 0; c < 3; c++) row_to(rows, scratch, job[1 + c])[at] = sums[c];
}

// The sum of both polynomials of ciphertexts, each times a plaintext. A job is [5]: the prime's index; the places of
// the two results; the index of the terms' words in the table, and the number of terms. A term is [3]: the places of
// the plaintext's row and of the ciphertext's rows.
extern "C" __global__ void __launch_bounds__(THREADS) weighted_sum(
    const unsigned* table, unsigned* scratch, const unsigned* primes, unsigned* rows) {
    const unsigned* job = table + 5 * blockIdx.y;
    const Limb p = limb_of(primes, job[0]);
    const unsigned at = blockIdx.x * THREADS + threadIdx.x;
    unsigned long long sums[2] = {};
    const unsigned* term = table + job[3];
    const unsigned terms = job[4];
    for (unsigned of = 0; of < terms; of++, term += 3) {
        const unsigned plain = row_of(rows, scratch, term[0])[at];
#pragma unroll
        for (unsigned c = 0; c < 2; c++) {
            if (of > 0 && of % TOGETHER == 0) sums[c] = folded(p, sums[c]);
            // (3) sum_c <- sum_c + plain x_c
            sums[c] += (unsigned long long)plain * row_of(rows, scratch, term[1 + c])[at];
        }
    }
#pragma unroll
    for (unsigned c = 0; c < 2; c++) row_to(rows, scratch, job[1 + c])[at] = whole(p, sums[c]);
}
