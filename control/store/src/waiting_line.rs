//! The waiting line of a fleet: operations for which no client waits. An API node writes the row with the operation. Any API
//! node releases rows to the workers, in the order of their tags, and is then the only one that may end the operation: a
//! later release has another epoch. The row is deleted with the operation's end.
//!
//! All times are of the database's clock, because clocks of nodes differ.

use crate::database::{Sql, Tx, clock, from_row, locking, values};
use crate::running_circuits::{self, running};
use crate::{Error, Result, Store};

/// The node of all operations and reservations in the line. Nodes of a fleet settle them for each other.
pub use crate::gate_sessions::FLEET;

/// An operation for the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWaiting {
    /// `op_...`
    pub op_id: String,
    /// The owner's account.
    pub account_id: String,
    /// Operations with the same text here have a common largest number.
    pub counted: String,
    /// This largest number, the new operation included.
    pub counted_max: i64,
    /// The operation's cost in units of work, at least 1.
    pub cost: i64,
    /// The account's weight among the accounts that wait, at least 1.
    pub weight: i64,
    /// The time in microseconds after which the operation fails.
    pub left_us: i64,
    /// The reservation that pays for the operation. The fleet holds it from now on.
    pub transfer_id: Option<String>,
    /// The object with the work for the workers.
    pub work_object: String,
    /// JSON: how the operation is booked.
    pub booking: String,
}

/// An operation that was released to the workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// `op_...`
    pub op_id: String,
    /// The owner's account.
    pub account_id: String,
    /// The number of this release.
    pub epoch: i64,
    /// The time in microseconds until the operation's deadline. Negative: the deadline has passed.
    pub left_us: i64,
    /// Whether the operation was cancelled before its release.
    pub cancelled: bool,
    /// The reservation that pays for the operation.
    pub transfer_id: Option<String>,
    /// The object with the work for the workers.
    pub work_object: String,
    /// The object with the last checkpoint.
    pub checkpoint: Option<String>,
    /// JSON: how the operation is booked.
    pub booking: String,
}

from_row!(Released { op_id, account_id, epoch, left_us, cancelled, transfer_id, work_object, checkpoint, booking });

/// A released operation with its tag.
struct Tagged {
    released: Released,
    tag: i64,
}

from_row!(Tagged { released as part, tag });

/// An operation in the line, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// `op_...`
    pub op_id: String,
    /// The owner's account.
    pub account_id: String,
    /// Whether an API node has released the operation to the workers.
    pub released: bool,
    /// How often the operation was released.
    pub epoch: i64,
    /// Units of work that are done.
    pub done: i64,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
    /// The reservation that pays for the operation.
    pub transfer_id: Option<String>,
    /// The object with the work for the workers.
    pub work_object: String,
    /// The object with the last checkpoint.
    pub checkpoint: Option<String>,
}

from_row!(Waiting { op_id, account_id, released, epoch, done, cancelled, transfer_id, work_object, checkpoint });

/// The length of the line, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineLength {
    /// Number of operations that wait.
    pub waiting: i64,
    /// Number of operations that are released to the workers.
    pub released: i64,
    /// How long ago the oldest operation that waits entered the line, in microseconds. `None`: no operation waits.
    pub oldest_us: Option<i64>,
}

from_row!(LineLength { waiting, released, oldest_us });

/// Microseconds of a cost of one unit at weight 1 in the tags. A larger number rounds less.
const TAG_UNIT: i64 = 1 << 10;
/// A cost counts as at most this many units, so that tags do not overflow.
const COST_MAX: i64 = 1 << 32;

/// The columns of [`Waiting`].
macro_rules! waiting_columns {
    () => {
        "op_id, account_id, released, epoch, done, cancelled, transfer_id, work_object, checkpoint"
    };
}

impl Store {
    /// Releases at most `most` waiting operations, those with the smallest tags, so many that at most `room` are released at the
    /// same time. Each release counts for `lease_us` microseconds without a sign of progress.
    pub async fn release_waiting(&self, room: i64, most: i64, lease_us: i64) -> Result<Vec<Released>> {
        let waiting: Option<(i64,)> = self
            .db
            .fetch_optional("SELECT tag FROM waiting_line WHERE NOT released ORDER BY tag LIMIT 1", values![])
            .await?;
        if waiting.is_none() {
            return Ok(Vec::new());
        }
        let mut tx = self.db.begin().await?;
        // the row of the virtual time is the lock of all releases: their count would otherwise exceed the room
        tx.execute("UPDATE waiting_line_time SET tag = tag WHERE id = 1", values![]).await?;
        macro_rules! release {
            ($clock:expr, $limit:expr) => {
                concat!(
                    "UPDATE waiting_line SET released = TRUE, epoch = epoch + 1, released_until = $2 + ",
                    $clock,
                    " WHERE op_id IN (SELECT op_id FROM waiting_line WHERE NOT released ORDER BY tag, op_id LIMIT ",
                    $limit,
                    ") RETURNING op_id, account_id, epoch, deadline - ",
                    $clock,
                    " AS left_us, cancelled, transfer_id, work_object, checkpoint, booking, tag"
                )
            };
        }
        let sql = Sql {
            sqlite: release!(
                clock!(sqlite),
                "MIN($3, MAX(0, $1 - (SELECT COUNT(*) FROM waiting_line WHERE released)))"
            ),
            postgres: release!(
                clock!(postgres),
                "LEAST($3, GREATEST(0, $1 - (SELECT COUNT(*) FROM waiting_line WHERE released))) FOR UPDATE SKIP LOCKED"
            ),
        };
        let tagged: Vec<Tagged> = tx.fetch_all(sql, values![room, lease_us, most]).await?;
        if let Some(largest) = tagged.iter().map(|one| one.tag).max() {
            let sql = "UPDATE waiting_line_time SET tag = $1 WHERE id = 1 AND tag < $1";
            tx.execute(sql, values![largest]).await?;
        }
        tx.commit().await?;
        Ok(tagged.into_iter().map(|one| one.released).collect())
    }

