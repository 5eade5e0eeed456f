//! The number of rows that a batch should have on a card that does not tell how many groups it runs at the same time:
//! measured with keys of few steps, before the card is proved.

use std::time::{Duration, Instant};

use super::{SHORT_DIMENSION, proof_key, rows_of};
use crate::error::Result;
use crate::tfhe::{EvaluationKey, Gate, Gates, Preset, bootstrap};

/// The measured numbers of rows, ascending.
const SIZES: [usize; 4] = [64, 256, 1024, 4096];
/// Number of steps by which the longer key exceeds the short one. The difference of the two times is the time of these
/// steps alone, because transfers, launches and the key switch take the same time with both keys.
const STEPS: usize = 32;
/// A card whose batch takes longer than this with the short key is not measured further, because the longer key takes up
/// to ten times as long.
const SHORT_MAX: Duration = Duration::from_millis(50);
/// No larger batch is measured after one that takes longer than this.
const LONG_MAX: Duration = Duration::from_millis(300);
/// A batch is measured this many times, and the shortest time counts, unless the first one is long.
const REPEATS: usize = 3;

/// The keys with which a batch is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Short,
    /// [`STEPS`] more steps.
    Longer,
}

/// Measures the number of rows in a batch from which on larger batches are hardly faster. `None` if the device is too
/// slow to be measured in a fraction of a second.
///
/// # Errors
/// The device's error.
pub fn measured<B: Gates>(backend: &B) -> Result<Option<usize>> {
    let mut loaded: [Option<(EvaluationKey, B::Key)>; 2] = [None, None];
    measured_by(|key, rows| {
        let (at, steps) = match key {
            Key::Short => (0, SHORT_DIMENSION),
            Key::Longer => (1, SHORT_DIMENSION + STEPS),
        };
        if loaded[at].is_none() {
            let key = proof_key(Preset::Fast128, steps);
            loaded[at] = Some((key.clone(), backend.load_key(&key)?));
        }
        let (key, on_device) = loaded[at].as_ref().expect("it was just loaded");
        let gates = rows_of(&key.params, std::iter::repeat_n(Gate::Nand, rows));
        let since = Instant::now();
        bootstrap::evaluate(backend, on_device, &key.params, &gates)?;
        Ok(since.elapsed())
    })
}

/// Implements [`measured`]. `time` is the time of a batch with this key and this number of rows.
fn measured_by(mut time: impl FnMut(Key, usize) -> Result<Duration>) -> Result<Option<usize>> {
    let mut shortest = |key, rows, most: Duration| -> Result<Duration> {
        let mut shortest = time(key, rows)?;
        for _ in 1..REPEATS {
            if shortest > most {
                break;
            }
            shortest = shortest.min(time(key, rows)?);
        }
        Ok(shortest)
    };
    let mut times = Vec::new();
    for rows in SIZES {
        let short = shortest(Key::Short, rows, SHORT_MAX)?;
        if short > SHORT_MAX {
            break;
        }
        let longer = shortest(Key::Longer, rows, LONG_MAX)?;
        times.push((rows, longer.saturating_sub(short)));
        if longer > LONG_MAX {
            break;
        }
    }
    // the time of one size alone does not show whether a larger batch would be faster
    Ok(knee(&times).filter(|_| times.len() > 1))
}

