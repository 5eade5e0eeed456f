// Key switch: from an LWE ciphertext under the ring key to one under the small key;
// kernels/src/tfhe/cpu/lwe_key_switch.rs in WGSL. Needs `place`.
//
// A group has TILE_GATES gates and TILE_COLUMNS columns of their results. Its slices of LANES threads share the key
// rows: each takes every SLICES-th row. A thread keeps COLUMNS columns of all the gates in registers, so that a word of
// the key is read once for all of them. Digits are staged in shared memory, CHUNK coefficients at a time. At the end,
// the slices' sums are added there.

const LANES: u32 = 32u;
const SLICES: u32 = THREADS / LANES;
const STAGED_DIGITS: u32 = CHUNK * KS_LEVELS * TILE_GATES;
const STAGED_SUMS: u32 = SLICES * TILE_GATES * TILE_COLUMNS;
const STAGED: u32 = max(STAGED_DIGITS, STAGED_SUMS);

struct KeySwitchArgs {
    table_first: u32,
    shares_first: u32,
    unit: u32,
}

@group(0) @binding(0) var<storage, read> key: array<u32>;
@group(0) @binding(1) var<storage, read> samples: array<u32>;
@group(0) @binding(2) var<storage, read> table: array<u32>;
@group(0) @binding(3) var<storage, read_write> results: array<u32>;
@group(0) @binding(4) var<uniform> args: KeySwitchArgs;

var<workgroup> staged: array<u32, STAGED>;

// `key` is [kN][KS_LEVELS][KEY_COLUMNS] torus words, where KEY_COLUMNS are whole tiles. `samples` is [gates][kN + 1].
// `results` holds the results, rows of n + 1 words. `table` has, from word `table_first` on, [gates]: the result's
// first word in units of `unit` words; and from `shares_first` on, [tiles of gates][3]: the first gate, the number of
// gates (at most TILE_GATES), and the place of their key in `key`. A group has a tile of gates and columns.
@compute @workgroup_size(THREADS)
fn lwe_key_switch(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let first_column = group.x % (KEY_COLUMNS / TILE_COLUMNS) * TILE_COLUMNS;
    let share = args.shares_first + 3u * (group.x / (KEY_COLUMNS / TILE_COLUMNS));
    let first_gate = table[share];
    let gates = table[share + 1u];
    let own_key = word_of(table[share + 2u]);
    let lane = thread % LANES;
    let slice = thread / LANES;
    var sums = array<array<u32, COLUMNS>, TILE_GATES>();
    for (var first = 0u; first < EXTRACTED_DIMENSION; first += CHUNK) {
        let coefficients = min(CHUNK, EXTRACTED_DIMENSION - first);
        for (var at = thread; at < TILE_GATES * coefficients; at += THREADS) {
            let gate = at / coefficients;
            let i = at % coefficients;
            // gates beyond the last gate have digits of 0
            var a = 0u;
            if (gate < gates) {
                a = samples[(first_gate + gate) * (EXTRACTED_DIMENSION + 1u) + first + i];
            }
            // (1) v <- round(a D^t / 2^32)
            // KS_COVERED is D^t; as a 32-bit word, 2^32 is 0
            var v = select(mul_high(a, KS_COVERED) + ((a * KS_COVERED) >> 31u), a, KS_COVERED == 0u);
            for (var level = KS_LEVELS; level > 0u; level--) {
                // (2) balanced digits of v, least significant first; the last carry stands for 2^32, so it is dropped
                let low = v % KS_BASE;
                let carry = low > (KS_BASE - 1u) / 2u;
                staged[(i * KS_LEVELS + level - 1u) * TILE_GATES + gate] = select(low, low - KS_BASE, carry);
                v = v / KS_BASE + u32(carry);
            }
        }
        workgroupBarrier();
        for (var row = slice; row < coefficients * KS_LEVELS; row += SLICES) {
            let key_row = own_key + (first * KS_LEVELS + row) * KEY_COLUMNS + first_column + lane;
            for (var c = 0u; c < COLUMNS; c++) { // unroll
                let word = key[key_row + c * LANES];
                for (var gate = 0u; gate < TILE_GATES; gate++) { // unroll
                    // (3) sum <- sum - digit * key row
                    sums[gate][c] -= staged[row * TILE_GATES + gate] * word;
                }
            }
        }
        workgroupBarrier();
    }
    for (var gate = 0u; gate < TILE_GATES; gate++) { // unroll
        for (var c = 0u; c < COLUMNS; c++) { // unroll
            staged[(slice * TILE_GATES + gate) * TILE_COLUMNS + c * LANES + lane] = sums[gate][c];
        }
    }
    workgroupBarrier();
    for (var at = thread; at < TILE_GATES * TILE_COLUMNS; at += THREADS) {
        let gate = first_gate + at / TILE_COLUMNS;
        let column = first_column + at % TILE_COLUMNS;
        if (at / TILE_COLUMNS >= gates || column > LWE_DIMENSION) {
            continue;
        }
        // (4) the sample's body goes to the body
        var sum = 0u;
        if (column == LWE_DIMENSION) {
            sum = samples[gate * (EXTRACTED_DIMENSION + 1u) + EXTRACTED_DIMENSION];
        }
        for (var s = 0u; s < SLICES; s++) {
            sum += staged[s * TILE_GATES * TILE_COLUMNS + at];
        }
        results[args.unit * table[args.table_first + gate] + column] = sum;
    }
}
