//! Windows: how many levels of a circuit a device gets at a time.
//!
//! A device runs its calls in order, and the levels of a call in order. So a level may be given to the device as soon as
//! the level before is given, and no level waits until the host has seen the one before. Cancellation, fairness and the
//! self-test act between calls, so a call should be short. Therefore a call takes further levels only while its expected
//! duration is at most [`super::SchedulerLimits::window`].
//!
//! The expected duration of a level comes from the durations of earlier calls on the same device. A level of few rows
//! takes almost as long as a level that fills the device, so the pace is kept by the cost of a level.

use std::collections::BTreeMap;
use std::time::Duration;

/// Weight of the newest call in the measured duration of a level.
const NEWEST: f64 = 0.2;

/// Largest number of kinds of work whose pace a device keeps. All presets fit.
const KINDS_MAX: usize = 64;

/// Rows whose levels have one pace: rows of keys whose units cost the same on the device, with shared tables or
/// without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    pub(super) unit_cost: u32,
    pub(super) has_tables: bool,
}

/// The levels of a call: for each kind of work, the cost of each level, summed over all parts of the call.
#[derive(Clone, Debug, Default)]
pub(super) struct CallLevels(BTreeMap<Kind, Vec<u64>>);

/// The measured pace of levels on one device.
#[derive(Debug, Default)]
pub(super) struct LevelPaces(BTreeMap<Kind, LevelPace>);

/// The measured pace of levels of one kind.
#[derive(Debug)]
struct LevelPace {
    /// Nanoseconds that a level takes, an exponential average, by the number of bits of the level's cost.
    nanos: [Option<f64>; BITS],
    /// The largest number of levels in a measured call.
    levels_max: usize,
}

const BITS: usize = u64::BITS as usize + 1;

fn bits(cost: u64) -> usize {
    (u64::BITS - cost.leading_zeros()) as usize
}

impl CallLevels {
    /// Adds rows of this cost to level `level`, which is at most the number of levels so far.
    pub(super) fn add(&mut self, kind: Kind, level: usize, cost: u64) {
        let levels = self.0.entry(kind).or_default();
        match levels.get_mut(level) {
            Some(sum) => *sum += cost,
            None => levels.push(cost),
        }
    }

    /// The cost that rows of this kind have in level `level`, 0 if the call has no such level.
    fn cost(&self, kind: Kind, level: usize) -> u64 {
        self.0.get(&kind).and_then(|levels| levels.get(level)).copied().unwrap_or(0)
    }
}

impl LevelPaces {
    /// Records how long a call took. A call of several kinds of work tells nothing about each of them.
    pub(super) fn observe(&mut self, call: &CallLevels, took: Duration) {
        let Some((&kind, levels)) = call.0.first_key_value().filter(|_| call.0.len() == 1) else { return };
        if self.0.len() >= KINDS_MAX && !self.0.contains_key(&kind) {
            self.0.pop_first();
        }
        self.0.entry(kind).or_insert_with(LevelPace::unknown).observe(levels, took);
    }

    /// Returns how many of the levels with these costs a call takes besides the levels that it has. The levels follow
    /// a level that is the call's first one and is already counted in `call`. The call's expected duration stays within
    /// `window`. A call has at most twice as many levels as earlier calls had, so a wrong expectation shows before it
    /// does harm.
    pub(super) fn levels_that_fit(
        &self,
        call: &CallLevels,
        kind: Kind,
        costs: impl Iterator<Item = u64>,
        window: Duration,
    ) -> usize {
        if window.is_zero() {
            return 0;
        }
        let (Some(pace), Some(mut expected)) = (self.0.get(&kind), self.expected(call)) else { return 0 };
        let adds = |(at, cost): (usize, u64)| {
            let before = call.cost(kind, at);
            let more = pace.nanos(before + cost)? - if before > 0 { pace.nanos(before)? } else { 0.0 };
            expected += more.max(0.0);
            (at < 2 * pace.levels_max && expected <= window.as_nanos() as f64).then_some(())
        };
        (1..).zip(costs).map_while(adds).count()
    }

    /// The expected duration of a call in nanoseconds; `None` if a kind of its work was never measured.
    fn expected(&self, call: &CallLevels) -> Option<f64> {
        let mut kinds = call.0.iter();
        kinds.try_fold(0.0, |sum, (kind, levels)| {
            let pace = self.0.get(kind)?;
            levels.iter().try_fold(sum, |sum, &cost| Some(sum + pace.nanos(cost)?))
        })
    }
}

impl LevelPace {
    fn unknown() -> LevelPace {
        LevelPace { nanos: [None; BITS], levels_max: 0 }
    }

    fn observe(&mut self, levels: &[u64], took: Duration) {
        let newest = took.as_nanos() as f64 / levels.len() as f64;
        let average = &mut self.nanos[bits(levels.iter().sum::<u64>() / levels.len() as u64)];
        *average = Some(average.map_or(newest, |before| before + NEWEST * (newest - before)));
        self.levels_max = self.levels_max.max(levels.len());
    }

