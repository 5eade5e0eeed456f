// The number-theoretic transform of one row in shared memory: kernels/src/ring.rs, with four words of a thread at a
// time.
//
// Transforms coefficients in natural order to values in bit-reversed order, and back. A pass computes two stages. A
// thread's four words stay in registers during a pass, and a barrier separates passes. If LOG_N is odd, the last stage
// runs alone. `roots` is [2][N]: first the roots of the transform, then those of its inverse, each a value and its
// companion.

struct NttArgs {
    rows: u32,
}

@group(0) @binding(0) var<storage, read_write> rows_data: array<u32>;
@group(0) @binding(1) var<storage, read> roots: array<vec2<u32>>;
@group(0) @binding(2) var<uniform> ntt_args: NttArgs;

var<workgroup> row: array<u32, N>;

// Values in [0, 4 q), in and out.
fn butterfly(x: ptr<function, u32>, y: ptr<function, u32>, w: vec2<u32>) {
    // (1) butterfly: (x, y) <- (x + w y, x - w y)
    let low = reduce(*x, 2u * Q);
    let t = mul_lazy(*y, w);
    *x = low + t;
    *y = low + 2u * Q - t;
}

// Values in [0, 2 q), in and out.
fn inverse_butterfly(x: ptr<function, u32>, y: ptr<function, u32>, w: vec2<u32>) {
    // (2) inverse butterfly: (x, y) <- (x + y, w (x - y))
    let difference = *x + 2u * Q - *y;
    *x = reduce(*x + *y, 2u * Q);
    *y = mul_lazy(difference, w);
}

// Transforms [N] words of `row` in place, by THREADS threads. Input and output are in [0, 4 q). Begins and ends with a
// barrier.
fn ntt_forward_lazy(thread: u32) {
    var log_quarter = LOG_N - 2u;
    for (var groups = 1u; groups <= N / 4u; groups *= 4u) {
        workgroupBarrier();
        let quarter = 1u << log_quarter;
        for (var at = thread; at < N / 4u; at += THREADS) {
            let group = at >> log_quarter;
            let v = 4u * quarter * group + (at & (quarter - 1u));
            var v0 = row[v];
            var v1 = row[v + quarter];
            var v2 = row[v + 2u * quarter];
            var v3 = row[v + 3u * quarter];
            let w = roots[groups + group];
            let low = roots[2u * (groups + group)];
            let high = roots[2u * (groups + group) + 1u];
            butterfly(&v0, &v2, w);
            butterfly(&v1, &v3, w);
            butterfly(&v0, &v1, low);
            butterfly(&v2, &v3, high);
            row[v] = v0;
            row[v + quarter] = v1;
            row[v + 2u * quarter] = v2;
            row[v + 3u * quarter] = v3;
        }
        log_quarter -= 2u;
    }
    workgroupBarrier();
    if (LOG_N % 2u == 1u) {
        for (var at = thread; at < N / 2u; at += THREADS) {
            var v0 = row[2u * at];
            var v1 = row[2u * at + 1u];
            butterfly(&v0, &v1, roots[N / 2u + at]);
            row[2u * at] = v0;
            row[2u * at + 1u] = v1;
        }
        workgroupBarrier();
    }
}

// The inverse, times N: [N] words of `row` in place, by THREADS threads. Input and output are in [0, 2 q). Begins and
// ends with a barrier.
fn ntt_inverse_lazy(thread: u32) {
    workgroupBarrier();
    if (LOG_N % 2u == 1u) {
        for (var at = thread; at < N / 2u; at += THREADS) {
            var v0 = row[2u * at];
            var v1 = row[2u * at + 1u];
            inverse_butterfly(&v0, &v1, roots[N + N / 2u + at]);
            row[2u * at] = v0;
            row[2u * at + 1u] = v1;
        }
        workgroupBarrier();
    }
    var log_quarter = LOG_N % 2u;
    for (var groups = N >> (2u + LOG_N % 2u); groups > 0u; groups /= 4u) {
        let quarter = 1u << log_quarter;
        for (var at = thread; at < N / 4u; at += THREADS) {
            let group = at >> log_quarter;
            let v = 4u * quarter * group + (at & (quarter - 1u));
            var v0 = row[v];
            var v1 = row[v + quarter];
            var v2 = row[v + 2u * quarter];
            var v3 = row[v + 3u * quarter];
            let w = roots[N + groups + group];
            let low = roots[N + 2u * (groups + group)];
            let high = roots[N + 2u * (groups + group) + 1u];
            inverse_butterfly(&v0, &v1, low);
            inverse_butterfly(&v2, &v3, high);
            inverse_butterfly(&v0, &v2, w);
            inverse_butterfly(&v1, &v3, w);
            row[v] = v0;
            row[v + quarter] = v1;
            row[v + 2u * quarter] = v2;
            row[v + 3u * quarter] = v3;
        }
        log_quarter += 2u;
        workgroupBarrier();
    }
}

// `rows_data` is [rows][N] words in [0, q), transformed in place; results are in [0, q). A group takes row after row.
@compute @workgroup_size(THREADS)
fn ntt_forward(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    for (var at = group.x; at < ntt_args.rows; at += groups.x) {
        for (var i = thread; i < N; i += THREADS) {
            row[i] = rows_data[at * N + i];
        }
        ntt_forward_lazy(thread);
        for (var i = thread; i < N; i += THREADS) {
            rows_data[at * N + i] = reduce(reduce(row[i], 2u * Q), Q);
        }
    }
}

// The inverse of `ntt_forward`, times N, with the same arguments.
@compute @workgroup_size(THREADS)
fn ntt_inverse(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    for (var at = group.x; at < ntt_args.rows; at += groups.x) {
        for (var i = thread; i < N; i += THREADS) {
            row[i] = rows_data[at * N + i];
        }
        ntt_inverse_lazy(thread);
        for (var i = thread; i < N; i += THREADS) {
            rows_data[at * N + i] = reduce(row[i], Q);
        }
    }
}

// `ntt_forward`, then every value times 2^32 / N. A blind rotation's product needs this factor in its key, because
// Montgomery's reduction divides by 2^32 and `ntt_inverse_lazy` multiplies by N.
@compute @workgroup_size(THREADS)
fn ntt_key(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let factor = vec2<u32>(KEY_FACTOR, KEY_FACTOR_COMPANION);
    for (var at = group.x; at < ntt_args.rows; at += groups.x) {
        for (var i = thread; i < N; i += THREADS) {
            row[i] = rows_data[at * N + i];
        }
        ntt_forward_lazy(thread);
        for (var i = thread; i < N; i += THREADS) {
            rows_data[at * N + i] = reduce(mul_lazy(row[i], factor), Q);
        }
    }
}
