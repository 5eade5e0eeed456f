// Arithmetic modulo a prime q < 2^30 given as an argument, one word at a time: kernels/src/modular.rs in WGSL. Needs
// `mul_high`.

// Reduces `x` from [0, 2 m) to [0, m): the smaller of `x` and `x - m` as unsigned words.
fn reduce(x: u32, m: u32) -> u32 {
    return min(x, x - m);
}

// `x + y mod q` for x, y in [0, q).
fn add_residues(x: u32, y: u32, q: u32) -> u32 {
    return reduce(x + y, q);
}

// `x y / 2^32 mod q` for y in [0, q) and any word x; `q_inverse` is 1 / q mod 2^32; the result is in [0, q)
// (Montgomery's reduction of the product).
fn mul_residues(x: u32, y: u32, q: u32, q_inverse: u32) -> u32 {
    let difference = mul_high(x, y) - mul_high(x * y * q_inverse, q);
    return min(difference, difference + q);
}
