//! The search for groups: one amount that is the sum of 2 to 6 amounts of the other side.
//!
//! The sums of all pairs and triples are kept in order, and a group of four to six is two of these sums. So 20 amounts
//! need 1,330 sums in place of 60,439 subsets.

use std::cell::OnceCell;

/// Largest number of records of one side that are matched as a group with one record of the other side.
pub(super) const GROUP_MAX: usize = 6;
/// Number of records of a name that are tried for groups.
pub(super) const CANDIDATES_MAX: usize = 20;
/// Largest absolute value of an amount in [`Parts`], so that no sum overflows.
pub(super) const AMOUNT_MAX: i128 = i128::MAX >> 5;

/// The steps that a whole request may still take. A step is a comparison of two sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget(u64);

impl Budget {
    pub fn of(steps: u64) -> Budget {
        Budget(steps)
    }

    pub fn is_used_up(self) -> bool {
        self.0 == 0
    }

    fn spend(&mut self, steps: usize) {
        self.0 = self.0.saturating_sub(steps as u64);
    }
}

/// Indices of two or three parts, in ascending order. The third index of a pair is 0.
type Places = [u8; 3];

/// Sums of parts.
struct Sums {
    /// The places of each sum, in lexical order, and the sum.
    by_place: Vec<(Places, i128)>,
    sorted: Sorted,
    /// For each part, the sums whose first part is not before it. Most wholes need only `sorted`.
    from: OnceCell<Vec<Sorted>>,
}

/// Sums in ascending order, and their places.
#[derive(Default)]
struct Sorted {
    sums: Vec<i128>,
    places: Vec<Places>,
}

/// The first amounts of one side, at most [`CANDIDATES_MAX`], and the sums of their pairs and triples.
pub(super) struct Parts {
    count: usize,
    pairs: Sums,
    triples: Sums,
    /// Amounts that no group reaches, not even within the request's tolerance.
    hopeless: Vec<i128>,
}

impl Parts {
    /// `amounts`: at most [`CANDIDATES_MAX`], each at most [`AMOUNT_MAX`].
    pub fn new(amounts: &[i128], budget: &mut Budget) -> Parts {
        let (mut pairs, mut triples) = (Vec::new(), Vec::new());
        for (a, first) in amounts.iter().enumerate() {
            for (b, second) in amounts.iter().enumerate().skip(a + 1) {
                pairs.push(([a as u8, b as u8, 0], first + second));
                for (c, third) in amounts.iter().enumerate().skip(b + 1) {
                    triples.push(([a as u8, b as u8, c as u8], first + second + third));
                }
            }
        }
        // sorting takes about as many comparisons for each sum as the number of sums has bits
        budget.spend((pairs.len() + triples.len()) * 11);
        Parts { count: amounts.len(), pairs: Sums::new(pairs), triples: Sums::new(triples), hopeless: Vec::new() }
    }

    /// Finds the first of the smallest groups whose sum differs from `whole` by at most `tolerance`, as ascending
    /// indices. Groups are in lexical order. `widest`: the request's tolerance, at least `tolerance`.
    pub fn group(&mut self, whole: i128, tolerance: i128, widest: i128, budget: &mut Budget) -> Option<Vec<usize>> {
        if self.hopeless.contains(&whole) {
            return None;
        }
        let counts = 2..=GROUP_MAX.min(self.count);
        if !counts.clone().any(|count| self.may_reach(count, whole - widest, whole + widest, budget)) {
            self.hopeless.push(whole);
            return None;
        }
        let (low, high) = (whole - tolerance, whole + tolerance);
        counts.into_iter().find_map(|count| {
            self.may_reach(count, low, high, budget).then(|| self.first(count, low, high, budget)).flatten()
        })
    }

