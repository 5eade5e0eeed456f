//! Why sums by the double-precision transform round to the exact integers for every key, even a hostile one: a key is
//! loaded in a random representation.
//!
//! # The method
//! A key word `w` in `[0, q)` is a residue: `w` and `w - q` are equivalent. When a key is loaded, each of its words
//! becomes `w - q` with probability `w / q`, and stays `w` otherwise ([`represent`]). The choice comes from a stream
//! whose seed the operating system provides; the seed is discarded at once. So every integer of a loaded key is
//! independent of the others, has mean 0 (up to `q 2^-32`) and lies in an interval of length `q`. The method adds no
//! work to the steps of a rotation.
//!
//! # Why it helps
//! Digits come from accumulators, and accumulators hold the exact words under every representation. So as long as all
//! sums so far were right (induction over steps and gates), digits do not depend on the representation, whatever keys
//! and ciphertexts were sent. Digits therefore count as constants, and every linear function of the key is a sum of
//! independent variables with mean 0.
//!
//! # The bound
//! Let `u = 2^-53`, `s = q / 2`, `R` rows, `M = N / 2` points. Let `d` be the square root of the sum of all squared
//! digits of a step; `d` is at most `sqrt(R N) B / 2`.
//!
//! 1. *One functional.* A linear functional of the key's integers whose coefficients have norm `a` exceeds `s a sqrt(2x)`
//!    with probability at most `2 e^-x` (Hoeffding, "Probability inequalities for sums of bounded random variables", J. Amer.
//!    Statist. Assoc. 58, 1963, theorem 2).
//! 2. *Roundings of a stage.* An output is made up of `c` complex values of a stage, each times a factor of magnitude
//!    one. The real and the imaginary part of such a value are rounded, each with an error of at most `u` times its
//!    size. The resulting error is at most `u` times the largest of `2^2c` functionals, one for each choice of signs.
//!    Real and imaginary parts of a value have coefficients of equal norm, so each functional has the norm of the
//!    output itself, `d`. All of them stay below `s d g(c)` with `g(c) = sqrt(2x + 4c ln 2)`, except with probability
//!    `2 e^-x`.
//!
//! In units of `u s d`, the error of a step's output is then at most the sum of
//! - `F sqrt(2x)`: the digits' transforms. Their errors have norm at most `F u d` and do not depend on the key. `F`
//!   adds one unit for each rounding and each rounded factor that a value goes through ([`Roundings::forward`]);
//! - `g(R M)`: the key's values. Each is rounded once, after a transform that is more precise than doubles
//!   ([`fft::precise`]);
//! - `2 (sqrt(1/R) + .. + sqrt(R/R)) g(M)`: the products; each row rounds the growing sum twice;
//! - `g(M/2) + g(M/4) + .. + g(1)`: the sums of the inverse transform. Its rounded products add `g(c)` for each number
//!   `c` in [`Roundings::products`];
//! - `H sqrt(2x)`: the rounded factors of the inverse transform ([`Roundings::factors`]).
//!
//! Products of two such errors are smaller than `2^-40` times this bound. A sum with an error below 7/8 is either right
//! or detected (`reals.rs`). [`serves`] requires that all sums of a bootstrap stay below 7/8 except with a probability
//! of 2^-28. This probability is over the node's random choice of the representation, and it holds even if every
//! rounding has the worst possible sign. For most shapes the bound is far smaller: `fast_128` stays below 7/8 except
//! with probability 2^-472. The measured error is about 2^-6, for ordinary keys and for keys that a search finds. So a
//! hostile key neither changes a result nor makes the node compute a step twice.

use std::f64::consts::LN_2;

use crate::cpu::simd::Isa;
use crate::tfhe::cpu::fft;
use crate::tfhe::{Params, RING_MODULUS};

/// Smallest distance from the exact integer at which a wrong sum may stay undetected.
const UNNOTICED: f64 = 7.0 / 8.0;

/// log2 of the allowed probability that a sum of a bootstrap exceeds the bound.
const FAILURE_LOG2: f64 = -28.0;

/// The number of functionals in the bound of one sum. Each of them may exceed its bound on either side.
const FUNCTIONALS: f64 = 160.0;

/// Replaces each word `w` by `w` or `w - q`, as a signed word. `uniform` has one uniformly random word for each choice.
pub fn represent(words: &mut [u32], uniform: &[u32]) {
    for (word, &uniform) in words.iter_mut().zip(uniform) {
        let below_q = ((u64::from(uniform) * u64::from(RING_MODULUS)) >> 32) as u32;
        let turn = if below_q < *word { RING_MODULUS } else { 0 };
        *word = word.wrapping_sub(turn);
    }
}

/// Whether wrong sums are detected for every key, except with probability `2^-28` for each bootstrap.
pub fn serves(isa: Isa, params: &Params) -> bool {
    fft::vectors(isa, params.polynomial_size)
        .is_some_and(|(isa, reals)| error(isa, reals, params, FAILURE_LOG2) < UNNOTICED)
}

