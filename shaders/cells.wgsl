// The sums of gates and cells, over the slots of an arena: kernels/src/tfhe/cpu/cells.rs in WGSL. Needs `place`.

// Sums that go to their row of `out`, and sums that are added to it. Every other word names a place.
const TO_ROW: u32 = 0xffffffffu;
const ONTO_ROW: u32 = 0xfffffffeu;
const QUARTER: u32 = 1u << 31u;

struct AddArgs {
    rows: u32,
    first: u32,
    first_term: u32,
    words: u32,
}

@group(0) @binding(0) var<storage, read_write> arena: array<u32>;
@group(0) @binding(1) var<storage, read> table: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;
@group(0) @binding(3) var<uniform> args: AddArgs;

// `arena` holds slots of n + 1 words at places. `table` has [rows][4] from word `first` on: the constant of the body,
// the index of the row's first word of terms, the number of terms, and where the sum goes: TO_ROW, ONTO_ROW or a place
// in `arena`. Terms begin at word `first_term`. A term is a factor, and the place of each slot of the value. A value
// has `words` words, n + 1 or kN + 1, and `out` is [rows][words]. A group takes row after row.
@compute @workgroup_size(THREADS)
fn add_terms(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let term_words = 1u + (args.words + LWE_DIMENSION) / (LWE_DIMENSION + 1u);
    for (var row = group.x; row < args.rows; row += groups.x) {
        let entry = args.first + 4u * row;
        let constant = table[entry];
        let terms = args.first_term + table[entry + 1u];
        let count = table[entry + 2u];
        let to = table[entry + 3u];
        for (var at = thread; at < args.words; at += THREADS) {
            let part = at / (LWE_DIMENSION + 1u);
            var sum = 0u;
            if (to == ONTO_ROW) {
                sum = out[row * args.words + at];
            }
            for (var t = 0u; t < count; t++) {
                let term = terms + t * term_words;
                // (1) plus factor value, word by word
                sum += table[term] * arena[word_of(table[term + 1u + part]) + at % (LWE_DIMENSION + 1u)];
            }
            // (2) plus the constant in the body
            sum = select(sum, sum + constant, at == args.words - 1u);
            if (to < ONTO_ROW) {
                arena[word_of(to) + at] = sum;
            } else {
                out[row * args.words + at] = sum;
            }
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
        // (3) a mark in the word of the body's exponent: the rotation starts with amplitude 1/4
        mark_quarter_exponents[row * (LWE_DIMENSION + 1u) + LWE_DIMENSION] |= QUARTER;
    }
}
