// Arithmetic modulo the ring prime Q < 2^30, a constant of the prelude: kernels/src/modular.rs in WGSL. Needs
// `mul_high` and `residue`.

// `x + y mod q` for x, y in [0, q).
fn add_mod(x: u32, y: u32) -> u32 {
    return add_residues(x, y, Q);
}

// `x - y mod q` for x, y in [0, q).
fn sub_mod(x: u32, y: u32) -> u32 {
    return reduce(x + Q - y, Q);
}

// `-x mod q` for x in [0, q).
fn negate_mod(x: u32) -> u32 {
    return min(Q - x, 0u - x);
}

// Lazy `x w mod q`: x is any word, `w` is in [0, q) with its companion floor(w 2^32 / q), and the result is in [0, 2
// q) (Harvey 2014, Alg. 2).
fn mul_lazy(x: u32, w: vec2<u32>) -> u32 {
    return x * w.x - mul_high(x, w.y) * Q;
}

// `x y / 2^32 mod q` for y in [0, q) and any word x; the result is in [0, q) (Montgomery's reduction of the product).
fn mul_montgomery(x: u32, y: u32) -> u32 {
    return mul_residues(x, y, Q, Q_INVERSE);
}