    /// Whether a sum of `count` parts may lie in the range. Parts may be counted twice here, so the answer "no" is
    /// certain, and the answer "yes" is not.
    fn may_reach(&self, count: usize, low: i128, high: i128, budget: &mut Budget) -> bool {
        let (one, other) = match count {
            2 => return self.pairs.sorted.reaches(low, high, budget),
            3 => return self.triples.sorted.reaches(low, high, budget),
            4 => (&self.pairs, &self.pairs),
            5 => (&self.pairs, &self.triples),
            _ => (&self.triples, &self.triples),
        };
        let (one, other) = (&one.sorted.sums[..], &other.sorted.sums[..]);
        let (Some(least), Some(most)) = (one.first(), other.last()) else { return false };
        // one list is walked upwards and the other downwards, between the sums that may have a partner at all; two
        // equal lists need only be walked until they meet
        let begin = one.partition_point(|sum| *sum < low - most);
        let end = other.partition_point(|sum| *sum <= high - least);
        let is_twice = std::ptr::eq(one, other);
        let (mut up, mut down) = (begin, end);
        let mut is_reached = false;
        while up < one.len() && down > if is_twice { up } else { 0 } {
            let above = one[up] + other[down - 1] - low;
            if (above as u128) <= (high - low) as u128 {
                is_reached = true;
                break;
            }
            // no branch here, because nothing predicts it
            up += usize::from(above < 0);
            down -= usize::from(above >= 0);
        }
        budget.spend(11 + up - begin + end - down);
        is_reached
    }

    /// Finds the first group of `count` parts in lexical order whose sum lies in the range.
    fn first(&self, count: usize, low: i128, high: i128, budget: &mut Budget) -> Option<Vec<usize>> {
        let nothing = [([0; 3], 0)];
        let (heads, head_size, tails, tail_size) = match count {
            2 => (&nothing[..], 0, &self.pairs, 2),
            3 => (&nothing[..], 0, &self.triples, 3),
            4 => (&self.pairs.by_place[..], 2, &self.pairs, 2),
            5 => (&self.pairs.by_place[..], 2, &self.triples, 3),
            _ => (&self.triples.by_place[..], 3, &self.triples, 3),
        };
        let tails = tails.from(self.count, budget);
        for (places, sum) in heads {
            let head = &places[..head_size];
            let Some(tails) = tails.get(head.last().map_or(0, |last| usize::from(*last) + 1)) else { continue };
            if let Some(tail) = tails.first(low - sum, high - sum, budget) {
                return Some(head.iter().chain(&tail[..tail_size]).map(|place| usize::from(*place)).collect());
            }
        }
        None
    }
}

impl Sums {
    fn new(by_place: Vec<(Places, i128)>) -> Sums {
        let mut sorted: Vec<(i128, Places)> = by_place.iter().map(|(places, sum)| (*sum, *places)).collect();
        sorted.sort_unstable();
        let (sums, places) = sorted.into_iter().unzip();
        Sums { by_place, sorted: Sorted { sums, places }, from: OnceCell::new() }
    }

    fn from(&self, count: usize, budget: &mut Budget) -> &[Sorted] {
        self.from.get_or_init(|| {
            budget.spend(count * self.by_place.len());
            (0..count).map(|part| self.sorted.without_parts_before(part)).collect()
        })
    }
}

impl Sorted {
    fn without_parts_before(&self, part: usize) -> Sorted {
        let kept = self.sums.iter().zip(&self.places).filter(|(_, places)| usize::from(places[0]) >= part);
        let (sums, places) = kept.unzip();
        Sorted { sums, places }
    }

    fn reaches(&self, low: i128, high: i128, budget: &mut Budget) -> bool {
        budget.spend(11);
        self.sums.get(self.sums.partition_point(|sum| *sum < low)).is_some_and(|sum| *sum <= high)
    }

    /// The first places in lexical order whose sum lies in the range.
    fn first(&self, low: i128, high: i128, budget: &mut Budget) -> Option<Places> {
        let begin = self.sums.partition_point(|sum| *sum < low);
        let end = begin + self.sums[begin..].iter().take_while(|sum| **sum <= high).count();
        budget.spend(11 + end - begin);
        self.places[begin..end].iter().min().copied()
    }
}
