//! Rotations by any number of slots, composed of the rotations that a key has.

use std::collections::VecDeque;

/// Returns the Galois element of a rotation by `steps` slots to the left, modulo `N / 2`: `5^steps mod 2N`.
pub fn element(polynomial_size: usize, steps: i64) -> u32 {
    let (slots, modulus) = (polynomial_size as i64 / 2, 2 * polynomial_size as u64);
    let (mut power, mut square, mut exponent) = (1u64, 5u64, steps.rem_euclid(slots));
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = power * square % modulus;
        }
        square = square * square % modulus;
        exponent >>= 1;
    }
    power as u32
}

/// Returns the Galois element of complex conjugation.
pub fn conjugation(polynomial_size: usize) -> u32 {
    2 * polynomial_size as u32 - 1
}

/// Finds the shortest sequence of rotations that together rotate by `steps` to the left, and returns their Galois
/// elements. All of them come from `elements`; elements that are not rotations are ignored. The sequence is empty for a
/// whole turn; `None` if no sequence exists.
pub fn path(polynomial_size: usize, steps: i64, elements: &[u32]) -> Option<Vec<u32>> {
    let slots = polynomial_size / 2;
    let wanted = steps.rem_euclid(slots as i64) as usize;
    // the step count of each element, which is its discrete logarithm to base 5
    let mut power = 1u64;
    let mut known: Vec<(usize, u32)> = Vec::new();
    for step in 0..slots {
        if step > 0 && elements.contains(&(power as u32)) {
            known.push((step, power as u32));
        }
        power = power * 5 % (2 * polynomial_size as u64);
    }
    // breadth-first search from 0; `last` has, for each step count, the last element of a shortest path
    let mut last: Vec<Option<(usize, u32)>> = vec![None; slots];
    let mut waiting = VecDeque::from([0]);
    while let Some(at) = waiting.pop_front() {
        if at == wanted {
            break;
        }
        for &(step, element) in &known {
            let next = (at + step) % slots;
            if next != 0 && last[next].is_none() {
                last[next] = Some((step, element));
                waiting.push_back(next);
            }
        }
    }
    let (mut at, mut path) = (wanted, Vec::new());
    while at != 0 {
        let (step, element) = last[at]?;
        path.push(element);
        at = (at + slots - step) % slots;
    }
    path.reverse();
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_turns_of_the_slots() {
        let n = 64;
        assert_eq!([0, 1, 2, 32, -31].map(|steps| element(n, steps)), [1, 5, 25, 1, 5]);
        // readings C8: a step count of 2^31 is legal
        assert_eq!(element(n, 1 << 31), 1);
        assert_eq!(u64::from(element(n, -1)) * 5 % 128, 1);
    }

    #[test]
    fn any_rotation_is_composed_of_powers_of_two_and_an_exact_key_is_taken_at_once() {
        let n = 256;
        let positive: Vec<u32> = (0..7).map(|bit| element(n, 1 << bit)).collect();
        let mut signed = positive.clone();
        signed.extend((0..7).map(|bit| element(n, -(1 << bit))));
        for steps in -128..256i64 {
            for (elements, hops_max) in [(&positive, 7), (&signed, 4)] {
                let found = path(n, steps, elements).unwrap();
                assert!(found.len() <= hops_max, "{steps}: {found:?}");
                let product = found.iter().fold(1, |product, &of| product * u64::from(of) % 512);
                assert_eq!(product, u64::from(element(n, steps)), "{steps}");
            }
        }
        let exact = [&positive[..], &[element(n, 77)]].concat();
        assert_eq!(path(n, 77, &exact), Some(vec![element(n, 77)]));
        assert_eq!(path(n, 128, &[]), Some(vec![]));
        assert_eq!(path(n, 3, &[element(n, 2), conjugation(n)]), None, "odd steps are no multiples of 2");
    }
}
