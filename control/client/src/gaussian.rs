//! Gaussian noise in constant time on every target. Drawn values pass only through additions, multiplications, shifts
//! and masks. No branch, table, division or square root depends on them. Division and square root are avoided because
//! they take varying time on some processors.
//!
//! The Box-Muller method with logarithm, cosine and sine as polynomials over the whole range. Tails reach 9.4 standard
//! deviations, because the uniform word has 64 bits.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::Rng;

/// Two independent samples of a standard normal distribution.
fn standard_pair(rng: &mut ChaCha20Rng) -> [f64; 2] {
    // u in (0, 1], v in [-1/2, 1/2)
    let u = (float(rng.next_u64()) + 1.0) * TWO_TO_MINUS_64;
    let v = float(rng.next_u64() >> 11) * TWO_TO_MINUS_53 - 0.5;
    let radius = square_root(0.0 - 2.0 * ln(u));
    let (sin, cos) = sin_cos_turns(v);
    [radius * cos, radius * sin]
}

const TWO_TO_MINUS_53: f64 = 1.0 / (1u64 << 53) as f64;
const TWO_TO_MINUS_64: f64 = TWO_TO_MINUS_53 / (1u64 << 11) as f64;

/// Returns the floating-point number nearest to `x`. Converts the two halves of the word separately, because some
/// targets branch on the highest bit of a whole word.
fn float(x: u64) -> f64 {
    const TWO_TO_32: f64 = (1u64 << 32) as f64;
    (x >> 32) as u32 as f64 * TWO_TO_32 + x as u32 as f64
}

/// Fills `out` with noise of standard deviation `std`. Each value is rounded to the nearest integer.
pub fn fill(rng: &mut ChaCha20Rng, std: f64, out: &mut [i64]) {
    for pair in out.chunks_mut(2) {
        for (out, sample) in pair.iter_mut().zip(standard_pair(rng)) {
            *out = round(sample * std);
        }
    }
}

/// Fills `out` with noise of standard deviation `std` that is not rounded.
pub fn fill_real(rng: &mut ChaCha20Rng, std: f64, out: &mut [f64]) {
    for pair in out.chunks_mut(2) {
        for (out, sample) in pair.iter_mut().zip(standard_pair(rng)) {
            *out = sample * std;
        }
    }
}

/// Rounds to the nearest integer, for magnitudes below 2^51: the integer is in the low bits of the sum with 1.5 * 2^52.
fn round(x: f64) -> i64 {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    ((x + SHIFT).to_bits() as i64).wrapping_sub(SHIFT.to_bits() as i64)
}

/// Natural logarithm of a normal positive number: the exponent is split off, then the series of `2 artanh((m - 1) / (m
/// + 1))`.
fn ln(x: f64) -> f64 {
    const SQRT_HALF_BITS: i64 = 0x3fe6_a09e_667f_3bcd;
    const ODD_RECIPROCALS: [f64; 12] = {
        let mut table = [0.0; 12];
        let mut i = 0;
        while i < 12 {
            table[i] = 1.0 / (2 * i + 1) as f64;
            i += 1;
        }
        table
    };
    let bits = x.to_bits() as i64;
    let exponent = (bits - SQRT_HALF_BITS) >> 52;
    // m in [sqrt(1/2), sqrt(2))
    let m = f64::from_bits((bits - (exponent << 52)) as u64);
    let z = (m - 1.0) * reciprocal_from_1_7_to_2_5(m + 1.0);
    let z2 = z * z;
    let series = ODD_RECIPROCALS.iter().rev().fold(0.0, |sum, reciprocal| sum * z2 + reciprocal);
    exponent as i32 as f64 * std::f64::consts::LN_2 + 2.0 * z * series
}

/// `1 / x` for `x` in `[1.7, 2.5]`: Newton's iteration from the best linear approximation, whose relative error is 1.9
/// %. Every step squares the error.
fn reciprocal_from_1_7_to_2_5(x: f64) -> f64 {
    let mut reciprocal = 0.97 - 0.231 * x;
    for _ in 0..4 {
        reciprocal *= 2.0 - x * reciprocal;
    }
    reciprocal
}

/// The square root of 0 or a normal positive number: Newton's iteration for the reciprocal root. The first
/// approximation halves the exponent (relative error below 3.5 %; Lomont, "Fast inverse square root", 2003).
fn square_root(x: f64) -> f64 {
    let mut reciprocal = f64::from_bits(0x5fe6_eb50_c7b5_37a9 - (x.to_bits() >> 1));
    for _ in 0..5 {
        reciprocal *= 1.5 - 0.5 * x * reciprocal * reciprocal;
    }
    x * reciprocal
}

