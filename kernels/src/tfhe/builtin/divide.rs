//! Quotient and remainder, one bit of the quotient at a time.

use super::Form;
use super::adders::{borrows, scan};
use super::builder::{Builder, Wire, Word, ZERO};

/// The quotient a / b and the remainder a mod b. Division by 0 gives a quotient of all ones and the remainder a.
///
/// The method is restoring division: after i steps, `rest` is the remainder of the division of a's top i bits by b. So
/// step i works on only i bits.
pub(super) fn divide(builder: &mut Builder, a: &[Wire], b: &[Wire], form: Form) -> [Word; 2] {
    let reaches = reaches(builder, b, form);
    let (mut quotient, mut rest) = (Vec::new(), Vec::new());
    for (step, &next) in a.iter().rev().enumerate() {
        let width = step + 1;
        rest.insert(0, next);
        let borrows = borrows(builder, &rest, &b[..width], false, form);
        // The divisor is subtracted only if it fits into the remainder. A divisor does not fit if it has a bit above
        // the remainder's bits, or if the difference is below 0.
        let fits = builder.not(borrows[step]);
        let quotient_bit = match reaches.get(width) {
            Some(&above) => {
                let nothing_above = builder.not(above);
                builder.and(fits, nothing_above)
            }
            None => fits,
        };
        for bit in (0..width).rev() {
            let below = if bit == 0 { ZERO } else { borrows[bit - 1] };
            let change = builder.xor(b[bit], below);
            rest[bit] = builder.xor_and(rest[bit], quotient_bit, change);
        }
        quotient.insert(0, quotient_bit);
    }
    [quotient, rest]
}

/// For each bit, whether it or a higher bit is 1.
fn reaches(builder: &mut Builder, bits: &[Wire], form: Form) -> Vec<Wire> {
    let from_top: Vec<Wire> = bits.iter().rev().copied().collect();
    // more slack than `scan` can use, so `scan` makes as few joins as possible
    let slack = if form == Form::Fast { 0 } else { bits.len() };
    let mut joined = scan(&from_top, slack, &mut |low, high| builder.or(low, high));
    joined.reverse();
    joined
}

#[cfg(test)]
mod tests {
    use super::super::check::{OnNumbers, WIDTHS, built, cases, mask, on_numbers, random};

    fn divided(a: u64, b: u64, width: usize) -> Vec<u64> {
        match b {
            0 => vec![mask(width), a],
            _ => vec![a / b, a % b],
        }
    }

    #[test]
    fn quotients_and_remainders_are_those_of_numbers() {
        for width in WIDTHS {
            for form in ["", "_fast"] {
                on_numbers(&format!("builtin:div{width}{form}"), |a, b| divided(a, b, width));
            }
        }
    }

    #[test]
    fn divisors_of_every_length_divide() {
        for name in ["builtin:div64", "builtin:div64_fast"] {
            let divide = OnNumbers::of(name);
            for (at, (a, b)) in random(11).zip(random(12)).take(256).enumerate() {
                let b = b >> (at % 64);
                assert_eq!(divide.run(&[a, b]), divided(a, b, 64), "{name}: {a} {b}");
            }
        }
    }

    #[test]
    fn division_by_zero_gives_all_ones_and_the_dividend() {
        for width in WIDTHS {
            for form in ["", "_fast"] {
                let divide = OnNumbers::of(&format!("builtin:div{width}{form}"));
                for (a, _) in cases(width).into_iter().step_by(8) {
                    assert_eq!(divide.run(&[a, 0]), [mask(width), a]);
                }
            }
        }
    }

    #[test]
    fn fast_quotients_take_a_few_cells_in_a_row_a_bit() {
        let (small, fast) = (built("builtin:div64"), built("builtin:div64_fast"));
        assert!(small.cells() < 3 * 64 * 65 / 2 + 64 + 64, "{}", small.cells());
        assert!(fast.depth() < 64 * 9 && 3 * fast.depth() < small.depth(), "{}, {}", fast.depth(), small.depth());
    }
}
