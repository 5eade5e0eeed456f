// Modulus switch: torus words to exponents of X, in [0, 2 N): kernels/src/tfhe/cpu/mod_switch.rs in WGSL.

struct ModSwitchArgs {
    count: u32,
}

@group(0) @binding(0) var<storage, read_write> words: array<u32>;
@group(0) @binding(1) var<uniform> args: ModSwitchArgs;

// `words` is [count], in place. A thread takes word after word.
@compute @workgroup_size(THREADS)
fn mod_switch(@builtin(global_invocation_id) first: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var at = first.x; at < args.count; at += groups.x * THREADS) {
        // (1) x <- floor((x + 2^(31 - log 2N)) / 2^(32 - log 2N)) mod 2N
        words[at] = (words[at] + (1u << (30u - LOG_N))) >> (31u - LOG_N);
    }
}
