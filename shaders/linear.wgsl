// The sum of a gate before its bootstrap, and NOT, which has no bootstrap: kernels/src/tfhe/cpu/linear.rs in WGSL.
// Needs `place`.

struct LinearArgs {
    rows: u32,
    first: u32,
}

@group(0) @binding(0) var<storage, read> arena: array<u32>;
@group(0) @binding(1) var<storage, read> table: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;
@group(0) @binding(3) var<uniform> args: LinearArgs;

// `arena` holds rows of n + 1 words at places. `table` is [rows][5] from word `first` on: the constant, factor f, the
// place of x, factor g, the place of y. `out` is [rows][n + 1]. A group takes row after row.
@compute @workgroup_size(THREADS)
fn linear(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    for (var row = group.x; row < args.rows; row += groups.x) {
        let entry = args.first + 5u * row;
        let constant = table[entry];
        let f = table[entry + 1u];
        let g = table[entry + 3u];
        let x = word_of(table[entry + 2u]);
        let y = word_of(table[entry + 4u]);
        for (var i = thread; i <= LWE_DIMENSION; i += THREADS) {
            // (1) f x + g y, word by word
            let sum = f * arena[x + i] + g * arena[y + i];
            // (2) plus the constant in the body
            out[row * (LWE_DIMENSION + 1u) + i] = select(sum, sum + constant, i == LWE_DIMENSION);
        }
    }
}

@group(0) @binding(0) var<storage, read_write> negate_arena: array<u32>;
@group(0) @binding(2) var<uniform> negate_args: LinearArgs;

// `table` is [rows][2] from word `first` on: the places of the operand and of the result in the arena. A group takes
// row after row.
@compute @workgroup_size(THREADS)
fn negate(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    for (var row = group.x; row < negate_args.rows; row += groups.x) {
        let entry = negate_args.first + 2u * row;
        let operand = word_of(table[entry]);
        let result = word_of(table[entry + 1u]);
        for (var i = thread; i <= LWE_DIMENSION; i += THREADS) {
            // (3) negation, word by word
            negate_arena[result + i] = 0u - negate_arena[operand + i];
        }
    }
}
