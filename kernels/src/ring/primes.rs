//! Primes for rings of a given degree.

use crate::modular::Modulus;

/// Whether `x` is prime: Miller and Rabin's test, whose bases 2, 7 and 61 decide every `x` below 4,759,123,141 (Jaeschke 1993).
pub fn is_prime(x: u32) -> bool {
    if x < 64 {
        return [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61].contains(&x);
    }
    if [2, 3, 5, 7, 11, 13].iter().any(|&p| x.is_multiple_of(p)) {
        return false;
    }
    let mul = |a: u32, b: u32| (u64::from(a) * u64::from(b) % u64::from(x)) as u32;
    let twos = (x - 1).trailing_zeros();
    [2u32, 7, 61].iter().all(|&base| {
        let (mut power, mut square, mut exponent) = (1, base, (x - 1) >> twos);
        while exponent > 0 {
            if exponent & 1 == 1 {
                power = mul(power, square);
            }
            square = mul(square, square);
            exponent >>= 1;
        }
        let mut is_witness = power != 1 && power != x - 1;
        for _ in 1..twos {
            power = mul(power, power);
            is_witness &= power != x - 1;
        }
        !is_witness
    })
}

/// Lists at most `count` primes below `2^30` that are 1 modulo `2N` and lie within half a bit of `2^bits`, nearest
/// first. Of two equally near primes, the larger comes first.
pub fn nearest_to_power(polynomial_size: usize, bits: u32, count: usize) -> Vec<u32> {
    let step = 2 * polynomial_size as u64;
    let base = 1u64 << bits;
    // 2^(bits - 1/2) rounded down, and 2^(bits + 1/2)
    let lowest = (base as f64 * std::f64::consts::FRAC_1_SQRT_2) as u64;
    let end = ((base as f64 * std::f64::consts::SQRT_2) as u64).min(1 << Modulus::BITS_MAX);
    let mut out = Vec::new();
    for distance in (0..).map(|i| i * step) {
        let (above, below) = (base + 1 + distance, (base + 1).saturating_sub(step + distance));
        if out.len() >= count || (above >= end && below < lowest) {
            break;
        }
        let candidates = [above, below].into_iter().filter(|candidate| (lowest..end).contains(candidate));
        out.extend(candidates.map(|candidate| candidate as u32).filter(|&candidate| is_prime(candidate)));
    }
    out.truncate(count);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_of_primes_is_trial_division() {
        let by_division = |x: u32| x > 1 && (2..).take_while(|p| p * p <= x).all(|p| !x.is_multiple_of(p));
        for x in (0..20_000).chain((1 << 30) - 2_000..1 << 30) {
            assert_eq!(is_prime(x), by_division(x), "{x}");
        }
        // composite numbers that pass the test to base 2, or to bases 2 and 7
        for x in [2047, 3277, 314_821, 2_269_093, 25_326_001] {
            assert!(!is_prime(x), "{x}");
        }
    }

    #[test]
    fn primes_near_a_power_have_a_ring_and_are_in_order_of_distance() {
        for (n, bits) in [(64, 20), (4096, 24), (8192, 20), (32768, 25), (32768, 30)] {
            let found = nearest_to_power(n, bits, 40);
            let distance = |q: u32| (f64::from(q) - f64::from(bits).exp2()).abs();
            assert!(!found.is_empty());
            assert!(found.windows(2).all(|pair| distance(pair[0]) <= distance(pair[1]) + 2.0), "{found:?}");
            assert!(found.iter().all(|&q| q % (2 * n as u32) == 1 && is_prime(q) && q < 1 << 30));
            assert!(found.iter().all(|&q| (f64::from(q).log2() - f64::from(bits)).abs() <= 0.5));
        }
        // the expected counts are those of an independent program, which counted the primes of 16 to 30 bits for every
        // degree
        assert_eq!(nearest_to_power(8192, 20, 100).len(), 8);
        assert_eq!(nearest_to_power(32768, 25, 100).len(), 43);
        assert_eq!(nearest_to_power(32768, 20, 100).len(), 3);
    }
}