/// The smallest of these numbers of rows, each with the time of a batch, with which a device computes at least nine tenths
/// as many rows in a second as with the best of them.
fn knee(times: &[(usize, Duration)]) -> Option<usize> {
    // a time of zero was too short to be measured
    let rate = |&(rows, time): &(usize, Duration)| rows as f64 / time.as_secs_f64().max(1e-9);
    let best = times.iter().map(rate).fold(0.0, f64::max);
    times.iter().find(|measured| rate(measured) >= 0.9 * best).map(|&(rows, _)| rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_knee_is_the_smallest_batch_that_is_nearly_as_fast_as_the_best() {
        assert_eq!(knee(&[]), None);
        // a full card takes as long for each further row
        assert_eq!(knee(&[(64, 10 * MS), (256, 40 * MS), (1024, 160 * MS)]), Some(64));
        // nothing is slower until 1024 rows
        assert_eq!(knee(&[(64, 10 * MS), (256, 10 * MS), (1024, 11 * MS), (4096, 44 * MS)]), Some(1024));
        assert_eq!(knee(&[(64, 10 * MS), (256, 10 * MS), (1024, 10 * MS), (4096, 10 * MS)]), Some(4096));
        // a rate of 89 % is too little, one of 91 % suffices
        assert_eq!(knee(&[(64, 100 * MS), (256, 356 * MS)]), Some(256));
        assert_eq!(knee(&[(64, 100 * MS), (256, 364 * MS)]), Some(64));
        // one batch was slow by accident
        assert_eq!(knee(&[(64, 10 * MS), (256, 80 * MS), (1024, 160 * MS)]), Some(64));
        assert_eq!(knee(&[(64, Duration::ZERO), (256, Duration::ZERO)]), Some(256));
    }

    /// Measures a simulated card that runs `groups` rows at the same time, takes `step` for a step of them, and `fixed` for
    /// everything else. Also returns the measured batches.
    fn simulated(groups: usize, step: Duration, fixed: Duration) -> (Option<usize>, Vec<(Key, usize)>) {
        let mut asked = Vec::new();
        let found = measured_by(|key, rows| {
            asked.push((key, rows));
            let steps = SHORT_DIMENSION + if key == Key::Longer { STEPS } else { 0 };
            Ok(fixed + step * (steps * rows.div_ceil(groups)) as u32)
        });
        (found.expect("nothing fails"), asked)
    }

    #[test]
    fn a_card_gets_batches_of_about_as_many_rows_as_it_runs_at_the_same_time() {
        let us = Duration::from_micros;
        // the cost of a launch does not hide that a full card is full
        for fixed in [us(0), us(500), us(5000)] {
            let found = [64, 256, 1024, 5000].map(|groups| simulated(groups, us(30), fixed).0);
            assert_eq!(found, SIZES.map(Some), "{fixed:?}");
            // 1024 rows take two rounds of 768, so a third of the card is idle; 4096 rows fill six rounds by nine tenths
            assert_eq!(simulated(768, us(30), fixed).0, Some(4096), "{fixed:?}");
        }
        let (_, asked) = simulated(768, us(30), us(500));
        assert_eq!(asked.len(), SIZES.len() * 2 * REPEATS);
    }

    #[test]
    fn a_slow_device_is_measured_for_a_fraction_of_a_second_only() {
        // a driver that computes on the processor: a millisecond and a half for each step of a row
        let (found, asked) = simulated(1, Duration::from_micros(1500), MS);
        assert_eq!((found, asked), (None, vec![(Key::Short, 64)]));
        // a slow card: 64 rows take 19 ms and 225 ms, and 256 rows take 76 ms with the short key
        let (found, asked) = simulated(8, MS * 4 / 5, MS / 10);
        let expected = [(Key::Short, 64); REPEATS].into_iter().chain([(Key::Longer, 64); REPEATS]);
        assert_eq!((found, asked), (None, expected.chain([(Key::Short, 256)]).collect()));
        // no batch is measured after one that takes longer than 300 ms
        let (found, asked) = simulated(64, 3 * MS, MS);
        let expected = [(Key::Short, 64), (Key::Longer, 64)].map(|batch| [batch; REPEATS]).concat();
        let expected = [&expected[..], &[(Key::Short, 256); REPEATS], &[(Key::Longer, 256)]].concat();
        assert_eq!((found, asked), (Some(64), expected));
    }

    #[test]
    fn the_error_of_a_device_ends_the_measurement() {
        let lost = || crate::Error::Lost("gone".into());
        assert_eq!(measured_by(|_, rows| if rows > 64 { Err(lost()) } else { Ok(MS) }), Err(lost()));
    }
}
