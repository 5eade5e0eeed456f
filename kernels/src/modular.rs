//! Arithmetic modulo a prime below `2^30`, one word at a time. The vector code must give the same results.
//!
//! On the client's side, secrets pass through [`Modulus::add`], [`Modulus::sub`], [`Modulus::mul`],
//! [`Modulus::mul_lazy`] and [`Modulus::from_signed`]. These use only multiplications, additions, shifts and masks, so
//! they run in constant time on every target. A remainder by a constant would not, because some targets (wasm32,
//! 32-bit CPUs, builds without optimization) divide, and a division's time depends on its operands.
//! `scripts/constant-time` searches the produced code for divisions.

/// A modulus `q`, an odd prime below `2^30`, so that a butterfly's lazy range, `4q`, fits a word. Derived values are
/// computed once; for a constant modulus, they are computed at compile time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Modulus {
    q: u32,
    inverse: u32,
    bits: u32,
    barrett: u64,
}

impl Modulus {
    /// Largest number of bits of a modulus.
    pub const BITS_MAX: u32 = 30;

    /// Makes the modulus `q`. The primality test takes about `sqrt(q)` divisions.
    ///
    /// # Panics
    /// When `q` is not an odd prime below `2^30`.
    pub const fn new(q: u32) -> Modulus {
        assert!(q >> Self::BITS_MAX == 0, "a modulus has 30 bits at most");
        assert!(is_odd_prime(q), "a modulus is an odd prime");
        let bits = u32::BITS - q.leading_zeros();
        Modulus { q, inverse: inverse_of_word(q), bits, barrett: (1 << (2 * bits)) / q as u64 }
    }

    /// `q`.
    #[inline(always)]
    pub const fn q(self) -> u32 {
        self.q
    }

    /// The number of bits of `q`.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// `1 / q mod 2^32`, for Montgomery's reduction.
    #[inline(always)]
    pub const fn montgomery_inverse(self) -> u32 {
        self.inverse
    }

    /// Computes `a + b mod q` for `a, b` in `[0, q)`.
    #[inline(always)]
    pub fn add(self, a: u32, b: u32) -> u32 {
        self.reduce_once(a + b)
    }

    /// Computes `a - b mod q` for `a, b` in `[0, q)`.
    #[inline(always)]
    pub fn sub(self, a: u32, b: u32) -> u32 {
        self.reduce_once(a + self.q - b)
    }

    /// Reduces `a` from `[0, 2q)` to `[0, q)`, or from `[0, 3q)` to `[0, 2q)`: subtracts `q`, and adds `q` again if the
    /// difference is negative, by a mask of the sign bit. The sign bit is right because `2q < 2^31`.
    #[inline(always)]
    pub fn reduce_once(self, a: u32) -> u32 {
        let difference = a.wrapping_sub(self.q);
        difference.wrapping_add(((difference as i32 >> 31) as u32) & self.q)
    }

    /// Computes `a b mod q` for `a, b` in `[0, q)`, by Barrett's reduction (Handbook of Applied Cryptography, Alg.
    /// 14.42 with words of one bit and k the bits of `q`): the estimated quotient is at most 2 too small.
    #[inline(always)]
    pub fn mul(self, a: u32, b: u32) -> u32 {
        let product = a as u64 * b as u64;
        let quotient = ((product >> (self.bits - 1)) * self.barrett) >> (self.bits + 1);
        self.reduce_once(self.reduce_once((product - quotient * self.q as u64) as u32))
    }

    /// Computes `a^e mod q`. The exponent is public.
    pub fn pow(self, mut a: u32, mut e: u32) -> u32 {
        let mut out = 1;
        while e > 0 {
            if e & 1 == 1 {
                out = self.mul(out, a);
            }
            a = self.mul(a, a);
            e >>= 1;
        }
        out
    }

    /// Computes `1 / a mod q` for `a` in `[1, q)`, by Fermat's little theorem.
    pub fn inverse(self, a: u32) -> u32 {
        self.pow(a, self.q - 2)
    }

    /// Computes Shoup's companion of a constant factor: `floor(w 2^32 / q)` for `w` in `[0, q)`. This function divides,
    /// so it is for public factors only.
    #[inline(always)]
    pub fn companion(self, w: u32) -> u32 {
        (((w as u64) << 32) / self.q as u64) as u32
    }

    /// Computes `x w mod q` lazily, for any word `x`, and for `w` in `[0, q)` with its [`Modulus::companion`]; the
    /// result is in `[0, 2q)` (Shoup; Harvey 2014, Alg. 2).
    #[inline(always)]
    pub fn mul_lazy(self, x: u32, w: u32, w_companion: u32) -> u32 {
        let quotient = ((x as u64 * w_companion as u64) >> 32) as u32;
        x.wrapping_mul(w).wrapping_sub(quotient.wrapping_mul(self.q))
    }

