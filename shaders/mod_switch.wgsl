// Mod switch: torus words to exponents of X, in [0, 2 N); kernels/src/tfhe/cpu/mod_switch.rs in WGSL.

const SHIFT: u32 = 31u - LOG_N;
const HALF: u32 = 1u << (SHIFT - 1u);

@group(0) @binding(0) var<storage, read_write> rows: array<u32>;

var<workgroup> sums: array<u32, THREADS>;

// `rows` is [rows][n + 1], switched in place. A group has a row; THREADS is a power of two. CENTRED is 1 for the
// centred switch.
@compute @workgroup_size(THREADS)
fn mod_switch(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let row = group.x * (LWE_DIMENSION + 1u);
    var sum = 0u;
    for (var at = thread; at < LWE_DIMENSION; at += THREADS) {
        // (1) mask: a~ <- floor((a + 2^(31 - log 2N)) / 2^(32 - log 2N)) mod 2N
        let word = rows[row + at];
        let exponent = (word + HALF) >> SHIFT;
        // (2) errors: sum <- sum + floor(e / 2), e = 2^(32 - log 2N) a~ - a, signed
        let error = bitcast<i32>((exponent << SHIFT) - word);
        sum += bitcast<u32>(error >> 1u);
        rows[row + at] = exponent;
    }
    if (CENTRED == 1u) {
        // adds up the threads' sums in pairs; words wrap, so the order does not matter
        sums[thread] = sum;
        for (var apart = THREADS / 2u; apart > 0u; apart /= 2u) {
            workgroupBarrier();
            if (thread < apart) {
                sums[thread] += sums[thread + apart];
            }
        }
    }
    if (thread == 0u) {
        var body = rows[row + LWE_DIMENSION];
        // (3) centred: b <- b + sum
        if (CENTRED == 1u) {
            body += sums[0];
        }
        // (4) body: b~ <- floor((b + 2^(31 - log 2N)) / 2^(32 - log 2N)) mod 2N
        rows[row + LWE_DIMENSION] = (body + HALF) >> SHIFT;
    }
}
