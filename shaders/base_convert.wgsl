// Base conversion: kernels/src/cpu/base_convert.rs in WGSL. Helpers of `ntt_columns`. Needs `limb`.

// Bits of a fraction in step (2).
const FRACTION_BITS: u32 = 28u;

// A source prime: its index, 30 minus its number of bits, the factor of step (1) with its companion, and the factor of
// the fraction in step (2).
const SOURCE_WORDS: u32 = 5u;

// One residue of a source, from any word to [0, a_i).
fn scaled(p: Limb, x: u32, source: u32) -> u32 {
    // (1) y_i = x_i scale_i mod a_i
    return reduce(mul_lazy(p, x, vec2<u32>(table[source + 2u], table[source + 3u])), p.q);
}

// The sum of fractions with that of a residue.
fn with_fraction(sum: u32, y: u32, source: u32) -> u32 {
    // (2) sum <- sum + y_i / a_i
    return sum + mul_high(y << table[source + 1u], table[source + 4u]);
}

// The sum of a target with a residue, or with the quotient, times its factor.
fn with_converted(p: Limb, sum: u32, y: u32, factor: u32) -> u32 {
    // (3) out = sum of y_i factor_i
    return add_residues(sum, mul_montgomery(p, y, factor), p.q);
}