/// Sine and cosine of `v` turns, `v` in `[-1/2, 1/2]`, by their Taylor series.
fn sin_cos_turns(v: f64) -> (f64, f64) {
    /// Factors of the terms `i` from 1 to 16: first `1 / ((2 i - 1) 2 i)` for the cosine, then `1 / (2 i (2 i + 1))`
    /// for the sine.
    const RECIPROCALS: [(f64, f64); 16] = {
        let mut table = [(0.0, 0.0); 16];
        let mut i = 0;
        while i < 16 {
            let even = 2.0 * (i + 1) as f64;
            table[i] = (1.0 / ((even - 1.0) * even), 1.0 / (even * (even + 1.0)));
            i += 1;
        }
        table
    };
    let x = v * std::f64::consts::TAU;
    let x2 = x * x;
    let (sin, cos) = RECIPROCALS
        .iter()
        .rev()
        .fold((1.0, 1.0), |(sin, cos), (of_cos, of_sin)| (1.0 - sin * x2 * of_sin, 1.0 - cos * x2 * of_cos));
    (x * sin, cos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::rand_core::SeedableRng;

    #[test]
    fn the_polynomials_are_the_functions() {
        for i in 1..10_000 {
            let u = i as f64 / 9_999.0;
            assert!((ln(u) - u.ln()).abs() < 1e-13 * (1.0 + u.ln().abs()), "{u}");
            assert!((ln(u * 1e-19) - (u * 1e-19).ln()).abs() < 1e-12);
            let v = u - 0.5;
            let (sin, cos) = sin_cos_turns(v);
            let x = v * std::f64::consts::TAU;
            assert!((sin - x.sin()).abs() < 1e-13 && (cos - x.cos()).abs() < 1e-13, "{v}");
        }
    }

    #[test]
    fn reciprocals_and_roots_are_exact_to_the_last_bits() {
        for i in 0..=10_000 {
            let x = 1.7 + 0.8 * i as f64 / 10_000.0;
            assert!((reciprocal_from_1_7_to_2_5(x) * x - 1.0).abs() < 1e-15, "{x}");
        }
        let spread = (0..=10_000).map(|i| (1.0 + i as f64 / 10_000.0) * (i as f64 / 100.0 - 60.0).exp2());
        for x in spread {
            assert!((square_root(x) / x.sqrt() - 1.0).abs() < 1e-15, "{x}");
        }
        assert_eq!(square_root(0.0), 0.0, "the largest uniform word has no radius");
    }

    #[test]
    fn words_become_their_nearest_floating_point_numbers() {
        for x in [0, 1, u64::MAX, u64::MAX - 1024, 1 << 63, (1 << 63) - 1, 0x8000_0000_0000_0401, 0xffff_ffff] {
            assert_eq!(float(x), x as f64, "{x}");
        }
    }

    #[test]
    fn rounding_is_to_nearest() {
        for (x, nearest) in
            [(0.4, 0), (-0.4, 0), (0.6, 1), (-0.6, -1), (334_118.49, 334_118), (-1e9 - 0.7, -1_000_000_001)]
        {
            assert_eq!(round(x), nearest);
        }
    }

    #[test]
    fn samples_have_the_asked_deviation_and_normal_tails() {
        let mut rng = ChaCha20Rng::from_seed([5; 32]);
        let (std, count) = (1000.0, 200_000);
        let mut samples = vec![0; count];
        fill(&mut rng, std, &mut samples);
        let mean = samples.iter().sum::<i64>() as f64 / count as f64;
        let variance = samples.iter().map(|&x| (x * x) as f64).sum::<f64>() / count as f64;
        assert!(mean.abs() < 5.0 * std / (count as f64).sqrt(), "mean {mean}");
        assert!((variance / (std * std) - 1.0).abs() < 5.0 * (2.0 / count as f64).sqrt(), "variance {variance}");
        for (sigmas, share) in [(1.0, 0.317_311), (2.0, 0.045_500), (3.0, 0.002_700)] {
            let seen = samples.iter().filter(|&&x| (x as f64).abs() > sigmas * std).count() as f64;
            let expected = share * count as f64;
            assert!((seen - expected).abs() < 5.0 * expected.sqrt(), "beyond {sigmas}: {seen} of {expected}");
        }
    }
}
