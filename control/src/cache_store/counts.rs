//! Counts of requests that nodes share (readings L1, L10): the database's arithmetic in the cache store.
//!
//! A count is believed if it is of this epoch. Every node that opens a connection begins a new one, after it told the
//! database what it counted without the cache store; so what was missed, and what an emptied cache store forgot, comes from
//! the database, as a floor.

use std::time::Duration;

use redis::ScriptInvocation;
use store::{Settled, Settlement};

use super::{Away, CacheStore};

pub const SCRIPT: &str = include_str!("counts.lua");

/// Name of the epoch.
pub const EPOCH: &str = "epoch";
/// How long counts that nobody asks for are kept; then they come from the database again.
const LIFE: Duration = Duration::from_secs(60 * 60);
/// Subjects in one call: the cache store does nothing else meanwhile.
const SUBJECTS_MAX: usize = 256;

/// What at least is used of the day and the month of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// That day.
    pub day_used: i64,
    /// That month.
    pub month_used: i64,
}

/// Why nothing was settled: a floor is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Neither what was used nor what was leased is known.
    Missing,
    /// What was used is not known to the last.
    Stale,
}

impl CacheStore {
    /// Settles with these subjects; with a floor, all are known.
    pub async fn settle(
        &self,
        told: &[(Settlement, Option<Floor>)],
        now: i64,
        leased_until: i64,
    ) -> Result<Vec<Result<Settled, Unknown>>, Away> {
        let mut settled = Vec::with_capacity(told.len());
        for told in told.chunks(SUBJECTS_MAX) {
            let mut call = self.0.settle_counts.key(self.0.config.name(EPOCH));
            call.arg(now).arg(leased_until).arg(LIFE.as_millis() as u64);
            for (settlement, floor) in told {
                call.key(self.0.config.name(&format!("count:{}", settlement.subject)));
                add(&mut call, settlement, *floor);
            }
            let answers: Vec<Vec<i64>> =
                self.call(async |mut connection| call.invoke_async(&mut connection).await).await?;
            settled.extend(answers.into_iter().map(|answer| match answer[..] {
                [day_used, month_used, granted, free] => Ok(Settled { day_used, month_used, granted, free }),
                [1] => Err(Unknown::Stale),
                _ => Err(Unknown::Missing),
            }));
        }
        Ok(settled)
    }
}

/// The arguments of one subject.
fn add(call: &mut ScriptInvocation<'_>, told: &Settlement, floor: Option<Floor>) {
    for number in [told.day, told.month, told.day_spent, told.month_spent, told.lease_back] {
        call.arg(number);
    }
    let floor = floor.map(|floor| [floor.day_used, floor.month_used]);
    let wish = told.wish.map(|wish| [wish.need, wish.waiting, wish.spare, wish.day_limit, wish.month_limit]);
    call.arg(floor.map_or([None; 2], |numbers| numbers.map(Some)).map(text).as_slice());
    call.arg(wish.map_or([None; 5], |numbers| numbers.map(Some)).map(text).as_slice());
}

fn text(number: Option<i64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use ::tests::redis::Redis;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use store::{Counts, Wish};
    use tokio::runtime::Runtime;

    use super::super::CacheStoreConfig;
    use super::*;

    /// A settlement, and what happens to the cache store before it.
    #[derive(Clone, Debug)]
    struct Step {
        told: Settlement,
        floor: Floor,
        now: i64,
        event: Event,
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Event {
        Nothing,
        NewEpoch,
        Emptied,
    }

    /// From nothing to the largest that there is.
    fn amounts() -> impl Strategy<Value = i64> {
        prop_oneof![0..40_i64, 0..(1_i64 << 50)]
    }

    fn steps() -> impl Strategy<Value = Step> {
        let wish = (0..9_i64, 0..20_i64, 0..90_i64, prop_oneof![amounts(), Just(9_007_199_254_740_991)], amounts());
        let wish = wish.prop_map(|(need, waiting, spare, day_limit, month_limit)| Wish {
            need,
            waiting: waiting.max(need),
            spare,
            day_limit,
            month_limit,
        });
        let told = (5..8_i64, 1..3_i64, -9..30_i64, -9..30_i64, -9..30_i64, proptest::option::of(wish));
        let event = prop_oneof![8 => Just(Event::Nothing), 1 => Just(Event::NewEpoch), 1 => Just(Event::Emptied)];
        (told, amounts(), amounts(), 0..300_i64, event).prop_map(|(told, day_used, month_used, now, event)| {
            let (day, month, day_spent, month_spent, lease_back, wish) = told;
            let told =
                Settlement { subject: "acct_1".to_owned(), day, month, day_spent, month_spent, lease_back, wish };
            Step { told, floor: Floor { day_used, month_used }, now, event }
        })
    }

    /// What the store says to the same.
    fn model(known: &mut Option<Counts>, step: &Step, with_floor: bool) -> Settled {
        let told = &step.told;
        let (day, month) = (told.day, told.month);
        let counts = known.get_or_insert(Counts { day, day_used: 0, month, month_used: 0, leased: 0, leased_until: 0 });
        if with_floor {
            let nothing = Settlement { day, month, ..Settlement::default() };
            counts.settle(&nothing, step.now, counts.leased_until);
            if day == counts.day {
                counts.day_used = counts.day_used.max(step.floor.day_used);
            }
            if month == counts.month {
                counts.month_used = counts.month_used.max(step.floor.month_used);
            }
        }
        counts.settle(told, step.now, step.now + 100)
    }

    #[test]
    fn l1_the_cache_store_settles_as_the_database_does() {
        let Some(redis) = Redis::start() else { return };
        let runtime = Runtime::new().unwrap();
        let config =
            CacheStoreConfig { patience: Duration::from_secs(60), ..CacheStoreConfig::at(&redis.url()).unwrap() };
        let cache = CacheStore::new(config).unwrap();
        let open = || runtime.block_on(async { cache.begin(cache.connect().await.unwrap().0).await.unwrap() });
        proptest!(|(steps in vec(steps(), 1..30))| {
            redis.command(&["FLUSHALL"]);
            let mut known = None;
            for (at, step) in steps.iter().enumerate() {
                match step.event {
                    _ if at == 0 => { open(); }
                    Event::Nothing => {}
                    Event::NewEpoch => { open(); }
                    Event::Emptied => {
                        redis.command(&["FLUSHALL"]);
                        known = None;
                    }
                }
                let settle = |floor| {
                    let told = [(step.told.clone(), floor)];
                    runtime.block_on(cache.settle(&told, step.now, step.now + 100)).unwrap()[0]
                };
                let unknown = match (known, step.event) {
                    (None, _) => Some(Unknown::Missing),
                    (Some(_), Event::NewEpoch) => Some(Unknown::Stale),
                    _ => None,
                };
                match unknown {
                    None => prop_assert_eq!(settle(None), Ok(model(&mut known, step, false))),
                    Some(unknown) => {
                        prop_assert_eq!(settle(None), Err(unknown));
                        prop_assert_eq!(settle(Some(step.floor)), Ok(model(&mut known, step, true)));
                    }
                }
            }
        });
    }
}
