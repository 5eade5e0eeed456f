//! Arithmetic modulo the ring prime `q` ([`RING_MODULUS`]), one word at a time: the definition the vector paths must equal.
//!
//! Secrets pass through [`add`], [`sub`], [`mul`], [`mul_lazy`] and [`from_signed`] on the client's side. These are constant
//! time on every target: multiplications, additions, shifts and masks only. A remainder by a constant is not, because some
//! targets (wasm32, 32-bit processors, builds without optimisation) divide for it, and a division's time depends on its
//! operands. `scripts/constant-time` looks for divisions in the produced code.

pub use crate::tfhe::params::RING_MODULUS;

/// `q` as a 64-bit word, for products.
const Q: u64 = RING_MODULUS as u64;

/// `1 / q mod 2^32`, by Newton's iteration: Montgomery's reduction needs it.
pub const Q_INVERSE: u32 = {
    let mut inverse = RING_MODULUS;
    let mut i = 0;
    while i < 5 {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(RING_MODULUS.wrapping_mul(inverse)));
        i += 1;
    }
    inverse
};

/// `a + b mod q` for `a, b` in `[0, q)`.
#[inline(always)]
pub fn add(a: u32, b: u32) -> u32 {
    reduce_once(a + b)
}

/// `a - b mod q` for `a, b` in `[0, q)`.
#[inline(always)]
pub fn sub(a: u32, b: u32) -> u32 {
    reduce_once(a + RING_MODULUS - b)
}

/// `a` in `[0, 2q)` to `[0, q)`, and `a` in `[0, 3q)` to `[0, 2q)`: subtracts `q`, and adds it again under the mask of the
/// sign, since `2q < 2^31`.
#[inline(always)]
pub fn reduce_once(a: u32) -> u32 {
    let difference = a.wrapping_sub(RING_MODULUS);
    difference.wrapping_add(((difference as i32 >> 31) as u32) & RING_MODULUS)
}

/// `floor(2^60 / q)`: Barrett's constant for a modulus of 30 bits.
const BARRETT: u64 = (1 << 60) / Q;

/// `a b mod q` for `a, b` in `[0, q)`, by Barrett's reduction (Handbook of Applied Cryptography, Alg. 14.42 with words of
/// one bit and k = 30): the estimated quotient is at most 2 too small.
#[inline(always)]
pub fn mul(a: u32, b: u32) -> u32 {
    let product = a as u64 * b as u64;
    let quotient = ((product >> 29) * BARRETT) >> 31;
    reduce_once(reduce_once((product - quotient * Q) as u32))
}

/// `a^e mod q`. The exponent is public.
pub fn pow(mut a: u32, mut e: u32) -> u32 {
    let mut out = 1;
    while e > 0 {
        if e & 1 == 1 {
            out = mul(out, a);
        }
        a = mul(a, a);
        e >>= 1;
    }
    out
}

/// `1 / a mod q` for `a` not 0, by Fermat.
pub fn inverse(a: u32) -> u32 {
    pow(a, RING_MODULUS - 2)
}

/// Shoup's companion of a constant factor: `floor(w 2^32 / q)` for `w` in `[0, q)`. Divides: for public factors only.
#[inline(always)]
pub fn companion(w: u32) -> u32 {
    (((w as u64) << 32) / Q) as u32
}

/// `x w mod q`, lazily: any word `x`, `w` in `[0, q)` with its [`companion`]; out in `[0, 2q)` (Shoup; Harvey 2014, Alg. 2).
#[inline(always)]
pub fn mul_lazy(x: u32, w: u32, w_companion: u32) -> u32 {
    let quotient = ((x as u64 * w_companion as u64) >> 32) as u32;
    x.wrapping_mul(w).wrapping_sub(quotient.wrapping_mul(RING_MODULUS))
}

/// `(2^30 - q) / q` in units of 2^-32, rounded down: what a word modulo `q` lacks to its torus word after a shift by two.
pub const TORUS_CORRECTION: u32 = ((((1u64 << 30) - Q) << 32) / Q) as u32;

/// `x` in `[0, q)` to the 32-bit torus: `x 2^32 / q`, at most two units too low. The definition is this formula.
#[inline(always)]
pub fn to_torus_lazy(x: u32) -> u32 {
    let x = x << 2;
    x.wrapping_add(((x as u64 * TORUS_CORRECTION as u64) >> 32) as u32)
}

/// `x` in `[0, q)` to the 32-bit torus, to nearest: `round(x 2^32 / q)`. Divides: for public words only.
#[inline(always)]
pub fn to_torus(x: u32) -> u32 {
    ((((x as u64) << 32) + Q / 2) / Q) as u32
}

/// A torus word modulo `q`, to nearest: `round(u q / 2^32) mod q`.
#[inline(always)]
pub fn from_torus(u: u32) -> u32 {
    reduce_once(((u as u64 * Q + (1 << 31)) >> 32) as u32)
}

/// A signed integer of magnitude below `q` as a residue.
#[inline(always)]
pub fn from_signed(x: i32) -> u32 {
    (x + ((x >> 31) & RING_MODULUS as i32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ring_modulus_is_a_prime_that_serves_every_ring_and_every_lazy_range() {
        assert!((2..40_000).all(|d: u32| d * d > RING_MODULUS || !RING_MODULUS.is_multiple_of(d)), "not prime");
        assert_eq!(RING_MODULUS % (1 << 14), 1);
        const { assert!(4 * Q < 1 << 32) };
    }

    #[test]
    fn products_of_the_largest_and_smallest_residues_are_reduced() {
        for a in [0, 1, 2, RING_MODULUS / 2, RING_MODULUS - 2, RING_MODULUS - 1] {
            for b in [0, 1, 2, RING_MODULUS / 2, RING_MODULUS - 2, RING_MODULUS - 1] {
                assert_eq!(mul(a, b) as u64, a as u64 * b as u64 % Q, "{a} {b}");
            }
        }
    }

    proptest! {
        #[test]
        fn lazy_products_are_congruent_and_below_2q(x: u32, w in 0..RING_MODULUS) {
            let lazy = mul_lazy(x, w, companion(w));
            prop_assert!(lazy < 2 * RING_MODULUS);
            prop_assert_eq!(lazy % RING_MODULUS, mul(x % RING_MODULUS, w));
        }

        #[test]
        fn products_are_the_remainders(a in 0..RING_MODULUS, b in 0..RING_MODULUS) {
            prop_assert_eq!(mul(a, b) as u64, a as u64 * b as u64 % Q);
        }

        #[test]
        fn inverses_invert(a in 1..RING_MODULUS) {
            prop_assert_eq!(mul(a, inverse(a)), 1);
        }

        #[test]
        fn torus_words_are_nearest(x in 0..RING_MODULUS) {
            let exact = (x as f64) * 4294967296.0 / Q as f64;
            prop_assert!((to_torus(x) as f64 - exact).abs() <= 0.500001 || to_torus(x) == 0);
            let low = to_torus(x).wrapping_sub(to_torus_lazy(x));
            prop_assert!(low <= 2, "{low}");
            prop_assert_eq!(from_torus(to_torus(x)), x);
        }

        #[test]
        fn signed_words_are_residues(x in -1000i32..1000) {
            prop_assert_eq!(from_signed(x) as i64, (x as i64).rem_euclid(Q as i64));
        }
    }
}
