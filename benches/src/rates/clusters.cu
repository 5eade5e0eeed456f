// Rounds of a cluster, as in blind_rotate.cluster: 4 KB shown, one barrier, the words of `partners` partners read.
// `out` is [threads of the launch].
extern "C" __global__ void __launch_bounds__(128) cluster_rounds(unsigned* out, unsigned rounds, unsigned partners) {
    __shared__ Quad shown[2][256];
    unsigned sum = 0;
    for (unsigned round = 0; round < rounds; round++) {
        Quad* page = shown[round % 2];
        for (unsigned i = 0; i < 2; i++) page[128 * i + threadIdx.x] = {round, sum, threadIdx.x, i};
        cluster_sync();
        for (unsigned next = 1; next <= partners; next++) {
            const Quad* from = remote(page, (cluster_rank() + next) % 4);
            for (unsigned i = 0; i < 2; i++) sum += from[128 * i + threadIdx.x].word[0] ^ from[128 * i + threadIdx.x].word[2];
        }
    }
    // partners may still read this block's words
    cluster_sync();
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