    /// Notes the progress of a release: so many units are done, or 0 if a worker has just begun. The release then counts for
    /// `lease_us` microseconds again. Returns whether the operation was cancelled. `None`: the operation has
    /// ended, or was released again.
    pub async fn note_progress(&self, op_id: &str, epoch: i64, done: i64, lease_us: i64) -> Result<Option<bool>> {
        macro_rules! note {
            ($clock:expr) => {
                concat!(
                    "UPDATE waiting_line SET done = CASE WHEN $3 > 0 THEN $3 ELSE done END, released_until = $4 + ",
                    $clock,
                    " WHERE op_id = $1 AND epoch = $2 AND released RETURNING cancelled"
                )
            };
        }
        let sql = Sql { sqlite: note!(clock!(sqlite)), postgres: note!(clock!(postgres)) };
        let mut tx = self.db.begin().await?;
        let row: Option<(bool,)> = tx.fetch_optional(sql, values![op_id, epoch, done, lease_us]).await?;
        tx.commit().await?;
        Ok(row.map(|(cancelled,)| cancelled))
    }

    /// Puts a released operation back into the line, at its old place. Returns false if the operation has ended, or was
    /// released again.
    pub async fn take_back_release(&self, op_id: &str, epoch: i64) -> Result<bool> {
        let sql = "UPDATE waiting_line SET released = FALSE WHERE op_id = $1 AND epoch = $2 AND released";
        Ok(self.db.execute(sql, values![op_id, epoch]).await? == 1)
    }

    /// Takes a released operation out of the line that has no end to record, because it has no record.
    pub async fn drop_release(&self, op_id: &str, epoch: i64) -> Result<()> {
        let sql = "DELETE FROM waiting_line WHERE op_id = $1 AND epoch = $2 AND released";
        self.db.execute(sql, values![op_id, epoch]).await.map(drop)
    }

    /// Puts operations back into the line whose release shows no progress any more. Returns their number.
    pub async fn take_back_silent_releases(&self) -> Result<u64> {
        macro_rules! take_back {
            ($clock:expr) => {
                concat!("UPDATE waiting_line SET released = FALSE WHERE released AND released_until < ", $clock)
            };
        }
        let sql = Sql { sqlite: take_back!(clock!(sqlite)), postgres: take_back!(clock!(postgres)) };
        self.db.execute(sql, values![]).await
    }

    /// Marks an operation as cancelled. Returns the operation in the line. `None`: the operation is not in the line.
    pub async fn cancel_waiting(&self, op_id: &str) -> Result<Option<Waiting>> {
        let sql = concat!("UPDATE waiting_line SET cancelled = TRUE WHERE op_id = $1 RETURNING ", waiting_columns!());
        let mut tx = self.db.begin().await?;
        let found = tx.fetch_optional(sql, values![op_id]).await?;
        tx.commit().await?;
        Ok(found)
    }

    /// Returns an operation in the line.
    pub async fn waiting(&self, op_id: &str) -> Result<Option<Waiting>> {
        let sql = concat!("SELECT ", waiting_columns!(), " FROM waiting_line WHERE op_id = $1");
        self.db.fetch_optional(sql, values![op_id]).await
    }

    /// Returns the first operations of the line, in the order of their release.
    pub async fn waiting_line(&self, limit: i64) -> Result<Vec<Waiting>> {
        let sql = concat!("SELECT ", waiting_columns!(), " FROM waiting_line ORDER BY tag, op_id LIMIT $1");
        self.db.fetch_all(sql, values![limit]).await
    }

    /// Returns the length of the line.
    pub async fn line_length(&self) -> Result<LineLength> {
        macro_rules! length {
            ($clock:expr) => {
                concat!(
                    "SELECT (SELECT COUNT(*) FROM waiting_line WHERE NOT released) AS waiting, ",
                    "(SELECT COUNT(*) FROM waiting_line WHERE released) AS released, ",
                    $clock,
                    " - (SELECT MIN(entered_at) FROM waiting_line WHERE NOT released AND entered_at > 0) AS oldest_us"
                )
            };
        }
        let sql = Sql { sqlite: length!(clock!(sqlite)), postgres: length!(clock!(postgres)) };
        self.db.fetch_one(sql, values![]).await
    }

