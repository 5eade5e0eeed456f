//! Sums of bits with weights: a full adder turns three bits of one weight into one bit of this weight and a carry.

use super::builder::{Builder, ONE, Wire, Word, ZERO};

/// Bits by weight: column i holds bits that count 2^i each.
pub(super) type Columns = Vec<Vec<Wire>>;

/// The number of bits that are 1, `[floor(log2(width)) + 1]` bits.
pub(super) fn popcount(builder: &mut Builder, bits: &[Wire]) -> Word {
    let mut columns = vec![Vec::new(); bits.len().ilog2() as usize + 1];
    columns[0] = bits.to_vec();
    total(builder, columns)
}

/// The sum of all bits, each times its weight, modulo 2^columns. If no column has more than two bits, the carries
/// ripple.
pub(super) fn total(builder: &mut Builder, columns: Columns) -> Word {
    let rest = compress(builder, columns, 1);
    rest.into_iter().map(|column| column.first().copied().unwrap_or(ZERO)).collect()
}

/// Two numbers whose sum is the sum of all bits, each times its weight, modulo 2^columns.
pub(super) fn two_rows(builder: &mut Builder, columns: Columns) -> [Word; 2] {
    let rest = compress(builder, columns, 2);
    [0, 1].map(|row| rest.iter().map(|column| column.get(row).copied().unwrap_or(ZERO)).collect())
}

/// Adds up the constants of all columns, so that each column has at most one constant bit.
fn gather(mut columns: Columns) -> Columns {
    let mut carried = 0;
    for column in &mut columns {
        let ones = carried + column.iter().filter(|&&wire| wire == ONE).count();
        column.retain(|wire| !matches!(wire, Wire::Constant(_)));
        column.extend((ones % 2 == 1).then_some(ONE));
        carried = ones / 2;
    }
    columns
}

/// Adds bits of each column, lowest column first, until each column has at most `left` bits. Bits with the smallest
/// depth are added first, so that a late bit delays no other bit.
fn compress(builder: &mut Builder, columns: Columns, left: usize) -> Columns {
    let mut columns = gather(columns);
    for at in 0..columns.len() {
        let mut column = std::mem::take(&mut columns[at]);
        let mut carries = Vec::new();
        while column.len() > left {
            // the bits with the largest depth come first, because the loop pops from the end
            column.sort_by_key(|&wire| std::cmp::Reverse(builder.depth(wire)));
            let [a, b] = [(); 2].map(|()| column.pop().unwrap_or(ZERO));
            // a full adder reduces the number of bits by two. If an odd number of bits must go, a half adder comes first
            let c = if (column.len() + 2 - left) % 2 == 1 { ZERO } else { column.pop().unwrap_or(ZERO) };
            column.push(builder.xor3(a, b, c));
            carries.push(builder.maj(a, b, c));
        }
        columns[at] = column;
        if let Some(next) = columns.get_mut(at + 1) {
            next.extend(carries);
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::super::check::{OnNumbers, WIDTHS, built, cases};

    #[test]
    fn bits_are_counted() {
        for width in WIDTHS {
            let count = OnNumbers::of(&format!("builtin:popcount{width}"));
            for (a, _) in cases(width) {
                assert_eq!(count.run(&[a]), [u64::from(a.count_ones())]);
            }
        }
    }

    #[test]
    fn a_count_takes_about_two_cells_a_bit() {
        let built = built("builtin:popcount64");
        assert!(built.cells() < 2 * 64 && built.depth() <= 14, "{}, {}", built.cells(), built.depth());
    }
}
