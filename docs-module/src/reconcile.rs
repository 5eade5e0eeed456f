//! Matches payments with invoices (消込): records of two sides, by name and amount.

mod amount;
mod name;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

use rust_decimal::Decimal;

pub use amount::amount;
pub use name::{NameKind, key};

/// Largest number of records of one side that are matched as a group with one record of the other side. The second
/// constant is the number of records of a name that are tried for groups.
const GROUP_MAX: usize = 6;
const GROUP_CANDIDATES_MAX: usize = 20;

/// A record: the key of its name ([`key`]) and its amount. Without amounts, records are matched by name alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key of the name. Records with different keys never match.
    pub key: String,
    /// The amount in yen; `None`: records are matched by name alone.
    pub amount: Option<Decimal>,
}

/// Records that belong together, by index in the input. At least one side has exactly one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Indices on the left.
    pub left: Vec<usize>,
    /// Indices on the right.
    pub right: Vec<usize>,
    /// The sum of the left amounts minus the sum of the right amounts.
    pub difference: Decimal,
}

/// The result of matching. Each record is in exactly one of the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Same name, and amounts within the tolerance.
    pub matched: Vec<Match>,
    /// Same name, but amounts that differ by more than the tolerance.
    pub amount_mismatch: Vec<Match>,
    /// Indices of records on the left without a partner.
    pub left_only: Vec<usize>,
    /// Indices of records on the right without a partner.
    pub right_only: Vec<usize>,
}

/// Matches records. `tolerance`: the largest difference, inclusive; not negative. Lists are sorted by index on the
/// left, then on the right. The time is O(n log n), except for groups, which are searched for among the first 20
/// records of a name.
pub fn reconcile(left: &[Record], right: &[Record], tolerance: Decimal) -> Reconciled {
    let mut names: HashMap<&str, [Vec<usize>; 2]> = HashMap::new();
    for (side, records) in [left, right].into_iter().enumerate() {
        for (at, record) in records.iter().enumerate() {
            names.entry(&record.key).or_default()[side].push(at);
        }
    }
    let mut done = Reconciled::default();
    for [of_left, of_right] in names.into_values() {
        let mut name = Name { left, right, of_left: of_left.into(), of_right: of_right.into(), done: &mut done };
        name.equal();
        name.closest(tolerance);
        name.groups(tolerance);
        name.rest();
    }
    done.matched.sort_by_key(|one| (one.left[0], one.right[0]));
    done.amount_mismatch.sort_by_key(|one| (one.left[0], one.right[0]));
    done.left_only.sort_unstable();
    done.right_only.sort_unstable();
    done
}

/// Records of one name that are not matched yet, in the order of the input.
struct Name<'a> {
    left: &'a [Record],
    right: &'a [Record],
    of_left: VecDeque<usize>,
    of_right: VecDeque<usize>,
    done: &'a mut Reconciled,
}

