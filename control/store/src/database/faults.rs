//! The kinds of a driver's errors: about a value, about a connection, or about the database.

use std::io::ErrorKind;

use sqlx::Error;

/// SQLite's codes for a value that is too long, and for a value of a wrong type.
const SQLITE_DATA: [&str; 2] = ["18", "20"];
/// PostgreSQL's codes for a connection that the server has ended: a shutdown, a crash, a start, a deleted database, a
/// timeout of idle sessions, a timeout of idle transactions.
const ENDED: [&str; 6] = ["57P01", "57P02", "57P03", "57P04", "57P05", "25P03"];
/// PostgreSQL's codes for a statement that took too long or waited too long for a lock.
const SLOW: [&str; 2] = ["57014", "55P03"];

/// Whether the database refuses a value: a text with U+0000, a number out of range, a text too long for an index. The
/// fault is in the request, and the database works.
pub(crate) fn is_of_data(error: &Error) -> bool {
    matches!(error, Error::Encode(_)) || has_class(error, &["22", "54"]) || has_code(error, &SQLITE_DATA)
}

/// Whether an error concerns one work, so that other works of the same transaction can still be done: a violated
/// constraint, a row in an unexpected state, data that the database refuses, a deadlock.
pub(crate) fn is_of_one_work(error: &Error) -> bool {
    let of_constraint =
        |error: &Error| error.as_database_error().is_some_and(|cause| cause.kind() != sqlx::error::ErrorKind::Other);
    matches!(error, Error::RowNotFound) || is_of_data(error) || of_constraint(error) || has_class(error, &["40"])
}

/// Whether the connection was cut, so that another connection may work.
pub(crate) fn is_cut(error: &Error) -> bool {
    match error {
        Error::Io(cause) => cause.kind() != ErrorKind::TimedOut,
        _ => has_class(error, &["08"]) || has_code(error, &ENDED),
    }
}

/// Whether the error means that the database takes no writes: the disk is full or fails, the database is read-only, or
/// it does not answer. An error about one work, or a long wait, does not mean this.
pub(crate) fn fails_writes(error: &Error) -> bool {
    match error {
        Error::Database(_) => !is_of_one_work(error) && !has_code(error, &SLOW),
        Error::Io(_) | Error::Tls(_) | Error::WorkerCrashed | Error::BeginFailed => true,
        // this error means that an earlier transaction on the connection has not ended
        Error::InvalidSavePointStatement => true,
        _ => false,
    }
}

/// Whether PostgreSQL refuses a write because the database is read-only, such as a standby.
pub(crate) fn is_read_only(error: &Error) -> bool {
    has_code(error, &["25006"])
}

/// Whether the database's code is one of these.
fn has_code(error: &Error, codes: &[&str]) -> bool {
    code(error).is_some_and(|code| codes.contains(&code.as_str()))
}

/// Whether PostgreSQL's code, which has five characters, is in one of these classes.
fn has_class(error: &Error, classes: &[&str]) -> bool {
    code(error).is_some_and(|code| code.len() == 5 && classes.iter().any(|class| code.starts_with(class)))
}

fn code(error: &Error) -> Option<String> {
    error.as_database_error().and_then(|cause| cause.code()).map(|code| code.into_owned())
}
