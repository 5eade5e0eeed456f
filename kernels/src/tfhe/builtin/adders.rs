//! Sums, differences and the carries behind them.
//!
//! Small: the carry goes from bit to bit, two cells a bit. Fast: the carries of runs of bits are joined as in Ladner and
//! Fischer's prefix network (J. ACM 27, 1980), which takes about log2(width) cells one after the other.

use super::Form;
use super::builder::{Builder, Wire, Word, ZERO};

/// a + b modulo 2^width.
pub(super) fn add(builder: &mut Builder, a: &[Wire], b: &[Wire], form: Form) -> Word {
    let pairs: Vec<[Wire; 2]> = a.iter().zip(b).map(|(&a, &b)| [a, b]).collect();
    let carries = carries(builder, &pairs, false, form);
    sums(builder, a, b, &carries)
}

/// a - b modulo 2^width.
pub(super) fn subtract(builder: &mut Builder, a: &[Wire], b: &[Wire], form: Form) -> Word {
    let borrows = borrows(builder, a, b, false, form);
    sums(builder, a, b, &borrows)
}

/// Borrows of a - b - `first`: what each bit takes from the next one. The last one says whether the result is below 0.
pub(super) fn borrows(builder: &mut Builder, a: &[Wire], b: &[Wire], first: bool, form: Form) -> Vec<Wire> {
    let pairs: Vec<[Wire; 2]> = a.iter().zip(b).map(|(&a, &b)| [builder.not(a), b]).collect();
    carries(builder, &pairs, first, form)
}

/// Carries of a sum of bit pairs and `first`: what each pair gives to the next one.
fn carries(builder: &mut Builder, pairs: &[[Wire; 2]], first: bool, form: Form) -> Vec<Wire> {
    match form {
        Form::Small => {
            let mut carry = Wire::Constant(first);
            let step = |&[x, y]: &[Wire; 2]| {
                carry = builder.maj(x, y, carry);
                carry
            };
            pairs.iter().map(step).collect()
        }
        Form::Fast => {
            let bits: Vec<Run> = pairs.iter().map(|&pair| Run::Bit(pair)).collect();
            let runs = scan(&bits, 0, &mut |high: Run, low: Run| {
                let [none, one] = [false, true].map(|carry| low.carry_after(builder, carry));
                Run::Joined([high.carry_from(builder, none), high.carry_from(builder, one)])
            });
            runs.into_iter().map(|run| run.carry_after(builder, first)).collect()
        }
    }
}

/// a ^ b ^ what the bit below gives.
fn sums(builder: &mut Builder, a: &[Wire], b: &[Wire], carries: &[Wire]) -> Word {
    let below = std::iter::once(ZERO).chain(carries.iter().copied());
    a.iter().zip(b).zip(below).map(|((&a, &b), carry)| builder.xor3(a, b, carry)).collect()
}

/// What a run of neighbouring bits does with a carry that comes in: the majority of two wires and that carry goes out.
#[derive(Clone, Copy)]
enum Run {
    /// One bit: its pair.
    Bit([Wire; 2]),
    /// Several bits: what goes out if nothing comes in, and if a carry comes in. The first implies the second.
    Joined([Wire; 2]),
}

impl Run {
    /// What goes out if this comes in.
    fn carry_from(self, builder: &mut Builder, carry: Wire) -> Wire {
        let (Run::Bit([x, y]) | Run::Joined([x, y])) = self;
        // [y, x]: the gate `x ^ y` is shared by the two majorities of a run
        builder.maj(y, x, carry)
    }

    /// What goes out if this constant comes in.
    fn carry_after(self, builder: &mut Builder, carry: bool) -> Wire {
        match self {
            Run::Bit(_) => self.carry_from(builder, Wire::Constant(carry)),
            Run::Joined(out) => out[usize::from(carry)],
        }
    }
}

/// Result i joins the items 0 to i; `join` takes the higher items first and must be associative. With `slack` 0 no result is
/// behind more than ceil(log2(items)) joins. One more join for each unit of `slack` saves joins; the last result is never late.
pub(super) fn scan<T: Copy>(items: &[T], slack: usize, join: &mut impl FnMut(T, T) -> T) -> Vec<T> {
    if items.len() <= 1 {
        return items.to_vec();
    }
    if slack == 0 {
        let (low, high) = items.split_at(items.len().next_power_of_two() / 2);
        let mut joined = scan(low, 1, join);
        let below = joined[low.len() - 1];
        joined.extend(scan(high, 0, join).into_iter().map(|high| join(high, below)));
        return joined;
    }
    let pairs: Vec<T> =
        items.chunks(2).map(|pair| if let &[low, high] = pair { join(high, low) } else { pair[0] }).collect();
    let pairs = scan(&pairs, slack - 1, join);
    let result = |at: usize| match at {
        0 => items[0],
        _ if at % 2 == 1 || at + 1 == items.len() => pairs[at / 2],
        _ => join(items[at], pairs[at / 2 - 1]),
    };
    (0..items.len()).map(result).collect()
}

#[cfg(test)]
mod tests {
    use super::super::check::{WIDTHS, built, mask, on_numbers};
    use super::scan;

    #[test]
    fn sums_and_differences_are_those_of_numbers() {
        for width in WIDTHS {
            for form in ["", "_fast"] {
                on_numbers(&format!("builtin:add{width}{form}"), |a, b| vec![a.wrapping_add(b) & mask(width)]);
                on_numbers(&format!("builtin:sub{width}{form}"), |a, b| vec![a.wrapping_sub(b) & mask(width)]);
            }
        }
    }

    #[test]
    fn small_sums_take_two_cells_a_bit_and_fast_ones_few_in_a_row() {
        for name in ["builtin:add64", "builtin:sub64"] {
            assert_eq!((built(name).cells(), built(name).depth()), (127, 64), "{name}");
        }
        for (width, depth) in [(8, 5), (16, 6), (32, 7), (64, 8)] {
            for name in ["add", "sub"] {
                let built = built(&format!("builtin:{name}{width}_fast"));
                assert_eq!(built.depth(), depth, "{name}{width}_fast");
                assert!(built.cells() < 7 * width, "{name}{width}_fast: {}", built.cells());
            }
        }
    }

    #[test]
    fn a_scan_joins_every_item_once_and_in_order() {
        for items in 0..70usize {
            for slack in 0..4 {
                // a run of neighbours: its ends, and how many joins it is behind
                let bits: Vec<(usize, usize, usize)> = (0..items).map(|at| (at, at, 0)).collect();
                let joined = scan(&bits, slack, &mut |high: (usize, usize, usize), low: (usize, usize, usize)| {
                    assert_eq!(high.0, low.1 + 1);
                    (low.0, high.1, 1 + high.2.max(low.2))
                });
                let least = items.next_power_of_two().trailing_zeros() as usize;
                for (at, &(first, last, joins)) in joined.iter().enumerate() {
                    assert_eq!((first, last), (0, at));
                    assert!(joins <= least + slack);
                }
                assert!(joined.last().is_none_or(|&(_, _, joins)| joins == least), "{items} items, slack {slack}");
            }
        }
    }
}