impl Name<'_> {
    fn left_amount(&self, at: usize) -> Decimal {
        self.left[at].amount.unwrap_or_default()
    }

    fn right_amount(&self, at: usize) -> Decimal {
        self.right[at].amount.unwrap_or_default()
    }

    fn matching(&self, left: Vec<usize>, right: Vec<usize>) -> Match {
        let sum = |side: Decimal, more: Decimal| side.checked_add(more).unwrap_or(side);
        let of_left = left.iter().fold(Decimal::ZERO, |side, at| sum(side, self.left_amount(*at)));
        let of_right = right.iter().fold(Decimal::ZERO, |side, at| sum(side, self.right_amount(*at)));
        let difference = of_left.checked_sub(of_right).unwrap_or(of_left);
        Match { left, right, difference }
    }

    /// Matches pairs of equal amounts, in the order of the input.
    fn equal(&mut self) {
        let mut by_amount: HashMap<Decimal, VecDeque<usize>> = HashMap::new();
        for at in &self.of_right {
            by_amount.entry(self.right_amount(*at).normalize()).or_default().push_back(*at);
        }
        let mut taken = Vec::new();
        for at in std::mem::take(&mut self.of_left) {
            let equal = by_amount.get_mut(&self.left_amount(at).normalize()).and_then(VecDeque::pop_front);
            match equal {
                Some(other) => {
                    taken.push(other);
                    let found = self.matching(vec![at], vec![other]);
                    self.done.matched.push(found);
                }
                None => self.of_left.push_back(at),
            }
        }
        taken.sort_unstable();
        self.of_right.retain(|at| taken.binary_search(at).is_err());
    }

    /// Matches pairs within the tolerance, the smallest difference first. If all amounts of both sides are sorted
    /// together, the two closest amounts are always neighbours, so only neighbours are candidates. When a pair is
    /// taken, the records before and after the pair become neighbours.
    fn closest(&mut self, tolerance: Decimal) {
        if self.of_left.is_empty() || self.of_right.is_empty() {
            return;
        }
        let of_left = self.of_left.iter().map(|at| (self.left_amount(*at), false, *at));
        let of_right = self.of_right.iter().map(|at| (self.right_amount(*at), true, *at));
        let mut line: Vec<(Decimal, bool, usize)> = of_left.chain(of_right).collect();
        line.sort_unstable();
        let mut before: Vec<Option<usize>> = (0..line.len()).map(|at| at.checked_sub(1)).collect();
        let mut after: Vec<Option<usize>> = (1..=line.len()).map(|at| (at < line.len()).then_some(at)).collect();
        let mut gone = vec![false; line.len()];
        let candidate = |a: usize, b: usize| {
            let ((low, side, one), (high, other_side, other)) = (line[a], line[b]);
            let (left, right) = if side { (other, one) } else { (one, other) };
            let near = high.checked_sub(low).filter(|difference| side != other_side && *difference <= tolerance);
            near.map(|difference| Reverse((difference, left, right, a, b)))
        };
        let mut nearest: BinaryHeap<_> = (1..line.len()).filter_map(|at| candidate(at - 1, at)).collect();
        let mut pairs = Vec::new();
        while let Some(Reverse((_, left, right, a, b))) = nearest.pop() {
            if gone[a] || gone[b] {
                continue;
            }
            (gone[a], gone[b]) = (true, true);
            pairs.push((left, right));
            let (low, high) = (before[a], after[b]);
            if let Some(low) = low {
                after[low] = high;
            }
            if let Some(high) = high {
                before[high] = low;
            }
            if let (Some(low), Some(high)) = (low, high) {
                nearest.extend(candidate(low, high));
            }
        }
        for (left, right) in &pairs {
            let found = self.matching(vec![*left], vec![*right]);
            self.done.matched.push(found);
        }
        let (taken_left, taken_right): (HashSet<usize>, HashSet<usize>) = pairs.into_iter().unzip();
        self.of_left.retain(|at| !taken_left.contains(at));
        self.of_right.retain(|at| !taken_right.contains(at));
    }

    /// Matches one record with several records of the other side whose sum is the amount of the one record: first
    /// exactly, then within the tolerance.
    fn groups(&mut self, tolerance: Decimal) {
        for tolerance in [Decimal::ZERO, tolerance] {
            for whole in first(&self.of_left) {
                let parts: Vec<_> = self.of_right.iter().map(|at| (*at, self.right_amount(*at))).collect();
                if let Some(parts) = parts_of(self.left_amount(whole), &parts, tolerance) {
                    self.take(&[whole], &parts);
                }
            }
            for whole in first(&self.of_right) {
                let parts: Vec<_> = self.of_left.iter().map(|at| (*at, self.left_amount(*at))).collect();
                if let Some(parts) = parts_of(self.right_amount(whole), &parts, tolerance) {
                    self.take(&parts, &[whole]);
                }
            }
        }
    }

    fn take(&mut self, left: &[usize], right: &[usize]) {
        let found = self.matching(left.to_vec(), right.to_vec());
        self.done.matched.push(found);
        self.of_left.retain(|at| !left.contains(at));
        self.of_right.retain(|at| !right.contains(at));
    }

    /// Pairs the remaining records of both sides as mismatches, in the order of the input. Records that remain on one
    /// side have no partner.
    fn rest(&mut self) {
        while let (Some(left), Some(right)) = (self.of_left.front().copied(), self.of_right.front().copied()) {
            self.of_left.pop_front();
            self.of_right.pop_front();
            let found = self.matching(vec![left], vec![right]);
            self.done.amount_mismatch.push(found);
        }
        self.done.left_only.extend(&self.of_left);
        self.done.right_only.extend(&self.of_right);
    }
}

