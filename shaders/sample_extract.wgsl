// Sample extraction: a coefficient of an RLWE ciphertext as an LWE ciphertext of dimension kN on the torus:
// kernels/src/tfhe/cpu/sample_extract.rs in WGSL. Needs `torus` and `place`.

const NO_ROW: u32 = 0xffffffffu;
const EIGHTH: u32 = 1u << 29u;
// Number of slots of a wire.
const PARTS: u32 = (EXTRACTED_DIMENSION + LWE_DIMENSION + 1u) / (LWE_DIMENSION + 1u);

struct SampleExtractArgs {
    gates: u32,
    first: u32,
    first_out: u32,
}

@group(0) @binding(0) var<storage, read> acc: array<u32>;
@group(0) @binding(1) var<storage, read> table: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;
@group(0) @binding(3) var<uniform> args: SampleExtractArgs;

// Word `at` of the sample of coefficient h. The accumulator is [K + 1][N], starts at `own` and is in [0, q).
fn extracted(own: u32, at: u32, h: u32) -> u32 {
    // (1) mask: A_c[h], .., A_c[0], -A_c[N - 1], .., -A_c[h + 1] for every c, each to the nearest torus word
    // (2) body: b[h], likewise
    let i = at % N;
    if (i <= h) {
        return to_torus(acc[own + at - i + h - i]);
    }
    return to_torus(negate_mod(acc[own + at - i + N + h - i]));
}

// `acc` is [rows][K + 1][N]. `table` is [gates][2] from word `first` on: a row, then a second row for a MUX or NO_ROW.
// `out` gets [gates][kN + 1] torus words, from row `first_out` on. A group takes gate after gate.
@compute @workgroup_size(THREADS)
fn sample_extract(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    for (var gate = group.x; gate < args.gates; gate += groups.x) {
        let row = table[args.first + 2u * gate];
        let second = table[args.first + 2u * gate + 1u];
        for (var at = thread; at <= EXTRACTED_DIMENSION; at += THREADS) {
            var word = extracted(row * (K + 1u) * N, at, 0u);
            if (second != NO_ROW) {
                // (3) a MUX: the sum of its two samples and 1/8
                word += extracted(second * (K + 1u) * N, at, 0u);
                if (at == EXTRACTED_DIMENSION) {
                    word += EIGHTH;
                }
            }
            out[(args.first_out + gate) * (EXTRACTED_DIMENSION + 1u) + at] = word;
        }
    }
}

@group(0) @binding(2) var<storage, read_write> extract_wires_arena: array<u32>;

// `table` is [wires][2 + PARTS] from word `first` on: a row of `acc`, a coefficient, and the place of each slot of the
// wire in `arena`. A slot has n + 1 words. A group takes wire after wire.
@compute @workgroup_size(THREADS)
fn extract_wires(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    for (var wire = group.x; wire < args.gates; wire += groups.x) {
        let entry = args.first + (2u + PARTS) * wire;
        let row = table[entry];
        let coefficient = table[entry + 1u];
        for (var at = thread; at <= EXTRACTED_DIMENSION; at += THREADS) {
            let slot = word_of(table[entry + 2u + at / (LWE_DIMENSION + 1u)]);
            extract_wires_arena[slot + at % (LWE_DIMENSION + 1u)] = extracted(row * (K + 1u) * N, at, coefficient);
        }
    }
}
