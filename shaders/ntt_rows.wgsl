// The stages of a long transform whose partners are less than ROW words apart: kernels/src/cpu/ntt.rs, and the work
// that comes before its inverse or after it.
//
// A row of N words is ROWS rows of ROW words here. A group transforms one of them in shared memory, with four words of
// a thread at a time. Values are in the order of kernels/src/ring.rs.
//
// Groups in x share the rows of a row of N words, groups in y are jobs. `table` begins with the jobs, which name rows
// by their places. `primes` is as in `limb`; `roots` is [primes][N]. From the prelude: N, LOG_N, ROW, LOG_ROW, ROWS,
// WORDS (a thread's words of a row), THREADS. Needs `limb`, `gadget`.

@group(0) @binding(0) var<storage, read> table: array<u32>;
@group(0) @binding(1) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(2) var<storage, read> primes: array<u32>;
@group(0) @binding(3) var<storage, read> roots: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read_write> rows: array<u32>;
@group(0) @binding(5) var<storage, read> keys: array<u32>;

var<workgroup> row: array<u32, ROW>;

// Transforms [ROW] words of `row` in place. The root of group g in the stage with m groups is root base m + g after
// `first_root`, where `base` is ROWS plus the number of the row. Input and output are in [0, 4 q). Begins and ends with
// a barrier.
fn forward_row(thread: u32, p: Limb, first_root: u32, base: u32) {
    var log_quarter = LOG_ROW - 2u;
    for (var groups = 1u; groups <= ROW / 4u; groups *= 4u) {
        workgroupBarrier();
        let quarter = 1u << log_quarter;
        for (var at = thread; at < ROW / 4u; at += THREADS) {
            let group = at >> log_quarter;
            let root = base * groups + group;
            let v = 4u * quarter * group + (at & (quarter - 1u));
            var v0 = row[v];
            var v1 = row[v + quarter];
            var v2 = row[v + 2u * quarter];
            var v3 = row[v + 3u * quarter];
            let w = roots[first_root + root];
            butterfly(p, &v0, &v2, w);
            butterfly(p, &v1, &v3, w);
            butterfly(p, &v0, &v1, roots[first_root + 2u * root]);
            butterfly(p, &v2, &v3, roots[first_root + 2u * root + 1u]);
            row[v] = v0;
            row[v + quarter] = v1;
            row[v + 2u * quarter] = v2;
            row[v + 3u * quarter] = v3;
        }
        log_quarter -= 2u;
    }
    workgroupBarrier();
    if (LOG_ROW % 2u == 1u) {
        for (var at = thread; at < ROW / 2u; at += THREADS) {
            var v0 = row[2u * at];
            var v1 = row[2u * at + 1u];
            butterfly(p, &v0, &v1, roots[first_root + base * (ROW / 2u) + at]);
            row[2u * at] = v0;
            row[2u * at + 1u] = v1;
        }
        workgroupBarrier();
    }
}

// The inverse, times ROW. `base` is that of the mirrored row, 2 ROWS - 1 - base of the row. Input and output are in
// [0, 2 q). Begins and ends with a barrier.
fn inverse_row(thread: u32, p: Limb, first_root: u32, base: u32) {
    workgroupBarrier();
    if (LOG_ROW % 2u == 1u) {
        for (var at = thread; at < ROW / 2u; at += THREADS) {
            var v0 = row[2u * at];
            var v1 = row[2u * at + 1u];
            inverse_butterfly(p, &v0, &v1, roots[first_root + (base + 1u) * (ROW / 2u) - 1u - at]);
            row[2u * at] = v0;
            row[2u * at + 1u] = v1;
        }
        workgroupBarrier();
    }
    var log_quarter = LOG_ROW % 2u;
    for (var groups = ROW >> (2u + LOG_ROW % 2u); groups > 0u; groups /= 4u) {
        let quarter = 1u << log_quarter;
        for (var at = thread; at < ROW / 4u; at += THREADS) {
            let group = at >> log_quarter;
            let root = (base + 1u) * groups - 1u - group;
            let v = 4u * quarter * group + (at & (quarter - 1u));
            var v0 = row[v];
            var v1 = row[v + quarter];
            var v2 = row[v + 2u * quarter];
            var v3 = row[v + 3u * quarter];
            inverse_butterfly(p, &v0, &v1, roots[first_root + 2u * root + 1u]);
            inverse_butterfly(p, &v2, &v3, roots[first_root + 2u * root]);
            let w = roots[first_root + root];
            inverse_butterfly(p, &v0, &v2, w);
            inverse_butterfly(p, &v1, &v3, w);
            row[v] = v0;
            row[v + quarter] = v1;
            row[v + 2u * quarter] = v2;
            row[v + 3u * quarter] = v3;
        }
        log_quarter += 2u;
        workgroupBarrier();
    }
}

// Finishes the transform of a row. A job is [3]: the prime's index, the place of the begun row in scratch memory, and
// the place of the result there, in [0, q).
@compute @workgroup_size(THREADS)
fn ntt_rows(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    let job = 3u * group.y;
    let p = limb_of(table[job]);
    let begun = in_scratch(table[job + 1u]) + ROW * group.x;
    let to = in_scratch(table[job + 2u]) + ROW * group.x;
    for (var at = thread; at < ROW; at += THREADS) {
        row[at] = scratch[begun + at];
    }
    forward_row(thread, p, table[job] * N, ROWS + group.x);
    for (var at = thread; at < ROW; at += THREADS) {
        scratch[to + at] = reduce_all(p, row[at]);
    }
}