/// Returns the first records of a name, at most as many as are tried for groups.
fn first(records: &VecDeque<usize>) -> Vec<usize> {
    records.iter().copied().take(GROUP_CANDIDATES_MAX).collect()
}

/// Finds the first group of 2 to 6 of these amounts whose sum differs from `whole` by at most the tolerance. Smaller
/// groups are tried first.
fn parts_of(whole: Decimal, parts: &[(usize, Decimal)], tolerance: Decimal) -> Option<Vec<usize>> {
    let parts = &parts[..parts.len().min(GROUP_CANDIDATES_MAX)];
    (2..=GROUP_MAX.min(parts.len())).find_map(|count| {
        let mut chosen = Vec::with_capacity(count);
        choose(whole, parts, tolerance, count, &mut chosen).then_some(chosen)
    })
}

/// Chooses `count` parts whose sum differs from `left` by at most the tolerance, and adds their indices to `chosen`.
/// Returns whether such parts exist.
fn choose(
    left: Decimal,
    parts: &[(usize, Decimal)],
    tolerance: Decimal,
    count: usize,
    chosen: &mut Vec<usize>,
) -> bool {
    if count == 0 {
        return left.abs() <= tolerance;
    }
    for (at, (place, amount)) in parts.iter().enumerate() {
        if parts.len() - at < count {
            return false;
        }
        let Some(rest) = left.checked_sub(*amount) else { continue };
        chosen.push(*place);
        if choose(rest, &parts[at + 1..], tolerance, count - 1, chosen) {
            return true;
        }
        chosen.pop();
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn records(of: &[(&str, i64)]) -> Vec<Record> {
        let record = |(name, amount): &(&str, i64)| Record {
            key: key(NameKind::Bank, name),
            amount: Some(Decimal::from(*amount)),
        };
        of.iter().map(record).collect()
    }

    fn pair(left: &[usize], right: &[usize], difference: i64) -> Match {
        Match { left: left.to_vec(), right: right.to_vec(), difference: Decimal::from(difference) }
    }

    #[test]
    fn the_example_of_the_fact_sheet() {
        let left =
            records(&[("ヤマダショウジ", 110_000), ("ヤマダショウジ", 55_000), ("タクミ", 33_000), ("ミライ", 20_000)]);
        let right = records(&[("ｶ)ﾔﾏﾀﾞｼﾖｳｼﾞ", 165_000), ("ﾕ)ﾀｸﾐ", 32_560), ("ｿﾗ", 5_000)]);
        let found = reconcile(&left, &right, Decimal::from(440));
        assert_eq!(found.matched, [pair(&[0, 1], &[0], 0), pair(&[2], &[1], 440)]);
        assert_eq!((found.amount_mismatch, found.left_only, found.right_only), (vec![], vec![3], vec![2]));
        let strict = reconcile(&left, &right, Decimal::from(439));
        assert_eq!(strict.amount_mismatch, [pair(&[2], &[1], 440)]);
    }

    #[test]
    fn equal_amounts_come_before_close_ones_and_close_ones_before_groups() {
        let left = records(&[("ア", 100), ("ア", 100), ("ア", 205)]);
        let right = records(&[("ア", 200), ("ア", 100), ("ア", 101)]);
        let found = reconcile(&left, &right, Decimal::from(5));
        assert_eq!(found.matched, [pair(&[0], &[1], 0), pair(&[1], &[2], -1), pair(&[2], &[0], 5)]);
        // the closest pair is matched first, whatever the order of the input
        let found =
            reconcile(&records(&[("ア", 10), ("ア", 14)]), &records(&[("ア", 15), ("ア", 19)]), Decimal::from(9));
        assert_eq!(found.matched, [pair(&[0], &[1], -9), pair(&[1], &[0], -1)]);
        // six records can be a group, seven cannot
        let parts = |count: i64| records(&vec![("ア", 7); count as usize]);
        assert_eq!(reconcile(&records(&[("ア", 42)]), &parts(6), Decimal::ZERO).matched.len(), 1);
        assert_eq!(reconcile(&records(&[("ア", 49)]), &parts(7), Decimal::ZERO).matched, []);
    }

    #[test]
    fn names_match_without_amounts() {
        let record = |name: &str| Record { key: key(NameKind::Text, name), amount: None };
        let found = reconcile(&[record("Ａｂｃ"), record("x")], &[record("abc")], Decimal::ZERO);
        assert_eq!((found.matched, found.left_only), (vec![pair(&[0], &[0], 0)], vec![1]));
    }

    #[test]
    fn many_records_of_one_name_are_matched() {
        let one = |step: i64| -> Vec<Record> {
            let amount = |n: i64| Record { key: "A".to_owned(), amount: Some(Decimal::from(n * step)) };
            (0..2_000).map(amount).collect()
        };
        let found = reconcile(&one(10), &one(11), Decimal::from(3));
        let lists = found.matched.iter().map(|one| one.left.len()).sum::<usize>() + found.amount_mismatch.len();
        assert_eq!(lists + found.left_only.len(), 2_000);
    }

    proptest! {
        #[test]
        fn each_record_is_in_one_list_and_matches_are_within_the_tolerance(
            left in proptest::collection::vec((0usize..3, 0i64..40), 0..25),
            right in proptest::collection::vec((0usize..3, 0i64..40), 0..25),
            tolerance in 0i64..5,
        ) {
            let side = |of: &[(usize, i64)]| -> Vec<Record> {
                let record = |(name, amount): &(usize, i64)| Record {
                    key: ["a", "b", "c"][*name].to_owned(),
                    amount: Some(Decimal::from(*amount)),
                };
                of.iter().map(record).collect()
            };
            let (left, right) = (side(&left), side(&right));
            let found = reconcile(&left, &right, Decimal::from(tolerance));
            let pairs = || found.matched.iter().chain(&found.amount_mismatch);
            let mut of_left: Vec<usize> = pairs().flat_map(|one| one.left.clone()).chain(found.left_only.clone()).collect();
            let mut of_right: Vec<usize> = pairs().flat_map(|one| one.right.clone()).chain(found.right_only.clone()).collect();
            of_left.sort_unstable();
            of_right.sort_unstable();
            prop_assert_eq!(of_left, (0..left.len()).collect::<Vec<_>>());
            prop_assert_eq!(of_right, (0..right.len()).collect::<Vec<_>>());
            for one in &found.matched {
                prop_assert!(one.difference.abs() <= Decimal::from(tolerance));
            }
            for one in pairs() {
                let keys: Vec<&str> = one.left.iter().map(|at| &*left[*at].key).chain(one.right.iter().map(|at| &*right[*at].key)).collect();
                prop_assert!(keys.windows(2).all(|two| two[0] == two[1]));
            }
            // a name never has unmatched records on both sides
            let alone = |places: &[usize], records: &[Record]| -> HashSet<String> {
                places.iter().map(|at| records[*at].key.clone()).collect()
            };
            prop_assert!(alone(&found.left_only, &left).is_disjoint(&alone(&found.right_only, &right)));
        }
    }
}
