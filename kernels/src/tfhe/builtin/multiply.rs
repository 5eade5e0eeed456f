//! Products: all pairs of bits, added by weight.
//!
//! Small form: a long product is made of three products of half the length, recursively (Karatsuba and Ofman, 1962).
//! Fast form: all pairs of bits are multiplied, and all products are added in one fast sum.

use super::Form;
use super::adders;
use super::builder::{Builder, ONE, Wire, Word, ZERO};
use super::count::{Columns, total, two_rows};

/// From this width on, three products of half the width and their sums take fewer cells than one product.
const HALVED_WIDTH_MIN: usize = 18;

/// The product of `a` and `b` modulo 2^width.
pub(super) fn low(builder: &mut Builder, a: &[Wire], b: &[Wire], form: Form) -> Word {
    let width = a.len();
    let halves = form == Form::Small && width / 2 >= HALVED_WIDTH_MIN;
    // of the four products of a half of a and a half of b, only that of the lower halves has no bit that is cut off, so
    // only this product is computed with `full`
    let half = if halves { width / 2 } else { 0 };
    let mut columns = vec![Vec::new(); width];
    if halves {
        let product = full(builder, &a[..half], &b[..half], form);
        put(&mut columns, 0, &product);
    }
    for (i, &a) in a.iter().enumerate() {
        for (j, &b) in b.iter().enumerate().take_while(|&(j, _)| i + j < width) {
            if i >= half || j >= half {
                columns[i + j].push(builder.and(a, b));
            }
        }
    }
    sum(builder, columns, form)
}

/// The full product of `a` and `b`, twice as wide as the operands.
pub(super) fn full(builder: &mut Builder, a: &[Wire], b: &[Wire], form: Form) -> Word {
    let width = a.len();
    if form == Form::Small && width >= HALVED_WIDTH_MIN {
        return of_halves(builder, a, b);
    }
    let mut columns = vec![Vec::new(); 2 * width];
    for (i, &a) in a.iter().enumerate() {
        for (j, &b) in b.iter().enumerate() {
            columns[i + j].push(builder.and(a, b));
        }
    }
    sum(builder, columns, form)
}

/// The full product of `a` and `b`, from three products: of the lower halves (`low`), of the upper halves (`high`), and
/// of the sums of each factor's two halves (`middle`). The result is
/// `low + 2^half (middle - low - high) + 4^half high`.
fn of_halves(builder: &mut Builder, a: &[Wire], b: &[Wire]) -> Word {
    let (width, half) = (a.len(), a.len() / 2);
    let [low, high] = [0..half, half..width].map(|part| full(builder, &a[part.clone()], &b[part], Form::Small));
    let [a, b] = [a, b].map(|number| {
        // if the width is odd, the upper half is longer than the lower one by a bit. Both are extended to one bit more
        // than the upper half, because their sum has one bit more
        let upper = [&number[half..], &[ZERO]].concat();
        let mut lower = number[..half].to_vec();
        lower.resize(upper.len(), ZERO);
        adders::add(builder, &lower, &upper, Form::Small)
    });
    let middle = full(builder, &a, &b, Form::Small);

    let mut columns = vec![Vec::new(); 2 * width];
    put(&mut columns, 0, &low);
    put(&mut columns, 2 * half, &high);
    put(&mut columns, half, &middle);
    for product in [low, high] {
        // -x is `not x + 1`, where `not x` has ones in all columns above its top bit
        let mut negated: Word = product.iter().map(|&bit| builder.not(bit)).collect();
        negated.resize(2 * width - half, ONE);
        put(&mut columns, half, &negated);
        put(&mut columns, half, &[ONE]);
    }
    sum(builder, columns, Form::Small)
}

/// Adds the bits of a number times 2^`weight` to the columns. Bits above the highest column are dropped.
fn put(columns: &mut Columns, weight: usize, number: &[Wire]) {
    for (column, &bit) in columns[weight..].iter_mut().zip(number) {
        column.push(bit);
    }
}

fn sum(builder: &mut Builder, columns: Columns, form: Form) -> Word {
    match form {
        Form::Small => total(builder, columns),
        Form::Fast => {
            let [a, b] = two_rows(builder, columns);
            adders::add(builder, &a, &b, form)
        }
    }
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
    fn long_small_products_take_fewer_cells_than_all_pairs() {
        // the ANDs of all pairs of bits and the full adders that sum them take 3 n^2 - 2 n cells
        assert_eq!(built("builtin:mul16_full").cells(), 3 * 16 * 16 - 2 * 16);
        assert!(built("builtin:mul32_full").cells() < 2600 && built("builtin:mul64_full").cells() < 8600);
        assert!(built("builtin:mul64").cells() < 5700, "{}", built("builtin:mul64").cells());
    }

    #[test]
    fn fast_products_take_few_cells_in_a_row() {
        assert!(built("builtin:mul64_fast").depth() <= 20, "{}", built("builtin:mul64_fast").depth());
        assert!(built("builtin:mul64_full_fast").depth() <= 22, "{}", built("builtin:mul64_full_fast").depth());
    }
}
