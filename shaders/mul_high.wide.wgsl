// The high word of a product, computed with 64-bit integers.
fn mul_high(x: u32, y: u32) -> u32 {
    return u32((u64(x) * u64(y)) >> 32u);
}
