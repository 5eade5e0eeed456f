// Sums of rows, each under an automorphism X -> X^g: kernels/src/cpu/automorphism.rs in WGSL.
//
// Groups in x share a row, groups in y are jobs. `table` begins with the jobs, which name rows by their places. Rows
// are in [0, q), and so are results. `primes` is as in `limb`. From the prelude: N, LOG_N, THREADS. Needs `limb`.

@group(0) @binding(0) var<storage, read> table: array<u32>;
@group(0) @binding(1) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(2) var<storage, read> primes: array<u32>;
@group(0) @binding(3) var<storage, read_write> rows: array<u32>;

// A job is [4]: the prime's index, the place of the result, the index of the terms' words in the table, and the number
// of terms. A term is [2]: the place of its row, and g. With one term and g = 1, the row is copied.
@compute @workgroup_size(THREADS)
fn gather(@builtin(global_invocation_id) id: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>) {
    let job = 4u * group.y;
    let q = primes[PRIME_WORDS * table[job]];
    let exponent = 2u * (reverseBits(id.x) >> (32u - LOG_N)) + 1u;
    var sum = 0u;
    let first_term = table[job + 2u];
    let terms = table[job + 3u];
    for (var of_term = 0u; of_term < terms; of_term++) {
        let term = first_term + 2u * of_term;
        let from_value = reverseBits(exponent * table[term + 1u] % (2u * N) >> 1u) >> (32u - LOG_N);
        // (1) out <- out + row of the value at the exponent times g
        sum = add_residues(sum, load(table[term], from_value), q);
    }
    store(table[job + 1u], id.x, sum);
}