/// Returns a bound on the error of a bootstrap's sums. The bound fails with a probability of at most `2^failure_log2`.
fn error(isa: Isa, reals: usize, p: &Params, failure_log2: f64) -> f64 {
    let (degree, rows) = (p.polynomial_size as f64, p.rgsw_rows() as f64);
    let points = p.polynomial_size / 2;
    let sums = p.lwe_dimension as f64 * (p.glwe_dimension + 1) as f64 * degree;
    let x = (FUNCTIONALS * sums).ln() - failure_log2 * LN_2;
    let alone = (2.0 * x).sqrt();
    let g = |values: f64| (2.0 * x + 4.0 * values * LN_2).sqrt();
    let roundings = Roundings::new(isa, reals, points);
    let products = 2.0 * (1..=p.rgsw_rows()).map(|row| (row as f64 / rows).sqrt()).sum::<f64>() * g(points as f64);
    let back: f64 = (1..=points.ilog2()).map(|stage| g((points >> stage) as f64)).sum();
    let products_back: f64 = roundings.products.iter().map(|&values| g(values as f64)).sum();
    let key = g(rows * points as f64);
    let all = (roundings.forward + roundings.factors) * alone + key + products + back + products_back;
    let digits = (rows * degree).sqrt() * f64::from(1 << (p.bootstrap_base_log - 1));
    all * f64::exp2(-53.0) * f64::from(RING_MODULUS) / 2.0 * digits
}

/// Numbers of roundings in the transforms. The sums of the inverse transform are not included.
struct Roundings {
    /// Roundings of the forward transform and its rounded factors, in units of one rounding.
    forward: f64,
    /// For each rounding of products in the inverse transform, the number of rounded values that contribute to an output.
    products: Vec<usize>,
    /// Number of rounded factors that a value is multiplied by in the inverse transform.
    factors: f64,
}

impl Roundings {
    fn new(isa: Isa, reals: usize, points: usize) -> Roundings {
        let mut out = Roundings { forward: 0.0, products: Vec::new(), factors: 0.0 };
        let mut done = 0;
        for (number, stages) in fft::stages_of_passes(reals, points).into_iter().enumerate() {
            if isa.separate_adders() {
                // A butterfly rounds its sum twice and passes the sum's error on to its difference; together, this
                // makes 2 sqrt 2 + 1 units (3.83). In a pass of two stages, two of the four vectors are multiplied by
                // their factors in place of the first butterfly, and the sums of the second stage add one unit. In
                // every pass, one rounded factor adds one more unit.
                out.forward += if stages == 2 { 5.83 } else { 4.83 };
                // in an inverse pass, the products come after the sums; each product is rounded twice
                out.products.extend([points >> (done + stages); 2]);
                out.factors += 1.0;
            } else {
                // two units for the multiplication by a tangent, two for each stage's sum with a cosine, and, if there
                // are three stages, one for the multiplication by an eighth of a turn before the third stage
                out.forward += f64::from(2 + 2 * stages + u32::from(stages == 3));
                if number > 0 {
                    out.products.push(points >> done);
                }
                if stages == 3 {
                    out.products.push(points >> (done + 2));
                }
                // the first inverse pass has only one rounded factor, the cosine of an eighth of a turn
                out.factors += if number > 0 { f64::from(1 + stages) } else { 1.0 };
            }
            done += stages;
        }
        if !isa.separate_adders() {
            // the twist
            out.products.extend([1; 2]);
            out.factors += 1.0;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tfhe::{ParamsLiteral, Preset};

    fn shape(preset: Preset, base_log: usize, levels: usize) -> Params {
        let literal = ParamsLiteral { bootstrap_base_log: base_log, bootstrap_level_count: levels, ..*preset.params() };
        Params::try_from(literal).expect("legal")
    }

    fn vectors() -> impl Iterator<Item = (Isa, usize)> {
        Isa::available().into_iter().filter_map(|isa| fft::vectors(isa, 1024))
    }

    /// Checks the figures in the introduction of this file and in ARCHITECTURE.md.
    #[test]
    #[cfg_attr(not(vectors_of_doubles), ignore = "this processor has no vectors of doubles")]
    fn sums_of_every_shape_that_is_accepted_are_right_or_noticed_whatever_the_key() {
        for (isa, reals) in vectors() {
            for preset in Preset::ALL {
                for (base_log, levels) in [(8, 2), (9, 2), (6, 3)] {
                    let p = shape(preset, base_log, levels);
                    let bound = error(isa, reals, &p, FAILURE_LOG2);
                    println!("{} {} 2^{base_log} x {levels}: {bound:.3}", isa.name(), preset.name());
                    assert!(serves(isa, &p), "{} {preset:?} 2^{base_log} x {levels}: {bound}", isa.name());
                }
            }
            let fast = Preset::Fast128.params();
            assert!(error(isa, reals, &fast, -470.0) < UNNOTICED);
            assert!(!serves(isa, &shape(Preset::Fast128, 10, 2)));
        }
    }

    #[test]
    fn a_representation_is_the_word_or_q_less_and_means_nothing_on_average() {
        let uniform: Vec<u32> = (0..1 << 16).map(|i: u32| i << 16 | 0x8000).collect();
        for word in [0, 1, 1 << 20, RING_MODULUS / 3, RING_MODULUS / 2, RING_MODULUS - 1] {
            let mut words = vec![word; uniform.len()];
            represent(&mut words, &uniform);
            assert!(words.iter().all(|&x| x == word || x == word.wrapping_sub(RING_MODULUS)));
            let sum: i64 = words.iter().map(|&x| i64::from(x as i32)).sum();
            assert!(sum.unsigned_abs() <= u64::from(RING_MODULUS), "{word}: {sum}");
        }
    }
}
