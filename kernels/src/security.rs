//! Bits of security of a ring key: a fit to results of the lattice estimator.
//!
//! The fit is for uniform ternary secrets and Gaussian errors of standard deviation [`ERROR_STD`]. It takes the cost of
//! the primal attack (uSVP, with the geometric series assumption; Alkim, Ducas, Poeppelmann, Schwabe, eprint 2015/1092)
//! with the constants of MATZOV (2022), and subtracts a fitted term for bounded distance decoding and the dual attack.
//! The fit was compared with 20 runs of the lattice estimator (eprint 2015/046, version of June 2026) with results from
//! 60 to 258 bits; its largest error is 0.53 bit.

/// Standard deviation of every error, in units of 1.
pub const ERROR_STD: f64 = 3.2;

/// Largest result of [`security_bits`] (readings K17).
pub const SECURITY_BITS_MAX: u32 = 256;

/// Largest `log2 QP` for 128, 192 and 256 bits, by `N` (eprint 2024/463, Table 5.2, ternary secret, classical
/// attacks).
const LIMITS: [(usize, [Option<u32>; 3]); 6] = [
    (1024, [Some(26), None, None]),
    (2048, [Some(53), Some(36), Some(27)]),
    (4096, [Some(106), Some(73), Some(56)]),
    (8192, [Some(214), Some(147), Some(114)]),
    (16384, [Some(430), Some(297), Some(230)]),
    (32768, [Some(868), Some(597), Some(462)]),
];

/// Returns the largest `log2 QP` with `bits` bits of security (128, 192 or 256) at degree `polynomial_size`; `None` if
/// no modulus reaches this security.
pub fn log_modulus_max(polynomial_size: usize, bits: u32) -> Option<u32> {
    let column = [128, 192, 256].iter().position(|&column| column == bits)?;
    LIMITS.iter().find(|(n, _)| *n == polynomial_size)?.1[column]
}

/// Computes the bits of security of a ring key of degree `N`. The key's largest modulus, including the special primes,
/// is `2^log_modulus`. The result is rounded down, and is at most [`SECURITY_BITS_MAX`] (readings K17).
pub fn security_bits(polynomial_size: usize, log_modulus: f64) -> u32 {
    // the added 0.05 bits are within the error of the fit; with them, the moduli in `LIMITS` reach their security level
    ((estimate(polynomial_size as f64, log_modulus) + 0.05) as u32).min(SECURITY_BITS_MAX)
}

/// Largest `log2` of the modulus of a key of the sparse secret of bootstrapping, in secure parameter sets.
pub const LOG_SPARSE_MAX: f64 = 112.0;

/// Estimates of a sparse secret with 32 nonzero coefficients at degree 32768: `log2` of the modulus, and the bits of
/// security (the hybrid attack with a meet in the middle, as the lattice estimator computes its cost).
const SPARSE: [(f64, u32); 3] = [(LOG_SPARSE_MAX, 149), (170.0, 136), (220.0, 128)];

/// Returns the bits of security of the sparse secret of bootstrapping, whose key has the largest modulus
/// `2^log_modulus`: the estimate for the next larger modulus. 0 below degree 32768 and above 220 bits.
pub fn sparse_security_bits(polynomial_size: usize, log_modulus: f64) -> u32 {
    let found = SPARSE.iter().find(|(most, _)| log_modulus <= *most);
    if polynomial_size < 32768 { 0 } else { found.map_or(0, |(_, bits)| *bits) }
}

