// Residues of the ring as words of the 32-bit torus: kernels/src/tfhe/torus.rs in WGSL. Needs `mul_high`.

// Maps `x` in [0, q) to the 32-bit torus: x 2^32 / q, at most two units too low. This code defines the exact result.
fn to_torus_lazy(x: u32) -> u32 {
    return 4u * x + mul_high(4u * x, TORUS_CORRECTION);
}

// Maps `x` in [0, q) to the 32-bit torus, rounded to nearest.
fn to_torus(x: u32) -> u32 {
    let low = to_torus_lazy(x);
    // x 2^32 - low q, which is below 3 q
    let rest = 0u - low * Q;
    return low + (rest + Q / 2u) / Q;
}
