// The sum of a gate before its bootstrap, and NOT, which has no bootstrap: kernels/src/tfhe/cpu/linear.rs in WGSL.

struct LinearArgs {
    rows: u32,
    first: u32,
}

@group(0) @binding(0) var<storage, read> arena: array<u32>;
@group(0) @binding(1) var<storage, read> table: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;
@group(0) @binding(3) var<uniform> args: LinearArgs;

// `arena` is [slots][n + 1]. `table` is [rows][7] from word `first` on: the constant, factor f, the distance from the
// start of `arena` to x, factor g, the distance to y; each distance has a second word for CUDA. `out` is
// [rows][n + 1]. A group takes row after row.
@compute @workgroup_size(THREADS)
fn linear(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    for (var row = group.x; row < args.rows; row += groups.x) {
        let entry = args.first + 7u * row;
        let constant = table[entry];
        let f = table[entry + 1u];
        let g = table[entry + 4u];
        let x = table[entry + 2u];
        let y = table[entry + 5u];
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

// `table` is [rows][4] from word `first` on: the distances from the start of the arena to the operand and to the
// result, each with a second word for CUDA. A group takes row after row.
@compute @workgroup_size(THREADS)
fn negate(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    for (var row = group.x; row < negate_args.rows; row += groups.x) {
        let entry = negate_args.first + 4u * row;
        let operand = table[entry];
        let result = table[entry + 2u];
        for (var i = thread; i <= LWE_DIMENSION; i += THREADS) {
            // (3) negation, word by word
            negate_arena[result + i] = 0u - negate_arena[operand + i];
        }
    }
}
