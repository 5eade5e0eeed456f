// Gadget products: kernels/src/cpu/gadget.rs in WGSL. Helpers of `ntt_rows`. Needs `limb`.

// The sum with a word of a transformed digit times the key's word, which is times 2^32.
fn with_product(p: Limb, sum: u32, digit: u32, key: u32) -> u32 {
    // (1) sum_c <- sum_c + d_j key_jc
    return add_residues(sum, mul_montgomery(p, digit, key), p.q);
}
