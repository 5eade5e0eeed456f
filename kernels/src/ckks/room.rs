//! How large the numbers of a ciphertext may be: one rule for the node, which refuses results that would wrap around
//! the modulus, and for the client, which encrypts and decrypts.

use super::params::Params;

/// The part of a bit by which a modulus must exceed twice the largest coefficient. The logarithms of moduli are rounded
/// sums, with errors below this part.
const MARGIN_BITS: f64 = 1.0 / (1 << 20) as f64;

/// Checks the numbers of a ciphertext's record: the scale, then the bound on the numbers and the variance of the error
/// (docs/wire-format.md 18).
///
/// # Errors
/// Why no container holds such a ciphertext: the scale is below 1 or reaches the modulus of the level, or one of the
/// other two numbers is negative, subnormal or not finite.
pub fn check_record(params: &Params, level: usize, scale: f64, noise: [f64; 2]) -> Result<(), String> {
    let is_amount = |x: f64| x.is_sign_positive() && (x == 0.0 || x.is_normal());
    if !(is_amount(scale) && scale >= 1.0 && libm::log2(scale) < params.level(level).log_modulus) {
        return Err(format!("the scale {scale} is below 1 or too large for level {level}"));
    }
    if !noise.into_iter().all(is_amount) {
        return Err("the value bound and the variance must be numbers of at least 0".into());
    }
    Ok(())
}

/// Whether coefficients of magnitude up to `largest`, scale included, are the whole numbers nearest to 0 of their
/// residues modulo `2^log_modulus`. False for NaN and infinity.
pub fn fits(largest: f64, log_modulus: f64) -> bool {
    largest.is_finite() && libm::log2(largest) + 1.0 + MARGIN_BITS < log_modulus
}

/// Finds the fewest primes of the level, the widest first, that hold coefficients of magnitude up to `largest`, scale
/// included. Returns their places in the list of the level's primes; `None` if all primes of the level hold less.
pub fn primes(params: &Params, level: usize, largest: f64) -> Option<Vec<usize>> {
    let of_level = params.level(level);
    // the same comparison as a plan's: a sum of logarithms in another order has another last place
    if !fits(largest, of_level.log_modulus) {
        return None;
    }
    let q = |place: usize| params.primes()[of_level.primes[place]].q();
    let mut places: Vec<usize> = (0..of_level.primes.len()).collect();
    places.sort_by_key(|&place| std::cmp::Reverse(q(place)));
    let mut log_modulus = 0.0;
    let enough = places.iter().position(|&place| {
        log_modulus += libm::log2(f64::from(q(place)));
        fits(largest, log_modulus)
    });
    places.truncate(enough.map_or(places.len(), |last| last + 1));
    Some(places)
}
