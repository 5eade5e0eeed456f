//! Plaintexts that many computations share, in a form that takes little memory: rounded coefficients instead of
//! residues.

use super::encode::Rounded;
use crate::modular::Modulus;
use crate::ring::{Ring, Root};

/// Half of the range of coefficients, which is `[-2^62, 2^62)`.
const OFFSET: i64 = 1 << 62;
/// The least number of stored coefficients, which is also a whole number of every CPU's vectors.
pub const STORED_MIN: usize = 64;

/// A plaintext as whole numbers: every `gap`-th coefficient of a polynomial whose other coefficients are 0. A plaintext
/// whose slots repeat after `N / (2 gap)` slots has this form.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Weights {
    gap: usize,
    /// The coefficients plus [`OFFSET`], as high and low words.
    high: Vec<u32>,
    low: Vec<u32>,
}

impl std::fmt::Debug for Weights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Weights").field("gap", &self.gap).finish_non_exhaustive()
    }
}

/// The constants that turn coefficients into residues modulo one prime: `offset + high high_unit + low`.
pub struct Reduction {
    /// `-2^62` modulo the prime.
    pub offset: u32,
    /// `2^32` modulo the prime.
    pub high_unit: Root,
    /// 1.
    pub low_unit: Root,
}

impl Reduction {
    /// The numbers of this prime.
    pub fn new(modulus: Modulus) -> Reduction {
        let power = |exponent: u32| modulus.pow(2 % modulus.q(), exponent);
        Reduction {
            offset: modulus.sub(0, power(62)),
            high_unit: Root::new(modulus, power(32)),
            low_unit: Root::new(modulus, 1),
        }
    }
}

impl Weights {
    /// Rounds the coefficients of an encoded plaintext. The coefficients of the whole polynomial are `gap` apart.
    ///
    /// # Panics
    /// When there are fewer than [`STORED_MIN`] coefficients, or a magnitude is 2^62 or more.
    pub fn new(rounded: &Rounded, gap: usize) -> Weights {
        let coefficients: Vec<i64> = rounded.coefficients().iter().map(|&c| whole(c)).collect();
        Weights::of(&coefficients, gap)
    }

    /// A plaintext of these coefficients.
    ///
    /// # Panics
    /// As [`Weights::new`].
    pub fn of(coefficients: &[i64], gap: usize) -> Weights {
        assert!(coefficients.len() >= STORED_MIN && gap.is_power_of_two(), "whole vectors");
        let words = |shift: u32| {
            let word = |&c: &i64| {
                assert!((-OFFSET..OFFSET).contains(&c), "a coefficient below 2^62");
                ((c + OFFSET) as u64 >> shift) as u32
            };
            coefficients.iter().map(word).collect()
        };
        Weights { gap, high: words(32), low: words(0) }
    }

    /// How far apart the stored coefficients are in the polynomial.
    pub fn gap(&self) -> usize {
        self.gap
    }

    /// `N`.
    pub fn polynomial_size(&self) -> usize {
        self.gap * self.high.len()
    }

    /// The high and the low words of the stored coefficients, for [`Reduction`].
    pub fn words(&self) -> [&[u32]; 2] {
        [&self.high, &self.low]
    }

    /// Bytes of memory that the words take.
    pub fn bytes(&self) -> usize {
        8 * self.high.len()
    }

    /// The definition of the plaintext's residues in the order of [`Ring::forward`].
    ///
    /// # Panics
    /// When the ring has another degree.
    pub fn row(&self, ring: &Ring) -> Vec<u32> {
        assert_eq!(ring.polynomial_size(), self.polynomial_size(), "a ring of the plaintext's degree");
        let mut row = vec![0; self.polynomial_size()];
        for ((&high, &low), out) in self.high.iter().zip(&self.low).zip(row.iter_mut().step_by(self.gap)) {
            let coefficient = (i64::from(high) << 32 | i64::from(low)) - OFFSET;
            *out = coefficient.rem_euclid(i64::from(ring.modulus.q())) as u32;
        }
        ring.forward(&mut row);
        row
    }
}

/// Rounds to the nearest whole number, ties to even.
fn whole(x: f64) -> i64 {
    assert!(x.abs() < OFFSET as f64, "a coefficient below 2^62");
    x.round_ties_even() as i64
}
