// The sums of cells, over the slots of an arena: kernels/src/tfhe/cpu/cells.rs in WGSL. Needs `place`.

// Number of slots of a wire.
const PARTS: u32 = (EXTRACTED_DIMENSION + LWE_DIMENSION + 1u) / (LWE_DIMENSION + 1u);
const QUARTER: u32 = 1u << 31u;

struct CellsArgs {
    rows: u32,
    first: u32,
}

@group(0) @binding(0) var<storage, read> arena: array<u32>;
@group(0) @binding(1) var<storage, read> table: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;
@group(0) @binding(3) var<uniform> args: CellsArgs;

// `arena` holds slots of n + 1 words at places. `table` is [rows][3] from word `first` on: the constant of the body,
// the index of the table word where the row's terms begin, and the number of terms. A term is [1 + PARTS]: a factor,
// and the place of each slot of the wire. `out` is [rows][kN + 1]. A group takes row after row.
@compute @workgroup_size(THREADS)
fn wire_sum(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    for (var row = group.x; row < args.rows; row += groups.x) {
        let entry = args.first + 3u * row;
        let constant = table[entry];
        let terms = table[entry + 1u];
        let count = table[entry + 2u];
        for (var at = thread; at <= EXTRACTED_DIMENSION; at += THREADS) {
            let part = at / (LWE_DIMENSION + 1u);
            var sum = 0u;
            for (var t = 0u; t < count; t++) {
                let term = terms + t * (1u + PARTS);
                // (1) sum of factor wire, word by word
                sum += table[term] * arena[word_of(table[term + 1u + part]) + at % (LWE_DIMENSION + 1u)];
            }
            // (2) plus a result's constant in the body
            out[row * (EXTRACTED_DIMENSION + 1u) + at] = select(sum, sum + constant, at == EXTRACTED_DIMENSION);
        }
    }
}

// `table` is [rows][4] from word `first` on: the constant of the body, the index of the table word where the row's
// terms begin, the number of terms, and 1 if the row of `out` already holds a sum, else 0. A term is [2]: a factor, and
// the input's place in `arena`. `out` is [rows][n + 1]. A group takes row after row.
@compute @workgroup_size(THREADS)
fn input_sum(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    for (var row = group.x; row < args.rows; row += groups.x) {
        let entry = args.first + 4u * row;
        let constant = table[entry];
        let terms = table[entry + 1u];
        let count = table[entry + 2u];
        let there = table[entry + 3u];
        for (var i = thread; i <= LWE_DIMENSION; i += THREADS) {
            var sum = 0u;
            if (there == 1u) {
                sum = out[row * (LWE_DIMENSION + 1u) + i];
            }
            for (var t = 0u; t < count; t++) {
                // (3) plus the sum of factor input, word by word
                sum += table[terms + 2u * t] * arena[word_of(table[terms + 2u * t + 1u]) + i];
            }
            // (4) plus the constant in the body
            out[row * (LWE_DIMENSION + 1u) + i] = select(sum, sum + constant, i == LWE_DIMENSION);
        }
    }
}

struct MarkArgs {
    count: u32,
    first: u32,
}

@group(0) @binding(0) var<storage, read> mark_quarter_table: array<u32>;
@group(0) @binding(1) var<storage, read_write> mark_quarter_exponents: array<u32>;
@group(0) @binding(2) var<uniform> mark_quarter_args: MarkArgs;

// `table` is [count] from word `first` on: row numbers of `exponents`, [rows][n + 1] in [0, 2 N). A thread takes row
// after row.
@compute @workgroup_size(THREADS)
fn mark_quarter(@builtin(global_invocation_id) first: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var at = first.x; at < mark_quarter_args.count; at += groups.x * THREADS) {
        let row = mark_quarter_table[mark_quarter_args.first + at];
        // (5) a mark in the word of the body's exponent: the rotation starts with amplitude 1/4
        mark_quarter_exponents[row * (LWE_DIMENSION + 1u) + LWE_DIMENSION] |= QUARTER;
    }
}
