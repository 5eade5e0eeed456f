// Products of residues, word by word, added to sums, with one prime for each limb: kernels/src/cpu/mul_add.rs in WGSL.

struct MulAddArgs {
    batch: u32,
}

@group(0) @binding(0) var<storage, read_write> sums: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read> y: array<u32>;
@group(0) @binding(3) var<storage, read> primes: array<u32>;
@group(0) @binding(4) var<uniform> args: MulAddArgs;

// `sums` and `x` are [batch][limbs][N] words in [0, q); `y` is [limbs][N], times 2^32; `primes` is [limbs][2]: q and
// its inverse modulo 2^32. Groups in x share a row, groups in y are the limbs, groups in z take the items of the batch
// one after another.
@compute @workgroup_size(THREADS)
fn mul_add(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let limb = group.y;
    if (id.x >= N) {
        return;
    }
    let q = primes[2u * limb];
    let q_inverse = primes[2u * limb + 1u];
    let factor = y[limb * N + id.x];
    for (var of_batch = group.z; of_batch < args.batch; of_batch += groups.z) {
        let word = (of_batch * groups.y + limb) * N + id.x;
        // (1) sum <- sum + x y / 2^32 modulo the limb's prime
        sums[word] = add_residues(sums[word], mul_residues(x[word], factor, q, q_inverse), q);
    }
}
