//! Shifts by an encrypted amount: a stage for each bit of the amount.

use super::builder::{Builder, Wire, Word, ZERO};

/// Number of bits of a shift amount: enough to write `width - 1`.
pub(super) fn amount_width(width: usize) -> usize {
    width.next_power_of_two().trailing_zeros() as usize
}

/// `a` times 2^amount, modulo 2^width. The result is 0 for amounts of `width` or more.
pub(super) fn left(builder: &mut Builder, a: &[Wire], amount: &[Wire]) -> Word {
    let mut bits: Word = a.iter().rev().copied().collect();
    bits = right(builder, &bits, amount, ZERO);
    bits.reverse();
    bits
}

/// `a` divided by 2^amount, rounded down. Copies of `fill` enter at the top: 0 for unsigned numbers, the top bit for
/// two's complement.
pub(super) fn right(builder: &mut Builder, a: &[Wire], amount: &[Wire], fill: Wire) -> Word {
    let mut bits = a.to_vec();
    for (stage, &moves) in amount.iter().enumerate() {
        let from = |bit: usize| bits.get(bit + (1 << stage)).copied().unwrap_or(fill);
        let moved: Word = (0..bits.len()).map(from).collect();
        bits = bits
            .iter()
            .zip(moved)
            .map(|(&bit, moved)| {
                if moved == ZERO {
                    let stays = builder.not(moves);
                    builder.and(bit, stays)
                } else {
                    builder.select(moves, moved, bit)
                }
            })
            .collect();
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::super::check::{OnNumbers, built, cases, mask, signed};
    use super::amount_width;

    #[test]
    fn shifts_are_those_of_numbers_for_every_amount() {
        // the amount for a width of 20 has five bits, so it may be as large as 31
        for width in [8, 16, 20, 32, 64] {
            let [left, right, arithmetic] =
                [format!("shl{width}"), format!("shr{width}"), format!("shr{width}_signed")]
                    .map(|name| OnNumbers::of(&format!("builtin:{name}")));
            for (number, (a, _)) in cases(width).into_iter().enumerate() {
                let by = number as u32 % (1 << amount_width(width));
                let inputs = [a, u64::from(by)];
                assert_eq!(left.run(&inputs), [a << by & mask(width)], "{a} {by}");
                assert_eq!(right.run(&inputs), [a >> by], "{a} {by}");
                assert_eq!(arithmetic.run(&inputs), [(signed(a, width) >> by) as u64 & mask(width)], "{a} {by}");
            }
        }
    }

    #[test]
    fn a_stage_of_a_shift_is_two_cells_a_bit() {
        assert_eq!((built("builtin:shl64").cells(), built("builtin:shl64").depth()), (2 * 6 * 64 - 63, 12));
        assert_eq!(built("builtin:shr64").cells(), built("builtin:shl64").cells());
    }
}
