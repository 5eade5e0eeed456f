//! Sums, differences, and their carries and borrows.
//!
//! Small form: the carry ripples from bit to bit, with two cells for each bit. Fast form: the carries of runs of bits
//! are joined as in Ladner and Fischer's prefix network (J. ACM 27, 1980), whose longest path has about log2(width)
//! cells.

use super::Form;
use super::builder::{Builder, Wire, Word, ZERO};

/// Adds two numbers: a + b modulo 2^width.
pub(super) fn add(builder: &mut Builder, a: &[Wire], b: &[Wire], form: Form) -> Word {
    let pairs: Vec<[Wire; 2]> = a.iter().zip(b).map(|(&a, &b)| [a, b]).collect();
    let carries = carries(builder, &pairs, false, form);
    sums(builder, a, b, &carries)
}

/// Subtracts two numbers: a - b modulo 2^width.
pub(super) fn subtract(builder: &mut Builder, a: &[Wire], b: &[Wire], form: Form) -> Word {
    let borrows = borrows(builder, a, b, false, form);
    sums(builder, a, b, &borrows)
}

/// The borrows that arise in a - b - `first`: entry i is true if bit i borrows from bit i + 1. The last entry is true
/// if the result is below 0.
pub(super) fn borrows(builder: &mut Builder, a: &[Wire], b: &[Wire], first: bool, form: Form) -> Vec<Wire> {
    let pairs: Vec<[Wire; 2]> = a.iter().zip(b).map(|(&a, &b)| [builder.not(a), b]).collect();
    carries(builder, &pairs, first, form)
}

/// The carries that arise when pairs of bits are added and `first` is the incoming carry of pair 0. Entry i is the
/// carry from pair i into pair i + 1.
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

/// The bits of a sum: each is `a ^ b ^ carry`, where `carry` comes from the bit below.
fn sums(builder: &mut Builder, a: &[Wire], b: &[Wire], carries: &[Wire]) -> Word {
    let below = std::iter::once(ZERO).chain(carries.iter().copied());
    a.iter().zip(b).zip(below).map(|((&a, &b), carry)| builder.xor3(a, b, carry)).collect()
}

/// How a run of neighbouring bits passes a carry on: the outgoing carry is the majority of the run's two wires and the
/// incoming carry.
#[derive(Clone, Copy)]
enum Run {
    /// One bit, with the pair of wires that are added at this bit.
    Bit([Wire; 2]),
    /// Several bits: the outgoing carry for an incoming carry of 0, and the outgoing carry for an incoming carry of 1.
    /// If the first is true, the second is true too.
    Joined([Wire; 2]),
}

impl Run {
    /// The outgoing carry for this incoming carry.
    fn carry_from(self, builder: &mut Builder, carry: Wire) -> Wire {
        let (Run::Bit([x, y]) | Run::Joined([x, y])) = self;
        // y comes first, so that both majorities of a run share the gate `x ^ y`
        builder.maj(y, x, carry)
    }

    /// The outgoing carry for a constant incoming carry.
    fn carry_after(self, builder: &mut Builder, carry: bool) -> Wire {
        match self {
            Run::Bit(_) => self.carry_from(builder, Wire::Constant(carry)),
            Run::Joined(out) => out[usize::from(carry)],
        }
    }
}

/// Prefix joins: result i joins items 0 to i. `join` takes the higher items first and must be associative. With `slack`
/// 0, every path from an item to a result has at most ceil(log2(items)) joins. Each unit of `slack` allows one more
/// join on these paths, which makes the total number of joins smaller. The paths to the last result never have more
/// than ceil(log2(items)) joins.
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
                // (first, last, joins): the item stands for the run of neighbours from `first` to `last`, and `joins`
                // is how many joins had to come one after another to make it
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
