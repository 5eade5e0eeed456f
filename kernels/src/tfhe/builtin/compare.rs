//! Comparisons, and selections that depend on them.

use super::Form;
use super::adders::{borrows, scan};
use super::builder::{Builder, Wire, Word};

/// The number format: unsigned, or two's complement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sign {
    Unsigned,
    Signed,
}

/// The bit that says whether a < b, or a <= b if `equal_counts`.
pub(super) fn less(builder: &mut Builder, a: &[Wire], b: &[Wire], equal_counts: bool, sign: Sign, form: Form) -> Wire {
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    if let (Sign::Signed, Some(a), Some(b)) = (sign, a.last_mut(), b.last_mut()) {
        // in two's complement, a number whose top bit is 1 is negative, so the top bits compare in reverse
        std::mem::swap(a, b);
    }
    // a - b - 1 is below 0 exactly when a <= b
    let borrows = borrows(builder, &a, &b, equal_counts, form);
    *borrows.last().expect("numbers have bits")
}

/// The bit that says whether a = b. The ANDs form a tree, which serves for the small and the fast form.
pub(super) fn equal(builder: &mut Builder, a: &[Wire], b: &[Wire]) -> Wire {
    let same: Vec<Wire> = a
        .iter()
        .zip(b)
        .map(|(&a, &b)| {
            let differs = builder.xor(a, b);
            builder.not(differs)
        })
        .collect();
    let all = scan(&same, 0, &mut |high, low| builder.and(high, low));
    *all.last().expect("numbers have bits")
}

/// The smaller and the larger of two numbers.
pub(super) fn in_order(builder: &mut Builder, a: &[Wire], b: &[Wire], sign: Sign, form: Form) -> [Word; 2] {
    let a_is_lower = less(builder, a, b, false, sign, form);
    [builder.select_word(a_is_lower, a, b), builder.select_word(a_is_lower, b, a)]
}

#[cfg(test)]
mod tests {
    use super::super::check::{OnNumbers, WIDTHS, built, cases, mask, on_numbers, signed};

    #[test]
    fn comparisons_are_those_of_numbers() {
        for width in WIDTHS {
            on_numbers(&format!("builtin:eq{width}"), |a, b| vec![u64::from(a == b)]);
            for form in ["", "_fast"] {
                on_numbers(&format!("builtin:lt{width}{form}"), |a, b| vec![u64::from(a < b)]);
                on_numbers(&format!("builtin:le{width}{form}"), |a, b| vec![u64::from(a <= b)]);
                let of = |a, b| (signed(a, width), signed(b, width));
                on_numbers(&format!("builtin:lt{width}_signed{form}"), |a, b| {
                    let (a, b) = of(a, b);
                    vec![u64::from(a < b)]
                });
                on_numbers(&format!("builtin:le{width}_signed{form}"), |a, b| {
                    let (a, b) = of(a, b);
                    vec![u64::from(a <= b)]
                });
            }
        }
    }

    #[test]
    fn minima_and_maxima_are_those_of_numbers() {
        for width in WIDTHS {
            for form in ["", "_fast"] {
                on_numbers(&format!("builtin:min{width}{form}"), |a, b| vec![a.min(b)]);
                on_numbers(&format!("builtin:max{width}{form}"), |a, b| vec![a.max(b)]);
                let of = |number: i64| number as u64 & mask(width);
                on_numbers(&format!("builtin:min{width}_signed{form}"), |a, b| {
                    vec![of(signed(a, width).min(signed(b, width)))]
                });
                on_numbers(&format!("builtin:max{width}_signed{form}"), |a, b| {
                    vec![of(signed(a, width).max(signed(b, width)))]
                });
            }
        }
    }

    #[test]
    fn select_gives_the_second_input_for_1_and_the_third_for_0() {
        for width in WIDTHS {
            let select = OnNumbers::of(&format!("builtin:select{width}"));
            for (a, b) in cases(width) {
                assert_eq!(select.run(&[1, a, b]), [a]);
                assert_eq!(select.run(&[0, a, b]), [b]);
            }
        }
    }

    #[test]
    fn comparisons_take_one_cell_a_bit_and_their_fast_forms_few_in_a_row() {
        for (name, cells, depth) in [
            ("builtin:lt64", 64, 64),
            ("builtin:le64_signed", 64, 64),
            ("builtin:eq64", 127, 7),
            ("builtin:select64", 128, 2),
            ("builtin:min64", 192, 65),
            ("builtin:lt64_fast", 183, 7),
            ("builtin:max64_fast", 311, 8),
        ] {
            assert_eq!((built(name).cells(), built(name).depth()), (cells, depth), "{name}");
        }
    }
}
