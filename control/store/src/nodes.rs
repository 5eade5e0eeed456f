//! The nodes of a database and their leases.
//!
//! A node has two leases. One is for its sessions and reservations, by the nodes' clocks. The other is for the claims of
//! its process ([`crate::kept_answers`]), by the database's clock: the process has a generation, a random number. A
//! generation that has ended never comes back.

use crate::database::{Sql, clock, values};
use crate::gate_sessions::end_sessions;
use crate::{Result, Store};

impl Store {
    /// Returns the present moment by the database's clock, in microseconds since 1970.
    pub async fn clock(&self) -> Result<i64> {
        let sql = Sql { sqlite: concat!("SELECT ", clock!(sqlite)), postgres: concat!("SELECT ", clock!(postgres)) };
        let (now,) = self.db.fetch_one(sql, values![]).await?;
        Ok(now)
    }

    /// Extends a node's lease until this time, in microseconds since 1970.
    pub async fn renew_lease(&self, node_id: &str, until: i64) -> Result<()> {
        let sql = "INSERT INTO nodes (node_id, lease_until) VALUES ($1, $2) \
             ON CONFLICT (node_id) DO UPDATE SET lease_until = excluded.lease_until";
        self.db.execute(sql, values![node_id, until]).await.map(drop)
    }

    /// Deletes the nodes whose lease ended before this time, unless their process holds a generation. Returns the number of
    /// nodes.
    pub async fn forget_nodes(&self, before: i64) -> Result<u64> {
        macro_rules! forget {
            ($clock:expr) => {
                concat!(
                    "DELETE FROM nodes WHERE lease_until < $1 AND (alive_until IS NULL OR alive_until <= ",
                    $clock,
                    ")"
                )
            };
        }
        let forget = Sql { sqlite: forget!(clock!(sqlite)), postgres: forget!(clock!(postgres)) };
        self.db.execute(forget, values![before]).await
    }

    /// Finds sessions that expired before this time but are still recorded as active, because their node is dead.
    /// Records these sessions as lost, and returns their number.
    pub async fn lose_forsaken_sessions(&self, before: i64) -> Result<u64> {
        let sql = end_sessions!("'lost'", "expires_at", "expires_at < $1");
        self.db.execute(sql, values![before]).await
    }

    /// Begins a generation of a node: ends the generation before and its claims. The new generation's claims hold for
    /// `lease_us` microseconds, if the lease is not renewed.
    pub async fn begin_generation(&self, node_id: &str, generation: i64, lease_us: i64) -> Result<()> {
        macro_rules! begin {
            ($clock:expr) => {
                concat!(
                    "INSERT INTO nodes (node_id, lease_until, generation, alive_until) VALUES ($1, 0, $2, ",
                    $clock,
                    " + $3) ON CONFLICT (node_id) DO UPDATE SET generation = excluded.generation, ",
                    "alive_until = excluded.alive_until"
                )
            };
        }
        let begin = Sql { sqlite: begin!(clock!(sqlite)), postgres: begin!(clock!(postgres)) };
        self.write(async |tx| {
            tx.execute(begin, values![node_id, generation, lease_us]).await?;
            tx.end_claims_of(node_id).await
        })
        .await
    }

    /// Renews the lease on a generation's claims. `false`: the generation has ended, because its lease was over or the
    /// node has begun another generation.
    pub async fn renew_generation(&self, node_id: &str, generation: i64, lease_us: i64) -> Result<bool> {
        macro_rules! renew {
            ($clock:expr) => {
                concat!(
                    "UPDATE nodes SET alive_until = ",
                    $clock,
                    " + $3 WHERE node_id = $1 AND generation = $2 AND alive_until > ",
                    $clock
                )
            };
        }
        let renew = Sql { sqlite: renew!(clock!(sqlite)), postgres: renew!(clock!(postgres)) };
        Ok(self.db.execute(renew, values![node_id, generation, lease_us]).await? > 0)
    }

    /// Ends the leases of a node that shuts down normally.
    pub async fn end_lease(&self, node_id: &str) -> Result<()> {
        self.db.execute("DELETE FROM nodes WHERE node_id = $1", values![node_id]).await.map(drop)
    }
}
