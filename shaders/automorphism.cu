// Sums of rows, each under an automorphism X -> X^g: kernels/src/cpu/automorphism.rs in CUDA.
//
// Groups in x share a row, groups in y are jobs. `table` begins with the jobs, which name rows by their places. Rows
// are in [0, q), and so are results. `primes` is as in `limb`. From the prelude: N, LOG_N, THREADS. Needs `limb`.

// A job is [4]: the prime's index, the place of the result, the index of the terms' words in the table, and the number
// of terms. A term is [2]: the place of its row, and g. With one term and g = 1, the row is copied.
extern "C" __global__ void __launch_bounds__(THREADS) gather(
    const unsigned* table, unsigned* scratch, const unsigned* primes, unsigned* rows) {
    const unsigned* job = table + 4 * blockIdx.y;
    const unsigned q = primes[PRIME_WORDS * job[0]];
    const unsigned at = blockIdx.x * THREADS + threadIdx.x;
    const unsigned exponent = 2 * (__brev(at) >> (32 - LOG_N)) + 1;
    unsigned sum = 0;
    const unsigned* term = table + job[2];
    const unsigned terms = job[3];
    for (unsigned of = 0; of < terms; of++, term += 2) {
        const unsigned from = __brev(exponent * term[1] % (2 * N) >> 1) >> (32 - LOG_N);
        // (1) out <- out + row of the value at the exponent times g
        sum = add_residues(sum, row_of(rows, scratch, term[0])[from], q);
    }
    row_to(rows, scratch, job[1])[at] = sum;
}
