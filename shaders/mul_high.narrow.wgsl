// The high word of a product, computed from four products of half words.
fn mul_high(x: u32, y: u32) -> u32 {
    let x_low = x & 0xffffu;
    let x_high = x >> 16u;
    let y_low = y & 0xffffu;
    let y_high = y >> 16u;
    // neither sum overflows: (2^16 - 1)^2 + 2^16 - 1 < 2^32
    let middle = x_high * y_low + ((x_low * y_low) >> 16u);
    let rest = x_low * y_high + (middle & 0xffffu);
    return x_high * y_high + (middle >> 16u) + (rest >> 16u);
}
