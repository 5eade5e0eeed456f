// The rounds of groups.cu through the shared memory of a cluster. The barrier orders all memory if `all`, else shared
// memory only.
extern "C" __global__ void __launch_bounds__(128)
    cluster_rounds(unsigned* out, unsigned rounds, unsigned partners, unsigned all) {
    __shared__ Quad shown[2][QUADS];
    unsigned errors = 0;
    for (unsigned round = 0; round < rounds; round++) {
        Quad* page = shown[round % 2];
        show(page, round);
        if (all) cluster_sync_all();
        else cluster_sync();
        for (unsigned next = 1; next <= partners; next++) {
            const Quad* from = remote(page, (cluster_rank() + next) % GROUPS);
            for (unsigned at = threadIdx.x; at < QUADS; at += 128) errors += wrong(from[at], round, at);
        }
    }
    // partners may still read this block's words
    cluster_sync();
    out[blockIdx.x * blockDim.x + threadIdx.x] = errors;
}
