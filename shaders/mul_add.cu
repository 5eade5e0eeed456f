// Products of residues, word by word, added to sums, with one prime for each limb: kernels/src/cpu/mul_add.rs in CUDA.

// `sums` and `x` are [batch][limbs][N] words in [0, q); `y` is [limbs][N], times 2^32; `primes` is [limbs][2]: q and
// its inverse modulo 2^32. Groups in x share a row, groups in y are the limbs, groups in z take the items of the batch
// one after another.
extern "C" __global__ void __launch_bounds__(THREADS) mul_add(
    unsigned* sums, const unsigned* x, const unsigned* y, const unsigned* primes, unsigned batch) {
    const unsigned at = blockIdx.x * THREADS + threadIdx.x, limb = blockIdx.y;
    if (at >= N) return;
    const unsigned q = primes[2 * limb], q_inverse = primes[2 * limb + 1], factor = y[limb * N + at];
    for (unsigned of = blockIdx.z; of < batch; of += gridDim.z) {
        const unsigned long long word = ((unsigned long long)of * gridDim.y + limb) * N + at;
        // (1) sum <- sum + x y / 2^32 modulo the limb's prime
        sums[word] = add_residues(sums[word], mul_residues(x[word], factor, q, q_inverse), q);
    }
}
