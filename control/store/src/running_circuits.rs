//! The circuits of a fleet whose clients wait. A session's largest number of circuits holds for all API nodes together, and for
//! the circuits of the waiting line ([`crate::waiting_line`]) too.
//!
//! A row counts while the process that wrote it lives: until its generation ends ([`crate::nodes`]). The API nodes take a lock for
//! a session before they count, so the number holds exactly, also when circuits begin on several nodes in the same moment. On
//! PostgreSQL the table is not logged, so a row waits for no disk.

use std::collections::BTreeSet;

use crate::database::{Sql, Tx, clock, values};
use crate::{Result, Store};

/// Counts the circuits, `$2`, of the waiting line and of living processes.
macro_rules! running {
    ($clock:expr) => {
        concat!(
            "(SELECT COUNT(*) FROM waiting_line WHERE counted = $2) + (SELECT COUNT(*) FROM running_circuits r ",
            "JOIN nodes n ON n.node_id = r.node_id WHERE r.counted = $2 AND n.generation = r.generation ",
            "AND n.alive_until > ",
            $clock,
            ")"
        )
    };
}
pub(crate) use running;

impl Store {
    /// Begins a circuit on this node, unless `most` circuits that are counted with it run or wait in the line. Returns
    /// whether the circuit may run.
    pub async fn begin_circuit(&self, op_id: &str, counted: &str, node_id: &str, most: i64) -> Result<bool> {
        macro_rules! begin {
            ($clock:expr) => {
                concat!(
                    "INSERT INTO running_circuits (op_id, counted, node_id, generation) SELECT $1, $2, $3, ",
                    "COALESCE((SELECT generation FROM nodes WHERE node_id = $3), 0) WHERE ",
                    running!($clock),
                    " < $4"
                )
            };
        }
        let begin = Sql { sqlite: begin!(clock!(sqlite)), postgres: begin!(clock!(postgres)) };
        let mut tx = self.db.begin().await?;
        lock(&mut tx, BTreeSet::from([counted])).await?;
        let begun = tx.execute(begin, values![op_id, counted, node_id, most]).await?;
        tx.commit().await?;
        Ok(begun == 1)
    }

    /// Removes a circuit that has ended.
    pub async fn end_circuit(&self, op_id: &str) -> Result<()> {
        self.db.execute("DELETE FROM running_circuits WHERE op_id = $1", values![op_id]).await.map(drop)
    }

    /// Removes the circuits of processes that have ended.
    pub async fn forget_circuits(&self) -> Result<u64> {
        let sql = "DELETE FROM running_circuits WHERE NOT EXISTS (SELECT 1 FROM nodes n \
             WHERE n.node_id = running_circuits.node_id AND n.generation = running_circuits.generation)";
        self.db.execute(sql, values![]).await
    }
}

/// Locks what is counted together until the transaction ends, so that no other node counts meanwhile. SQLite needs no such
/// lock, because only one transaction writes at a time.
pub(crate) async fn lock(tx: &mut Tx, counted: BTreeSet<&str>) -> Result<()> {
    if counted.is_empty() || !tx.has_arrays() {
        return Ok(());
    }
    // all transactions lock in this order. 37: the class of these locks, which no other lock has
    let sql = "SELECT pg_advisory_xact_lock(37, place) FROM \
         (SELECT DISTINCT hashtext(counted) AS place FROM unnest($1::text[]) AS counted ORDER BY place) places";
    let counted: Vec<Option<&str>> = counted.into_iter().map(Some).collect();
    tx.execute(sql, values![counted]).await.map(drop)
}
