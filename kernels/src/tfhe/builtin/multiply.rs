//! Products: all pairs of bits, added by weight.

use super::Form;
use super::adders;
use super::builder::{Builder, Wire, Word};
use super::count::{Columns, total, two_rows};

/// a b modulo 2^`width`.
pub(super) fn multiply(builder: &mut Builder, a: &[Wire], b: &[Wire], width: usize, form: Form) -> Word {
    let columns = pairs(builder, a, b, width);
    match form {
        Form::Small => total(builder, columns),
        Form::Fast => {
            let [a, b] = two_rows(builder, columns);
            adders::add(builder, &a, &b, form)
        }
    }
}

/// The products of a bit of a and a bit of b by weight, those of weight 2^`width` and more left out.
fn pairs(builder: &mut Builder, a: &[Wire], b: &[Wire], width: usize) -> Columns {
    let mut columns = vec![Vec::new(); width];
    for (i, &a) in a.iter().enumerate() {
        for (j, &b) in b.iter().enumerate().take_while(|&(j, _)| i + j < width) {
            columns[i + j].push(builder.and(a, b));
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::super::check::{OnNumbers, WIDTHS, built, cases, mask, on_numbers};

    #[test]
    fn low_halves_are_products_modulo_2_to_the_width() {
        for width in WIDTHS {
            for form in ["", "_fast"] {
                on_numbers(&format!("builtin:mul{width}{form}"), |a, b| vec![a.wrapping_mul(b) & mask(width)]);
            }
        }
    }

    #[test]
    fn full_products_have_twice_the_width() {
        for width in WIDTHS {
            for form in ["", "_fast"] {
                let name = format!("builtin:mul{width}_full{form}");
                let product = OnNumbers::of(&name);
                for (a, b) in cases(width) {
                    assert_eq!(product.wide(&[a, b]), [u128::from(a) * u128::from(b)], "{name}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn fast_products_take_few_cells_in_a_row() {
        assert!(built("builtin:mul64_fast").depth() <= 20, "{}", built("builtin:mul64_fast").depth());
        assert!(built("builtin:mul64_full_fast").depth() <= 22, "{}", built("builtin:mul64_full_fast").depth());
    }
}