// Begins an inverse transform. A job is [6]: the prime's index, the place of the row in [0, 2 q), the place of the
// result in scratch memory, in [0, 2 q), and a row that is added first: its place or NO_ROW, and its factor with the
// companion.
@compute @workgroup_size(THREADS)
fn ntt_rows_inverse(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    let job = 6u * group.y;
    let p = limb_of(table[job]);
    let to = in_scratch(table[job + 2u]) + ROW * group.x;
    let added = table[job + 3u];
    let factor = vec2<u32>(table[job + 4u], table[job + 5u]);
    for (var at = thread; at < ROW; at += THREADS) {
        var word = load(table[job + 1u], ROW * group.x + at);
        if (added != NO_ROW) {
            word = reduce(word + mul_lazy(p, load(added, ROW * group.x + at), factor), 2u * p.q);
        }
        row[at] = word;
    }
    inverse_row(thread, p, table[job] * N, 2u * ROWS - 1u - group.x);
    for (var at = thread; at < ROW; at += THREADS) {
        scratch[to + at] = row[at];
    }
}

// The place of value `at` in a key's row, which is [ROWS][ROW / 32 / QUAD][32][QUAD].
const QUAD: u32 = min(ROW / 32u, 4u);
fn in_key(at: u32) -> u32 {
    let lane = at % ROW / (ROW / 32u);
    let word = at % (ROW / 32u);
    return at / ROW * ROW + 32u * (word / QUAD * QUAD) + QUAD * lane + word % QUAD;
}

// Finishes the transforms of all digits under one prime and multiplies them by a key. A job is [5]: the prime's index,
// the places of both results in scratch memory, in [0, q), the index of the digits' words in the table, and the number
// of digits. A digit is [3]: the place of its row, whether this row is begun (0) or transformed, in [0, q) (1), and the
// place of the key's rows, [2][N].
@compute @workgroup_size(THREADS)
fn ntt_rows_gadget(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    let job = 5u * group.y;
    let p = limb_of(table[job]);
    let first_digit = table[job + 3u];
    let digits = table[job + 4u];
    var bodies: array<u32, WORDS>;
    var masks: array<u32, WORDS>;
    for (var i = 0u; i < WORDS; i++) { // unroll
        bodies[i] = 0u;
        masks[i] = 0u;
    }
    for (var of_digit = 0u; of_digit < digits; of_digit++) {
        let digit = first_digit + 3u * of_digit;
        let key = word_of(table[digit + 2u]);
        for (var i = 0u; i < WORDS; i++) { // unroll
            row[thread + THREADS * i] = load(table[digit], ROW * group.x + thread + THREADS * i);
        }
        if (table[digit + 1u] == 0u) {
            forward_row(thread, p, table[job] * N, ROWS + group.x);
        }
        for (var i = 0u; i < WORDS; i++) { // unroll
            let word = row[thread + THREADS * i];
            let of_key = key + in_key(ROW * group.x + thread + THREADS * i);
            bodies[i] = with_product(p, bodies[i], word, keys[of_key]);
            masks[i] = with_product(p, masks[i], word, keys[of_key + N]);
        }
    }
    let to_bodies = in_scratch(table[job + 1u]) + ROW * group.x + thread;
    let to_masks = in_scratch(table[job + 2u]) + ROW * group.x + thread;
    for (var i = 0u; i < WORDS; i++) { // unroll
        scratch[to_bodies + THREADS * i] = bodies[i];
        scratch[to_masks + THREADS * i] = masks[i];
    }
}

// The value that value `at` becomes under X -> X^g, where `inverse` is 1 / g modulo 2 N:
// kernels/src/cpu/automorphism.rs.
fn moved(at: u32, inverse: u32) -> u32 {
    let exponent = 2u * (reverseBits(at) >> (32u - LOG_N)) + 1u;
    return reverseBits(exponent * inverse % (2u * N) >> 1u) >> (32u - LOG_N);
}

// Finishes the transform of a converted quotient and adds up to two rows with factors. A job is [10]: the prime's
// index; the place of the quotient's begun row in scratch memory; two rows, each a place or NO_ROW, and a factor with
// its companion; the place of the result, in [0, q); and 1 / g modulo 2 N, if the result is permuted by X -> X^g, or 1.
@compute @workgroup_size(THREADS)
fn ntt_rows_combine(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    let job = 10u * group.y;
    let p = limb_of(table[job]);
    let begun = in_scratch(table[job + 1u]) + ROW * group.x;
    for (var at = thread; at < ROW; at += THREADS) {
        row[at] = scratch[begun + at];
    }
    forward_row(thread, p, table[job] * N, ROWS + group.x);
    for (var i = thread; i < ROW; i += THREADS) {
        let at = ROW * group.x + i;
        var sum = reduce(row[i], 2u * p.q);
        for (var term = job + 2u; term < job + 8u; term += 3u) {
            if (table[term] != NO_ROW) {
                let factor = vec2<u32>(table[term + 1u], table[term + 2u]);
                sum = reduce(sum + mul_lazy(p, load(table[term], at), factor), 2u * p.q);
            }
        }
        store(table[job + 8u], moved(at, table[job + 9u]), reduce(sum, p.q));
    }
}