    /// Names the object of the last checkpoint of a release. Returns the object of the checkpoint before. `None`: the operation
    /// has ended, or was released again.
    pub async fn note_checkpoint(&self, op_id: &str, epoch: i64, object: &str) -> Result<Option<Option<String>>> {
        let mut tx = self.db.begin().await?;
        let sql = locking!("SELECT checkpoint FROM waiting_line WHERE op_id = $1 AND epoch = $2 AND released");
        let before: Option<(Option<String>,)> = tx.fetch_optional(sql, values![op_id, epoch]).await?;
        let Some((before,)) = before else { return Ok(None) };
        let sql = "UPDATE waiting_line SET checkpoint = $2 WHERE op_id = $1";
        tx.execute(sql, values![op_id, object]).await?;
        tx.commit().await?;
        Ok(Some(before))
    }

    /// Returns the names of all objects of work and of checkpoints in the line, for a sweep.
    pub async fn work_objects(&self) -> Result<Vec<String>> {
        let sql = "SELECT work_object FROM waiting_line UNION ALL \
             SELECT checkpoint FROM waiting_line WHERE checkpoint IS NOT NULL";
        let rows: Vec<(String,)> = self.db.fetch_all(sql, values![]).await?;
        Ok(rows.into_iter().map(|(object,)| object).collect())
    }

    /// Returns the open reservations of the fleet whose operation is not in the line any more, at most `limit`: transfer and
    /// account.
    pub async fn reservations_without_operation(&self, limit: i64) -> Result<Vec<(String, String)>> {
        let sql = "SELECT transfer_id, account_id FROM open_reservations o WHERE node_id = $1 AND NOT EXISTS \
             (SELECT 1 FROM waiting_line w WHERE w.transfer_id = o.transfer_id) LIMIT $2";
        self.db.fetch_all(sql, values![FLEET, limit]).await
    }
}

/// Enters operations in the line, behind the operations of their account. The fleet holds their reservations from now on.
///
/// # Errors
/// [`Error::TooManyWait`]: as many operations that are counted with it are in the line, or run for a client that waits, as may be.
/// [`Error::ReservationLost`]: the reservation is no longer open.
pub(crate) async fn enter_all(tx: &mut Tx, new: impl Iterator<Item = &NewWaiting> + Clone) -> Result<()> {
    running_circuits::lock(tx, new.clone().map(|new| new.counted.as_str()).collect()).await?;
    for new in new {
        if let Some(transfer_id) = &new.transfer_id {
            let sql = "UPDATE open_reservations SET node_id = $2 WHERE transfer_id = $1";
            if tx.execute(sql, values![transfer_id, FLEET]).await? == 0 {
                return Err(Error::ReservationLost);
            }
        }
        // the account's last tag, or the virtual time if the account has paused
        macro_rules! enter {
            ($clock:expr, $larger:expr) => {
                concat!(
                    "INSERT INTO waiting_line (op_id, account_id, counted, tag, deadline, transfer_id, work_object, booking, \
                     entered_at) SELECT $1, $3, $2, $4 + ",
                    $larger,
                    "((SELECT tag FROM waiting_line_time WHERE id = 1), \
                     COALESCE((SELECT MAX(tag) FROM waiting_line WHERE account_id = $3), 0)), $5 + ",
                    $clock,
                    ", $6, $7, $8, ",
                    $clock,
                    " WHERE ",
                    running!($clock),
                    " < $9"
                )
            };
        }
        let sql = Sql { sqlite: enter!(clock!(sqlite), "MAX"), postgres: enter!(clock!(postgres), "GREATEST") };
        let step = new.cost.clamp(1, COST_MAX) * TAG_UNIT / new.weight.max(1);
        let values = values![
            &new.op_id,
            &new.counted,
            &new.account_id,
            step,
            new.left_us,
            new.transfer_id.as_deref(),
            &new.work_object,
            &new.booking,
            new.counted_max,
        ];
        if tx.execute(sql, values).await? == 0 {
            return Err(Error::TooManyWait);
        }
    }
    Ok(())
}

/// Who ends an operation of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnd {
    /// The API node of the release with this number.
    Released(i64),
    /// A node that found the operation waiting.
    Waiting,
    /// The operator, whatever the operation's state.
    Operator,
}

/// Takes an operation out of the line, whose end is written in the same transaction.
///
/// # Errors
/// [`Error::OperationEnded`]: the operation is not in the line, or was released again.
pub(crate) async fn leave(tx: &mut Tx, op_id: &str, end: LineEnd) -> Result<()> {
    let done = match end {
        LineEnd::Released(epoch) => {
            let sql = "DELETE FROM waiting_line WHERE op_id = $1 AND epoch = $2 AND released";
            tx.execute(sql, values![op_id, epoch]).await?
        }
        LineEnd::Operator => tx.execute("DELETE FROM waiting_line WHERE op_id = $1", values![op_id]).await?,
        LineEnd::Waiting => {
            tx.execute("DELETE FROM waiting_line WHERE op_id = $1 AND NOT released", values![op_id]).await?
        }
    };
    if done == 1 { Ok(()) } else { Err(Error::OperationEnded) }
}