fn estimate(n: f64, log_q: f64) -> f64 {
    use libm::{ceil, log, log2};
    /// `log2` of a sieve's cost: the part for each dimension, and the constant part (MATZOV 2022, list decoding,
    /// classical)
    const SIEVE: [f64; 2] = [0.296135, 20.387886];
    let log_error = log2(ERROR_STD);
    // the secret is scaled to the size of the error
    let scaling = log_error - 0.5 * log2(2.0 / 3.0);
    if log_q <= scaling {
        return 0.0;
    }
    let pi_e = std::f64::consts::PI * std::f64::consts::E;
    // log2 of the root Hermite factor of BKZ (Chen 2013)
    let hermite = |b: f64| (log2(b / (2.0 * pi_e)) + log2(std::f64::consts::PI * b) / b) / (2.0 * (b - 1.0));
    let dimension = |b: f64| libm::sqrt(n * (log_q - scaling) / hermite(b)).max(n + 2.0);
    let succeeds = |b: f64| {
        let d = dimension(b);
        let log_volume = (d - n - 1.0) * log_q + n * scaling + log_error;
        log_error + log2(b) / 2.0 <= (2.0 * b - d - 1.0) * hermite(b) + log_volume / d
    };
    let (mut fails, mut holds) = (40.0, 4096.0);
    if succeeds(fails) {
        return 0.0;
    }
    while holds - fails > 1.0 {
        let middle = ceil((fails + holds) / 2.0 - 0.5);
        if succeeds(middle) { holds = middle } else { fails = middle }
    }
    let b = holds;
    // the sieve's dimension, reduced by the "dimensions for free" of Ducas (2018)
    let sieve = b - b * log(4.0 / 3.0) / log(b / (2.0 * pi_e));
    let progressive = -log2(1.0 - libm::exp2(-SIEVE[0]));
    let uncorrected = 2.0 * progressive + log2((dimension(b) - b).max(1.0)) + SIEVE[0] * sieve + SIEVE[1];
    let of_decoding = 0.5 * (4096.0 / n - 0.125).max(0.0) * libm::pow(uncorrected / 128.0, 3.0);
    (uncorrected - of_decoding).min(n * log2(3.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fit_is_within_a_bit_of_the_estimator() {
        // degree, log2 of the modulus, and the estimator's minimum over uSVP, BDD and dual hybrid
        let recorded = [
            (4096, 56.0, 258.0),
            (4096, 73.0, 193.2),
            (4096, 106.0, 128.9),
            (4096, 150.0, 90.2),
            (4096, 230.0, 60.6),
            (8192, 114.0, 256.9),
            (8192, 147.0, 193.3),
            (8192, 214.0, 128.3),
            (8192, 300.0, 90.9),
            (8192, 440.0, 63.8),
            (16384, 230.0, 256.6),
            (16384, 297.0, 192.1),
            (16384, 430.0, 128.4),
            (16384, 520.0, 105.5),
            (16384, 600.0, 91.7),
            (32768, 462.0, 256.8),
            (32768, 597.0, 192.0),
            (32768, 820.0, 135.8),
            (32768, 868.0, 128.0),
            (32768, 1000.0, 110.6),
        ];
        for (n, log_q, bits) in recorded {
            let found = estimate(n as f64, log_q);
            assert!((found - bits).abs() < 0.6, "{n} {log_q}: {found} for {bits}");
        }
    }

    #[test]
    fn every_limit_of_the_table_reaches_its_level_and_little_more_does_not() {
        for (n, limits) in LIMITS.into_iter().filter(|(n, _)| *n >= 4096) {
            for (bits, limit) in [128, 192, 256].into_iter().zip(limits) {
                let limit = f64::from(limit.unwrap());
                assert!(security_bits(n, limit) >= bits, "{n} {limit}");
                assert!(security_bits(n, 1.02 * limit) < bits || bits == 256, "{n} {limit}");
            }
        }
    }

    #[test]
    fn a_sparse_secret_is_as_secure_as_the_next_larger_modulus_that_was_estimated() {
        let moduli = [60.0, 112.0, 112.1, 170.0, 171.0, 220.0, 221.0];
        assert_eq!(moduli.map(|log| sparse_security_bits(32768, log)), [149, 149, 136, 136, 128, 128, 0]);
        assert_eq!([64, 256, 16384].map(|n| sparse_security_bits(n, 60.0)), [0; 3]);
    }

    #[test]
    fn testing_degrees_have_no_security_and_no_limit() {
        assert_eq!([64, 256].map(|n| security_bits(n, 200.0)), [0, 0]);
        assert_eq!(security_bits(256, 964.0), 0);
        assert_eq!([64, 256, 32768].map(|n| log_modulus_max(n, 128)), [None, None, Some(868)]);
        assert_eq!(log_modulus_max(32768, 129), None);
    }
}
