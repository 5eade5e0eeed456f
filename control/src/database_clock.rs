//! The clock of a node on PostgreSQL is the database's, because the nodes of a database and operators' commands read each other's
//! times: when sessions and API keys end, and when limits begin anew.

use store::Store;

use crate::clock::{Clock, Timestamp};

/// Returns the clock of an operator's command.
///
/// # Errors
/// When the database does not answer.
pub async fn of_command(store: &Store) -> Result<Clock, store::Error> {
    let clock = Clock::system();
    follow(store, &clock).await?;
    Ok(clock)
}

/// Corrects the clock of a node if the clock is more than a second off. Does nothing on SQLite, whose clock is this machine's.
///
/// # Errors
/// When the database does not answer.
pub async fn follow(store: &Store, clock: &Clock) -> Result<(), store::Error> {
    if store.database() == "sqlite" {
        return Ok(());
    }
    let asked = clock.unmoved();
    if clock.correct(asked, Timestamp(store.clock().await?)) {
        let seconds = clock.correction_s();
        tracing::warn!(
            seconds,
            "this machine's clock is not the database's; the node corrects its time by so many seconds"
        );
    }
    Ok(())
}
