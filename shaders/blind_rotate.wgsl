// Blind rotation: `n` external products that multiply a constant polynomial by X to the power of an encrypted phase;
// kernels/src/tfhe/cpu/blind_rotate.rs in WGSL. Needs `torus`, `place` and `ntt`.
//
// A group has one row. The polynomial under transformation is in shared memory; sums are in registers. Outside
// transforms, word `thread + w THREADS` of a polynomial belongs to one thread. The accumulator [K + 1][N], in [0, q),
// is in shared memory during a launch if the card has room for it (ACC_SHARED 1; ACC_WORDS words), else in global
// memory.

struct StartArgs {
    rows: u32,
}

@group(0) @binding(0) var<storage, read> start_exponents: array<u32>;
@group(0) @binding(1) var<storage, read_write> start_acc: array<u32>;
@group(0) @binding(2) var<uniform> start_args: StartArgs;

// Sets accumulators to X^-b (0, .., 0, q/8 (1 + X + .. + X^(N-1))), or q/4 if b has the mark 2^31. `exponents` is
// [rows][n + 1] in [0, 2 N), mask then body b, which may have the mark. `acc` is [rows][K + 1][N]. A group takes row
// after row.
@compute @workgroup_size(THREADS)
fn blind_rotate_start(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    for (var at = group.x; at < start_args.rows; at += groups.x) {
        let b = start_exponents[at * (LWE_DIMENSION + 1u) + LWE_DIMENSION];
        let own = at * (K + 1u) * N;
        let amplitude = select(EIGHTH_Q, QUARTER_Q, (b >> 31u) == 1u);
        for (var i = thread; i < N; i += THREADS) {
            for (var c = 0u; c < K; c++) {
                start_acc[own + c * N + i] = 0u;
            }
            // coefficient i of X^-b v is v_(i + b), negated for each wrap
            start_acc[own + K * N + i] = select(Q - amplitude, amplitude, (i + b) % (2u * N) < N);
        }
    }
}

struct RotateArgs {
    first: u32,
    count: u32,
    table_first: u32,
}

@group(0) @binding(0) var<storage, read> key: array<u32>;
@group(0) @binding(2) var<storage, read> exponents: array<u32>;
@group(0) @binding(3) var<storage, read_write> acc: array<u32>;
@group(0) @binding(4) var<storage, read> table: array<u32>;
@group(0) @binding(5) var<uniform> args: RotateArgs;

var<workgroup> shared_acc: array<u32, ACC_WORDS>;

// Word `at` of the accumulator that starts at `own`.
fn acc_word(own: u32, at: u32) -> u32 {
    if (ACC_SHARED == 1u) {
        return shared_acc[at];
    }
    return acc[own + at];
}

fn set_acc_word(own: u32, at: u32, word: u32) {
    if (ACC_SHARED == 1u) {
        shared_acc[at] = word;
    } else {
        acc[own + at] = word;
    }
}

// Steps `first` to `first + count` of the rotation, a group a row. `key` is [n][LEVELS][K + 1][K + 1][N] after
// `ntt_key`. `table` is [rows][3] from word `table_first` on: row, 1, and the place of the row's key in `key`.
@compute @workgroup_size(THREADS)
fn blind_rotate(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let own = group.x * (K + 1u) * N;
    let own_key = word_of(table[args.table_first + 3u * group.x + 2u]);
    if (ACC_SHARED == 1u) {
        for (var i = thread; i < (K + 1u) * N; i += THREADS) {
            shared_acc[i] = acc[own + i];
        }
        workgroupBarrier();
    }
    for (var step = args.first; step < args.first + args.count; step++) {
        let a = exponents[group.x * (LWE_DIMENSION + 1u) + step];
        let key_step = own_key + step * (LEVELS * (K + 1u) * (K + 1u) * N);
        var sums = array<array<u32, WORDS>, (K + 1u)>();
        for (var c = 0u; c <= K; c++) {
            var raised: array<u32, WORDS>;
            for (var w = 0u; w < WORDS; w++) { // unroll
                let i = thread + w * THREADS;
                // (1) difference: d <- X^a acc - acc
                let place = (i - a) % (2u * N);
                let rotated = acc_word(own, c * N + place % N);
                let d = sub_mod(select(negate_mod(rotated), rotated, place < N), acc_word(own, c * N + i));
                // (2) decompose: d to balanced digits, by way of its torus word
                raised[w] = (to_torus_lazy(d) + DIGIT_OFFSET) >> DIGIT_SHIFT;
            }
            for (var level = 0u; level < LEVELS; level++) {
                for (var w = 0u; w < WORDS; w++) { // unroll
                    let digit = (raised[w] >> (BASE_LOG * (LEVELS - 1u - level))) & ((1u << BASE_LOG) - 1u);
                    row[thread + w * THREADS] = digit + Q - (1u << (BASE_LOG - 1u));
                }
                // (3) transform the digits
                ntt_forward_lazy(thread);
                // (4) multiply by the key of step i, sum up
                let key_row = key_step + (level * (K + 1u) + c) * (K + 1u) * N;
                for (var w = 0u; w < WORDS; w++) { // unroll
                    let i = thread + w * THREADS;
                    for (var to = 0u; to <= K; to++) { // unroll
                        sums[to][w] = add_mod(sums[to][w], mul_montgomery(row[i], key[key_row + to * N + i]));
                    }
                }
            }
        }
        for (var c = 0u; c <= K; c++) { // unroll
            for (var w = 0u; w < WORDS; w++) { // unroll
                row[thread + w * THREADS] = sums[c][w];
            }
            // (5) transform back
            ntt_inverse_lazy(thread);
            for (var w = 0u; w < WORDS; w++) { // unroll
                let i = thread + w * THREADS;
                // (6) acc <- acc + sum
                set_acc_word(own, c * N + i, add_mod(acc_word(own, c * N + i), reduce(row[i], Q)));
            }
        }
        // the next step reads words of other threads
        if (ACC_SHARED == 1u) {
            workgroupBarrier();
        } else {
            storageBarrier();
        }
    }
    if (ACC_SHARED == 1u) {
        for (var i = thread; i < (K + 1u) * N; i += THREADS) {
            acc[own + i] = shared_acc[i];
        }
    }
}
