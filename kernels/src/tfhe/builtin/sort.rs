//! Sorting of lists.

use super::Form;
use super::builder::{Builder, Word};
use super::compare::{Sign, in_order};

/// Sorts the numbers in ascending order, with the pairs of [`network`].
pub(super) fn sort(builder: &mut Builder, mut list: Vec<Word>, sign: Sign, form: Form) -> Vec<Word> {
    for (low, high) in network(list.len()) {
        [list[low], list[high]] = in_order(builder, &list[low], &list[high], sign, form);
    }
    list
}

/// Batcher's merge exchange for a list of any length (Knuth, The Art of Computer Programming, volume 3, algorithm
/// 5.2.2M). The result is a sequence of pairs of places; the numbers of each pair are put in order, one pair after
/// another.
fn network(length: usize) -> Vec<(usize, usize)> {
    let top = length.next_power_of_two() / 2;
    let mut pairs = Vec::new();
    let mut half = top;
    while half > 0 {
        let (mut reach, mut parity, mut distance) = (top, 0, half);
        loop {
            let low = (0..length.saturating_sub(distance)).filter(|place| place & half == parity);
            pairs.extend(low.map(|place| (place, place + distance)));
            if reach == half {
                break;
            }
            (distance, reach, parity) = (reach - half, reach / 2, half);
        }
        half /= 2;
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::super::check::{OnNumbers, WIDTHS, built, mask, random, signed};
    use super::network;

    /// The 0-1 principle: a network that sorts all lists of bits sorts all lists.
    #[test]
    fn networks_of_2_to_16_places_sort_all_lists_of_bits() {
        for length in 2..=16 {
            let pairs = network(length);
            for list in 0..1u32 << length {
                let sorted = pairs.iter().fold(list, |list, &(low, high)| {
                    let swap = (list >> low & 1) & !(list >> high & 1) & 1;
                    list ^ (swap << low | swap << high)
                });
                let ones = list.count_ones();
                assert_eq!(sorted, ((1 << ones) - 1) << (length as u32 - ones), "{list:b}");
            }
        }
        let sizes: Vec<usize> = [2, 4, 8, 16].map(|length| network(length).len()).to_vec();
        assert_eq!(sizes, [1, 5, 19, 63]);
    }

    #[test]
    fn lists_come_out_in_ascending_order() {
        for width in WIDTHS {
            for length in [2, 3, 4, 7, 16] {
                for form in ["", "_fast"] {
                    let sort = OnNumbers::of(&format!("builtin:sort{length}x{width}{form}"));
                    let sort_signed = OnNumbers::of(&format!("builtin:sort{length}x{width}_signed{form}"));
                    let mut numbers = random(7).map(|number| number & mask(width));
                    for round in 0..20 {
                        let mut list: Vec<u64> = numbers.by_ref().take(length).collect();
                        if round % 3 == 0 {
                            (list[0], list[length - 1]) = (mask(width), list[length / 2]);
                        }
                        let (sorted, by_sign) = (sort.run(&list), sort_signed.run(&list));
                        list.sort_unstable();
                        assert_eq!(sorted, list);
                        list.sort_by_key(|&number| signed(number, width));
                        assert_eq!(by_sign, list);
                    }
                }
            }
        }
    }

    #[test]
    fn a_pair_is_put_in_order_by_four_cells_a_bit() {
        assert_eq!(built("builtin:sort2x64").cells(), 4 * 64);
        assert_eq!(built("builtin:sort16x64").cells(), 63 * 4 * 64);
        assert_eq!(built("builtin:sort16x64_fast").depth(), 10 * 8);
    }
}