    /// Computes `x y / 2^32 mod q` for any word `x` and `y` in `[0, q)`; the result is in `[0, q)` (Montgomery's
    /// reduction of the product).
    #[inline(always)]
    pub fn mul_montgomery(self, x: u32, y: u32) -> u32 {
        let product = x as u64 * y as u64;
        let multiple = (product as u32).wrapping_mul(self.montgomery_inverse()) as u64 * self.q as u64;
        let difference = ((product >> 32) as u32).wrapping_sub((multiple >> 32) as u32);
        difference.min(difference.wrapping_add(self.q))
    }

    /// Converts a signed integer of magnitude below `q` to its residue.
    #[inline(always)]
    pub fn from_signed(self, x: i32) -> u32 {
        (x + ((x >> 31) & self.q as i32)) as u32
    }
}

/// Computes `1 / q mod 2^32` for an odd word `q`, by Newton's iteration.
const fn inverse_of_word(q: u32) -> u32 {
    let mut inverse = q;
    let mut i = 0;
    while i < 5 {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(q.wrapping_mul(inverse)));
        i += 1;
    }
    inverse
}

const fn is_odd_prime(q: u32) -> bool {
    let mut divisor = 3;
    while divisor * divisor <= q {
        if q.is_multiple_of(divisor) {
            return false;
        }
        divisor += 2;
    }
    q > 2 && q % 2 == 1
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Primes from the smallest to the largest modulus. Apart from 3, each is 1 modulo `2^12` at least, so it has rings
    /// of several degrees.
    pub const PRIMES: [u32; 9] =
        [3, 12289, 65537, 786_433, 33_292_289, 132_710_401, 536_608_769, 1_073_479_681, 1_073_692_673];

    /// Draws one of [`PRIMES`].
    fn moduli() -> impl Strategy<Value = Modulus> {
        (0..PRIMES.len()).prop_map(|i| Modulus::new(PRIMES[i]))
    }

    /// Draws a modulus and two of its residues.
    fn residues() -> impl Strategy<Value = (Modulus, u32, u32)> {
        moduli().prop_flat_map(|m| (Just(m), 0..m.q(), 0..m.q()))
    }

    #[test]
    fn a_modulus_is_an_odd_prime_below_2_to_the_30() {
        for q in [0, 1, 2, 9, 65_536, 65_539 * 16_381, 1 << 30, (1 << 30) + 3, u32::MAX] {
            assert!(std::panic::catch_unwind(|| Modulus::new(q)).is_err(), "{q}");
        }
        assert_eq!(Modulus::new((1 << 30) - 35).bits(), 30);
    }

    #[test]
    fn products_of_the_largest_and_smallest_residues_are_reduced() {
        for q in PRIMES {
            let m = Modulus::new(q);
            let residues = [0, 1, 2, q / 2, q - 2, q - 1];
            for (a, b) in residues.iter().flat_map(|&a| residues.map(|b| (a, b))) {
                assert_eq!(u64::from(m.mul(a, b)), u64::from(a) * u64::from(b) % u64::from(q), "{a} {b} mod {q}");
            }
        }
    }

    proptest! {
        #[test]
        fn sums_differences_and_products_are_the_remainders((m, a, b) in residues()) {
            let [q, x, y] = [m.q(), a, b].map(i128::from);
            prop_assert_eq!(i128::from(m.add(a, b)), (x + y) % q);
            prop_assert_eq!(i128::from(m.sub(a, b)), (x - y).rem_euclid(q));
            prop_assert_eq!(i128::from(m.mul(a, b)), x * y % q);
        }

        #[test]
        fn lazy_products_are_congruent_and_below_2q(x: u32, (m, w, _) in residues()) {
            let lazy = m.mul_lazy(x, w, m.companion(w));
            prop_assert!(lazy < 2 * m.q());
            prop_assert_eq!(lazy % m.q(), m.mul(x % m.q(), w));
        }

        #[test]
        fn montgomery_products_are_the_products_of_what_they_stand_for(x: u32, (m, y, _) in residues()) {
            prop_assert_eq!(m.mul_montgomery(x, m.mul(y, m.pow(2, 32))), m.mul(x % m.q(), y));
        }

        #[test]
        fn inverses_invert((m, a, _) in residues()) {
            prop_assume!(a != 0);
            prop_assert_eq!(m.mul(a, m.inverse(a)), 1);
            prop_assert_eq!(m.q().wrapping_mul(m.montgomery_inverse()), 1);
        }

        #[test]
        fn signed_words_are_residues((m, a, b) in residues()) {
            let x = a as i32 - b as i32;
            prop_assert_eq!(i64::from(m.from_signed(x)), i64::from(x).rem_euclid(i64::from(m.q())));
        }
    }
}
