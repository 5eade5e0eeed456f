//! Matches payments with invoices (消込): records of two sides, by name and amount.

mod amount;
mod groups;
mod name;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

use groups::{AMOUNT_MAX, Budget, CANDIDATES_MAX, Parts};
use rust_decimal::Decimal;

use crate::limit::{Limit, Stopped};

pub use amount::amount;
pub use name::{NameKind, key};

/// Steps that a request may take in its search for groups. 1,000 names, each with 20 records a side that fit nothing,
/// take 130 million steps, which is about 0.3 s.
const STEPS_MAX: u64 = 250_000_000;

/// A record: the key of its name ([`key`]) and its amount. Without amounts, records are matched by name alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key of the name. Records with different keys never match, and records with an empty key match nothing.
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
    /// Number of names for which not all groups were tried, because the steps of the request were used up or because
    /// an amount has too many digits.
    pub groups_cut: usize,
}

/// Matches records. `tolerance`: the largest difference, inclusive; not negative. Lists are sorted by index on the
/// left, then on the right. The time is O(n log n). Groups are searched for among the first 20 records of a name on
/// each side, name by name in the order of the input, until the steps of the request are used up.
///
/// # Errors
/// When the limit stops the work.
pub fn reconcile(
    left: &[Record],
    right: &[Record],
    tolerance: Decimal,
    limit: Limit<'_>,
) -> Result<Reconciled, Stopped> {
    within(left, right, tolerance, &mut Budget::of(STEPS_MAX), limit)
}

fn within(
    left: &[Record],
    right: &[Record],
    tolerance: Decimal,
    budget: &mut Budget,
    limit: Limit<'_>,
) -> Result<Reconciled, Stopped> {
    let mut done = Reconciled::default();
    let mut names: Vec<[VecDeque<usize>; 2]> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (side, records) in [left, right].into_iter().enumerate() {
        for (at, record) in records.iter().enumerate() {
            if record.key.is_empty() {
                let alone = if side == 0 { &mut done.left_only } else { &mut done.right_only };
                alone.push(at);
                continue;
            }
            let place = *places.entry(&record.key).or_insert(names.len());
            if place == names.len() {
                names.push(Default::default());
            }
            names[place][side].push_back(at);
        }
    }
    for [of_left, of_right] in names {
        // the groups of one name take at most some 300 µs
        limit.check()?;
        let mut name = Name { left, right, of_left, of_right, done: &mut done };
        name.equal();
        name.closest(tolerance);
        name.groups(tolerance, budget);
        name.rest();
    }
    done.matched.sort_by_key(|one| (one.left[0], one.right[0]));
    done.amount_mismatch.sort_by_key(|one| (one.left[0], one.right[0]));
    done.left_only.sort_unstable();
    done.right_only.sort_unstable();
    Ok(done)
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
    fn groups(&mut self, tolerance: Decimal, budget: &mut Budget) {
        if self.of_left.is_empty() || self.of_right.is_empty() || self.of_left.len() + self.of_right.len() < 3 {
            return;
        }
        let is_complete = self.fixed(tolerance).and_then(|(scale, widest)| {
            [0, widest].into_iter().try_for_each(|tolerance| {
                self.groups_of(Side::Left, scale, tolerance, widest, budget)?;
                self.groups_of(Side::Right, scale, tolerance, widest, budget)
            })
        });
        self.done.groups_cut += usize::from(is_complete.is_none());
    }

    /// Returns the number of decimal places with which all amounts of the name and the tolerance are whole numbers, and
    /// the tolerance as such a number. `None`: a number is too large.
    fn fixed(&self, tolerance: Decimal) -> Option<(u32, i128)> {
        let amounts = || {
            let of_left = self.of_left.iter().map(|at| self.left_amount(*at));
            of_left.chain(self.of_right.iter().map(|at| self.right_amount(*at))).chain([tolerance])
        };
        let scale = amounts().map(|amount| amount.normalize().scale()).max().unwrap_or_default();
        let largest = amounts().map(|amount| whole(amount, scale)).try_fold(0, |most, one| Some(one?.abs().max(most)));
        (largest? <= AMOUNT_MAX).then_some((scale, whole(tolerance, scale)?))
    }

    /// Finds the group of each of the first records of `side`. `None`: the budget was used up.
    fn groups_of(&mut self, side: Side, scale: u32, tolerance: i128, widest: i128, budget: &mut Budget) -> Option<()> {
        let mut parts = None;
        let wholes: Vec<usize> = self.of(side).iter().copied().take(CANDIDATES_MAX).collect();
        for at in wholes {
            if budget.is_used_up() {
                return None;
            }
            let parts_now = parts.get_or_insert_with(|| {
                let first: Vec<usize> = self.of(side.other()).iter().copied().take(CANDIDATES_MAX).collect();
                let amounts = first.into_iter().filter_map(|at| whole(self.amount(side.other(), at), scale));
                Parts::new(&amounts.collect::<Vec<_>>(), budget)
            });
            let amount = whole(self.amount(side, at), scale)?;
            if let Some(group) = parts_now.group(amount, tolerance, widest, budget) {
                self.take(side, at, &group);
                parts = None;
            }
        }
        Some(())
    }

    fn of(&mut self, side: Side) -> &mut VecDeque<usize> {
        match side {
            Side::Left => &mut self.of_left,
            Side::Right => &mut self.of_right,
        }
    }

    fn amount(&self, side: Side, at: usize) -> Decimal {
        match side {
            Side::Left => self.left_amount(at),
            Side::Right => self.right_amount(at),
        }
    }

    /// Matches a record of `side` with the records at these places of the other side's list.
    fn take(&mut self, side: Side, at: usize, places: &[usize]) {
        self.of(side).retain(|other| *other != at);
        let list = self.of(side.other());
        let mut group: Vec<usize> = places.iter().rev().filter_map(|place| list.remove(*place)).collect();
        group.reverse();
        let found = match side {
            Side::Left => self.matching(vec![at], group),
            Side::Right => self.matching(group, vec![at]),
        };
        self.done.matched.push(found);
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

#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

/// Writes an amount as a whole number of units of `scale` decimal places. `None`: the number is too large.
fn whole(amount: Decimal, scale: u32) -> Option<i128> {
    let amount = amount.normalize();
    amount.mantissa().checked_mul(10i128.checked_pow(scale.checked_sub(amount.scale())?)?)
}

#[cfg(test)]
mod tests;
