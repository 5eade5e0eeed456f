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

/// The shortest ways to all rotations of a ring, over the rotations that a key has.
pub struct Paths {
    /// The step count and the Galois element of each rotation of the key.
    known: Vec<(u32, u32)>,
    /// For each step count, which of `known` is the last rotation of a shortest path, counted from 1. 0: no path.
    last: Vec<u16>,
}

impl Paths {
    /// Searches over these Galois elements; elements that are not rotations are ignored.
    pub fn new(polynomial_size: usize, elements: &[u32]) -> Paths {
        let slots = polynomial_size / 2;
        let mut is_known = vec![false; 2 * polynomial_size];
        elements.iter().for_each(|&element| is_known[element as usize] = true);
        // the step count of each element, which is its discrete logarithm to base 5
        let mut power = 1;
        let mut known = Vec::new();
        for step in 0..slots as u32 {
            if step > 0 && is_known[power] {
                known.push((step, power as u32));
            }
            power = power * 5 % (2 * polynomial_size);
        }
        // breadth-first search from 0
        let mut last = vec![0; slots];
        let mut waiting = VecDeque::from([0]);
        let mut missing = slots - 1;
        while let Some(at) = waiting.pop_front().filter(|_| missing > 0) {
            for (&(step, _), number) in known.iter().zip(1..) {
                let next = (at + step as usize) & (slots - 1);
                if next != 0 && last[next] == 0 {
                    last[next] = number;
                    missing -= 1;
                    waiting.push_back(next);
                }
            }
        }
        Paths { known, last }
    }

    /// Returns the Galois elements of the shortest sequence of rotations that together rotate by `steps` to the left.
    /// The sequence is empty for a whole turn; `None` if no sequence exists.
    pub fn to(&self, steps: i64) -> Option<Vec<u32>> {
        let slots = self.last.len();
        let (mut at, mut path) = (steps.rem_euclid(slots as i64) as usize, Vec::new());
        while at != 0 {
            let (step, element) = self.known[usize::from(self.last[at]).checked_sub(1)?];
            path.push(element);
            at = (at + slots - step as usize) & (slots - 1);
        }
        path.reverse();
        Some(path)
    }
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
                let found = Paths::new(n, elements).to(steps).unwrap();
                assert!(found.len() <= hops_max, "{steps}: {found:?}");
                let product = found.iter().fold(1, |product, &of| product * u64::from(of) % 512);
                assert_eq!(product, u64::from(element(n, steps)), "{steps}");
            }
        }
        let exact = [&positive[..], &[element(n, 77)]].concat();
        assert_eq!(Paths::new(n, &exact).to(77), Some(vec![element(n, 77)]));
        assert_eq!(Paths::new(n, &[]).to(128), Some(vec![]));
        assert_eq!(Paths::new(n, &[element(n, 2), conjugation(n)]).to(3), None, "odd steps are no multiples of 2");
    }
}
