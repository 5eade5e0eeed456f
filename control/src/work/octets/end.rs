//! The end of work as bytes.

use std::time::Duration;

use api::OperationId;
use engine::{CircuitBound, Error, Rows};
use serde::{Deserialize, Serialize};

use super::behind::{NotWork, VERSION, check_version, gate, nanoseconds, split, with_head};
use crate::work::named::push_words;
use crate::work::question::{Figures, WorkEnd, WorkError};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndHead {
    version: u32,
    id: OperationId,
    end: EndKind,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum EndKind {
    Completed { rows: usize, row_words: usize, compute_ns: u64, units: u64 },
    Cancelled { completed: Vec<(String, u64)> },
    Busy { retry_after_ns: u64 },
    DeadlinePassed,
    Gone,
    NotRun,
    ShuttingDown,
    Device { cause: String },
    Key { cause: String },
    KeyTooLarge { bytes: u64, bytes_max: u64 },
    TooLarge { of: Bound, needed: u64, max: u64 },
    Config { cause: String },
    Unfit { cause: String },
    Dropped,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Bound {
    Rows,
    HostBytes,
    DeviceBytes,
}

/// Writes the end of the work with this id as bytes.
pub fn write_end(id: &OperationId, end: &WorkEnd) -> Vec<u8> {
    let mut behind = Vec::new();
    let end = match end {
        WorkEnd::Completed { results, figures: Figures { compute, units } } => {
            push_words(&results.words, &mut behind);
            EndKind::Completed {
                rows: results.len(),
                row_words: results.row_words,
                compute_ns: nanoseconds(*compute),
                units: *units,
            }
        }
        WorkEnd::Cancelled(completed) => EndKind::Cancelled {
            completed: completed.iter().map(|(gate, count)| (gate.name().to_owned(), *count)).collect(),
        },
        WorkEnd::Failed(error) => failed(error),
    };
    with_head(&EndHead { version: VERSION, id: id.clone(), end }, &behind)
}

/// Reads the end of the work with this id.
///
/// # Errors
/// When the bytes are not exactly one end of this version, or are the end of other work.
pub fn read_end(id: &OperationId, bytes: &[u8]) -> Result<WorkEnd, NotWork> {
    let (head, mut behind): (EndHead, _) = split(bytes)?;
    check_version(head.version)?;
    if head.id != *id {
        return Err(NotWork::because("the end of other work"));
    }
    let end = match head.end {
        EndKind::Completed { rows, row_words, compute_ns, units } => {
            let words = rows.checked_mul(row_words).filter(|_| row_words > 0);
            let words = behind.words(words.ok_or_else(|| NotWork::because("no rows"))?)?;
            let figures = Figures { compute: Duration::from_nanos(compute_ns), units };
            WorkEnd::Completed { results: Rows { row_words, words }, figures }
        }
        EndKind::Cancelled { completed } => WorkEnd::Cancelled(
            completed.into_iter().map(|(name, count)| Ok((gate(&name)?, count))).collect::<Result<_, _>>()?,
        ),
        failed => WorkEnd::Failed(error_of(failed)?),
    };
    behind.end()?;
    Ok(end)
}

fn failed(error: &WorkError) -> EndKind {
    match error.clone() {
        WorkError::Engine(error) => match error {
            Error::Busy { retry_after } => EndKind::Busy { retry_after_ns: nanoseconds(retry_after) },
            Error::DeadlinePassed => EndKind::DeadlinePassed,
            Error::Gone => EndKind::Gone,
            Error::Cancelled => EndKind::NotRun,
            Error::ShuttingDown => EndKind::ShuttingDown,
            Error::Device(cause) => EndKind::Device { cause },
            Error::Key(cause) => EndKind::Key { cause },
            Error::KeyTooLarge { bytes, bytes_max } => EndKind::KeyTooLarge { bytes, bytes_max },
            Error::CircuitTooLarge { of, needed, max } => EndKind::TooLarge { of: of.into(), needed, max },
            Error::Config(cause) => EndKind::Config { cause },
        },
        WorkError::Unfit(cause) => EndKind::Unfit { cause },
        // no worker writes that it is away
        WorkError::Dropped | WorkError::Away => EndKind::Dropped,
    }
}

fn error_of(kind: EndKind) -> Result<WorkError, NotWork> {
    Ok(WorkError::Engine(match kind {
        EndKind::Busy { retry_after_ns } => Error::Busy { retry_after: Duration::from_nanos(retry_after_ns) },
        EndKind::DeadlinePassed => Error::DeadlinePassed,
        EndKind::Gone => Error::Gone,
        EndKind::NotRun => Error::Cancelled,
        EndKind::ShuttingDown => Error::ShuttingDown,
        EndKind::Device { cause } => Error::Device(cause),
        EndKind::Key { cause } => Error::Key(cause),
        EndKind::KeyTooLarge { bytes, bytes_max } => Error::KeyTooLarge { bytes, bytes_max },
        EndKind::TooLarge { of, needed, max } => Error::CircuitTooLarge { of: of.into(), needed, max },
        EndKind::Config { cause } => Error::Config(cause),
        EndKind::Unfit { cause } => return Ok(WorkError::Unfit(cause)),
        EndKind::Dropped => return Ok(WorkError::Dropped),
        EndKind::Completed { .. } | EndKind::Cancelled { .. } => return Err(NotWork::because("no failure")),
    }))
}

impl From<CircuitBound> for Bound {
    fn from(of: CircuitBound) -> Bound {
        match of {
            CircuitBound::Rows => Bound::Rows,
            CircuitBound::HostBytes => Bound::HostBytes,
            CircuitBound::DeviceBytes => Bound::DeviceBytes,
        }
    }
}

impl From<Bound> for CircuitBound {
    fn from(of: Bound) -> CircuitBound {
        match of {
            Bound::Rows => CircuitBound::Rows,
            Bound::HostBytes => CircuitBound::HostBytes,
            Bound::DeviceBytes => CircuitBound::DeviceBytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use api::octets;
    use engine::Gate;

    use super::*;
    use crate::work::octets::behind::HEAD_BYTES_MAX;

    fn id(bits: u128) -> OperationId {
        OperationId::from_bits(bits)
    }

    fn every_end() -> Vec<WorkEnd> {
        let figures = Figures { compute: Duration::from_nanos(1_234_567_891), units: u64::MAX };
        let errors = [
            Error::Busy { retry_after: Duration::from_millis(1500) },
            Error::DeadlinePassed,
            Error::Gone,
            Error::Cancelled,
            Error::ShuttingDown,
            Error::Device("card \"0\"\n".to_owned()),
            Error::Key("gone".to_owned()),
            Error::KeyTooLarge { bytes: 2, bytes_max: 1 },
            Error::CircuitTooLarge { of: CircuitBound::DeviceBytes, needed: u64::MAX, max: 1 },
            Error::Config("a setting".to_owned()),
        ];
        let failed =
            errors.map(WorkError::Engine).into_iter().chain([WorkError::Unfit("no".to_owned()), WorkError::Dropped]);
        let ends = [
            WorkEnd::Completed { results: Rows { row_words: 2, words: vec![1, u32::MAX, 3, 4] }, figures },
            WorkEnd::Completed { results: Rows::none(3), figures },
            WorkEnd::Cancelled(vec![(Gate::Mux, u64::MAX), (Gate::Nand, 0)]),
            WorkEnd::Cancelled(Vec::new()),
        ];
        ends.into_iter().chain(failed.map(WorkEnd::Failed)).collect()
    }

    #[test]
    fn an_end_is_the_same_after_its_way_as_bytes_and_of_its_own_work_alone() {
        for end in every_end() {
            let bytes = write_end(&id(7), &end);
            assert_eq!(read_end(&id(7), &bytes).unwrap(), end);
            assert!(read_end(&id(8), &bytes).is_err(), "{end:?}");
        }
    }

    #[test]
    fn seeds_of_the_fuzz_target_are_ends_of_this_version() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/work_end");
        for (at, end) in every_end().iter().enumerate() {
            let path = folder.join(format!("end-{at:02}"));
            if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
                std::fs::write(&path, write_end(&id(0), end)).unwrap();
            }
            assert_eq!(read_end(&id(0), &std::fs::read(path).unwrap()).as_ref(), Ok(end));
        }
    }

    #[test]
    fn ends_that_are_cut_or_lengthened_are_refused() {
        let longer = |bytes: &[u8]| [bytes, b" "].concat();
        for end in every_end() {
            let bytes = write_end(&id(7), &end);
            assert!((0..bytes.len()).all(|cut| read_end(&id(7), &bytes[..cut]).is_err()), "{end:?}");
            assert!(read_end(&id(7), &longer(&bytes)).is_err(), "{end:?}");
        }
    }

    #[test]
    fn another_version_and_sizes_that_lie_are_refused() {
        let changed = |bytes: &[u8], change: &dyn Fn(&mut serde_json::Value)| {
            let (head, behind) = octets::split(bytes, HEAD_BYTES_MAX).unwrap();
            let mut head: serde_json::Value = serde_json::from_slice(head).unwrap();
            change(&mut head);
            with_head(&head, behind)
        };
        let end = write_end(&id(7), &every_end()[0]);
        assert!(read_end(&id(7), &changed(&end, &|head| head["version"] = 1.into())).is_err());
        assert!(read_end(&id(7), &changed(&end, &|head| head["end"]["completed"]["row_words"] = 3.into())).is_err());
    }
}