    /// The expected duration of a level of this cost. Without a measurement of such levels, the result is an upper
    /// bound: the duration of a costlier level, or that of a cheaper one times the ratio of the costs.
    fn nanos(&self, cost: u64) -> Option<f64> {
        let bits = bits(cost);
        if let Some(nanos) = self.nanos[bits..].iter().find_map(|nanos| *nanos) {
            return Some(nanos);
        }
        let (below, nanos) = (0..bits).rev().find_map(|below| Some((below, self.nanos[below]?)))?;
        // a level of `below` bits costs at least 2^(below - 1)
        let least = below.checked_sub(1).map_or(1.0, |power| 2f64.powi(power as i32));
        Some(nanos * cost as f64 / least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEAR: Kind = Kind { unit_cost: 32, has_tables: false };
    const CHEAP: Kind = Kind { unit_cost: 2, has_tables: true };
    const WINDOW: Duration = Duration::from_millis(2);

    fn call(kind: Kind, levels: &[u64]) -> CallLevels {
        let mut call = CallLevels::default();
        levels.iter().enumerate().for_each(|(at, &cost)| call.add(kind, at, cost));
        call
    }

    /// Paces after calls of some levels of one cost, in microseconds.
    fn after(calls: &[(Kind, usize, u64, u64)]) -> LevelPaces {
        let mut paces = LevelPaces::default();
        for &(kind, levels, cost, us) in calls {
            paces.observe(&call(kind, &vec![cost; levels]), Duration::from_micros(us));
        }
        paces
    }

    fn fit(paces: &LevelPaces, call: &CallLevels, kind: Kind, cost: u64) -> usize {
        paces.levels_that_fit(call, kind, std::iter::repeat_n(cost, 1000), WINDOW)
    }

    #[test]
    fn a_call_has_the_levels_that_fit_in_the_window() {
        // 32 levels took 6.4 ms, so a level takes 200 us and ten levels fill 2 ms
        let paces = after(&[(DEAR, 32, 64, 6400)]);
        assert_eq!(fit(&paces, &call(DEAR, &[64]), DEAR, 64), 9);
        // a slow level, and one that alone exceeds the window
        assert_eq!(fit(&after(&[(DEAR, 32, 64, 32_000)]), &call(DEAR, &[64]), DEAR, 64), 1);
        assert_eq!(fit(&after(&[(DEAR, 32, 64, 96_000)]), &call(DEAR, &[64]), DEAR, 64), 0);
    }

    #[test]
    fn unmeasured_work_goes_level_by_level_and_calls_double() {
        assert_eq!(fit(&LevelPaces::default(), &call(DEAR, &[64]), DEAR, 64), 0);
        assert_eq!(fit(&after(&[(DEAR, 32, 64, 6400)]), &call(CHEAP, &[64]), CHEAP, 64), 0, "another kind");
        let mut mixed = call(DEAR, &[64]);
        mixed.add(CHEAP, 0, 5);
        assert_eq!(fit(&after(&[(DEAR, 32, 64, 6400)]), &mixed, DEAR, 64), 0, "a call with unmeasured work");
        let calls = [1, 2, 4, 8].map(|levels| fit(&after(&[(DEAR, levels, 64, 1)]), &call(DEAR, &[64]), DEAR, 64));
        assert_eq!(calls, [1, 3, 7, 15]);
    }

    #[test]
    fn the_expected_duration_of_another_size_is_an_upper_bound() {
        // a level of 1024 rows takes 10 ms; a smaller one is not expected to be faster before it was measured
        let paces = after(&[(DEAR, 64, 1024 * 32, 640_000)]);
        assert_eq!(fit(&paces, &call(DEAR, &[32]), DEAR, 32), 0);
        // a level of one row takes 100 us; a level of eight rows is expected to take at most eight times as long, and
        // by the buckets of powers of two at most sixteen times
        let paces = after(&[(DEAR, 64, 32, 6400)]);
        assert_eq!(fit(&paces, &call(DEAR, &[256]), DEAR, 256), 1);
    }

    #[test]
    fn levels_that_a_call_has_already_take_further_rows() {
        // levels of 64 and of 128 take 200 us each on a device that is not full
        let paces = after(&[(DEAR, 32, 64, 6400), (DEAR, 32, 128, 6400)]);
        let busy = call(DEAR, &[128, 64, 64, 64, 64, 64, 64, 64]);
        // seven levels join those of the call at no cost, and two more fill the window
        assert_eq!(fit(&paces, &busy, DEAR, 64), 9);
    }

    #[test]
    fn the_pace_follows_the_newest_calls_and_one_report_that_came_late_does_not_decide() {
        let mut paces = after(&[(DEAR, 32, 64, 6400)]);
        // two calls are reported together: the first seems to take twice as long, the second no time
        for us in [12_800, 0] {
            paces.observe(&call(DEAR, &[64; 32]), Duration::from_micros(us));
        }
        assert!((8..=10).contains(&fit(&paces, &call(DEAR, &[64]), DEAR, 64)));
        (0..50).for_each(|_| paces.observe(&call(DEAR, &[64; 32]), Duration::from_millis(64)));
        assert_eq!(fit(&paces, &call(DEAR, &[64]), DEAR, 64), 0);
    }

    #[test]
    fn a_call_of_two_kinds_tells_nothing_about_either_and_the_table_of_kinds_is_bounded() {
        let mut paces = LevelPaces::default();
        let mut mixed = call(DEAR, &[64]);
        mixed.add(CHEAP, 0, 5);
        paces.observe(&mixed, Duration::from_millis(1));
        assert!(paces.0.is_empty());
        for unit_cost in 0..1000 {
            paces.observe(&call(Kind { unit_cost, has_tables: false }, &[64]), Duration::from_millis(1));
        }
        assert_eq!(paces.0.len(), KINDS_MAX);
    }
}
