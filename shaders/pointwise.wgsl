// Sums and products of rows, word by word: kernels/src/cpu/pointwise.rs in WGSL.
//
// Groups in x share a row, groups in y are jobs. `table` begins with the jobs, which name rows by their places. Rows
// are in [0, q), and so are results. `primes` is as in `limb`. From the prelude: N, THREADS. Needs `limb`.

@group(0) @binding(0) var<storage, read> table: array<u32>;
@group(0) @binding(1) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(2) var<storage, read> primes: array<u32>;
@group(0) @binding(3) var<storage, read_write> rows: array<u32>;

// `to` = f a + g b + constant. A job is [9]: the prime's index; the place of the result; two rows, each a place or
// NO_ROW, and a factor with its companion; and the constant, in [0, q).
@compute @workgroup_size(THREADS)
fn sums(@builtin(global_invocation_id) id: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>) {
    let job = 9u * group.y;
    let p = limb_of(table[job]);
    // (1) sum <- constant + f a + g b
    var sum = table[job + 8u];
    for (var term = job + 2u; term < job + 8u; term += 3u) {
        if (table[term] != NO_ROW) {
            let factor = vec2<u32>(table[term + 1u], table[term + 2u]);
            sum = reduce(sum + mul_lazy(p, load(table[term], id.x), factor), 2u * p.q);
        }
    }
    store(table[job + 1u], id.x, reduce(sum, p.q));
}

// A sum of products that were divided by 2^32, times 2^32.
fn whole(p: Limb, sum: u32) -> u32 {
    return reduce(mul_lazy(p, sum, p.unit), p.q);
}

// The sum of tensor products of ciphertexts. A job is [8]: the prime's index; the places of the three results; the
// index of the pairs' words in the table, and the number of pairs; and two rows that are added to the first two
// results, as places or NO_ROW. A pair is [4]: the places of a0, a1, b0 and b1.
@compute @workgroup_size(THREADS)
fn products(@builtin(global_invocation_id) id: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>) {
    let job = 8u * group.y;
    let p = limb_of(table[job]);
    var d0 = 0u;
    var d1 = 0u;
    var d2 = 0u;
    let first_pair = table[job + 4u];
    let pairs = table[job + 5u];
    for (var of_pair = 0u; of_pair < pairs; of_pair++) {
        let pair = first_pair + 4u * of_pair;
        let a0 = load(table[pair], id.x);
        let a1 = load(table[pair + 1u], id.x);
        let b0 = load(table[pair + 2u], id.x);
        let b1 = load(table[pair + 3u], id.x);
        // (2) (d0, d1, d2) <- (d0 + a0 b0, d1 + a0 b1 + a1 b0, d2 + a1 b1)
        d0 = add_residues(d0, mul_montgomery(p, a0, b0), p.q);
        d1 = add_residues(d1, mul_montgomery(p, a0, b1), p.q);
        d1 = add_residues(d1, mul_montgomery(p, a1, b0), p.q);
        d2 = add_residues(d2, mul_montgomery(p, a1, b1), p.q);
    }
    d0 = whole(p, d0);
    d1 = whole(p, d1);
    if (table[job + 6u] != NO_ROW) {
        d0 = add_residues(d0, load(table[job + 6u], id.x), p.q);
        d1 = add_residues(d1, load(table[job + 7u], id.x), p.q);
    }
    store(table[job + 1u], id.x, d0);
    store(table[job + 2u], id.x, d1);
    store(table[job + 3u], id.x, whole(p, d2));
}

// The sum of both polynomials of ciphertexts, each times a plaintext. A job is [5]: the prime's index; the places of
// the two results; the index of the terms' words in the table, and the number of terms. A term is [3]: the places of
// the plaintext's row and of the ciphertext's rows.
@compute @workgroup_size(THREADS)
fn weighted_sum(@builtin(global_invocation_id) id: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>) {
    let job = 5u * group.y;
    let p = limb_of(table[job]);
    var first = 0u;
    var second = 0u;
    let first_term = table[job + 3u];
    let terms = table[job + 4u];
    for (var of_term = 0u; of_term < terms; of_term++) {
        let term = first_term + 3u * of_term;
        let plain = load(table[term], id.x);
        // (3) sum_c <- sum_c + plain x_c
        first = add_residues(first, mul_montgomery(p, load(table[term + 1u], id.x), plain), p.q);
        second = add_residues(second, mul_montgomery(p, load(table[term + 2u], id.x), plain), p.q);
    }
    store(table[job + 1u], id.x, whole(p, first));
    store(table[job + 2u], id.x, whole(p, second));
}
