//! The record of a move of another database into this one. A database with an unfinished move has a part of the rows, so
//! no node may use it.

use crate::database::{Sql, Tx, from_row, values};
use crate::gate_sessions::FLEET;
use crate::{Error, Result, Store};

/// A move of another database into this one. Times are microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The id of the database whose rows are copied.
    pub source_id: String,
    /// When the first attempt began.
    pub begun_at: i64,
    /// When the move was complete. `None`: a part may be missing.
    pub ended_at: Option<i64>,
}

from_row!(Move { source_id, begun_at, ended_at });

/// A move that this process does. No other process can hold it at the same time.
#[derive(Debug)]
pub struct HeldMove {
    tx: Tx,
}

impl Store {
    /// Returns the move into this database. `None`: there was none.
    pub async fn recorded_move(&self) -> Result<Option<Move>> {
        self.db.fetch_optional("SELECT source_id, begun_at, ended_at FROM moves WHERE id = 1", values![]).await
    }

    /// Records that the database `source_id` moves into this one, unless that is recorded already, and holds the move
    /// until the returned value is dropped. `None`: another process holds the move.
    ///
    /// # Errors
    /// When a move of another database is recorded.
    pub async fn hold_move(&self, source_id: &str, now: i64) -> Result<Option<HeldMove>> {
        let sql = "INSERT INTO moves (id, source_id, begun_at) VALUES (1, $1, $2) ON CONFLICT (id) DO NOTHING";
        self.db.execute(sql, values![source_id, now]).await?;
        // the lock ends with the connection, so it does not outlive a process that dies
        let mut tx = self.db.begin().await?;
        let forever = Sql { sqlite: "SELECT 1", postgres: "SET LOCAL idle_in_transaction_session_timeout = 0" };
        tx.execute(forever, values![]).await?;
        let sql = Sql {
            sqlite: "SELECT source_id FROM moves WHERE id = 1",
            postgres: "SELECT source_id FROM moves WHERE id = 1 FOR UPDATE SKIP LOCKED",
        };
        match tx.fetch_optional::<(String,)>(sql, values![]).await? {
            None => Ok(None),
            Some((found,)) if found == source_id => Ok(Some(HeldMove { tx })),
            Some(_) => Err(Error::Move("another database is being moved into this one".to_owned())),
        }
    }

    /// Returns the nodes of this database whose lease lasts beyond this time.
    pub async fn nodes_alive(&self, now: i64) -> Result<Vec<String>> {
        let sql = "SELECT node_id FROM nodes WHERE lease_until >= $1 AND node_id <> $2";
        let rows: Vec<(String,)> = self.db.fetch_all(sql, values![now, FLEET]).await?;
        Ok(rows.into_iter().map(|(node_id,)| node_id).collect())
    }
}

impl HeldMove {
    /// Records that the move is complete. From now on nodes may use the database.
    pub async fn end(mut self, now: i64) -> Result<()> {
        self.tx.execute("UPDATE moves SET ended_at = $1 WHERE id = 1", values![now]).await?;
        self.tx.commit().await
    }
}
