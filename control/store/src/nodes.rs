//! The nodes of a database and their leases.

use crate::database::values;
use crate::gate_sessions::end_sessions;
use crate::{Result, Store};

impl Store {
    /// Extends a node's lease until this time, in microseconds since 1970.
    pub async fn renew_lease(&self, node_id: &str, until: i64) -> Result<()> {
        let sql = "INSERT INTO nodes (node_id, lease_until) VALUES ($1, $2) \
             ON CONFLICT (node_id) DO UPDATE SET lease_until = excluded.lease_until";
        self.db.execute(sql, values![node_id, until]).await.map(drop)
    }

    /// Deletes the nodes whose lease ended before this time. Returns the number of nodes.
    pub async fn forget_nodes(&self, before: i64) -> Result<u64> {
        self.db.execute("DELETE FROM nodes WHERE lease_until < $1", values![before]).await
    }

    /// Finds sessions that expired before this time but are still recorded as active, because their node is dead.
    /// Records these sessions as lost, and returns their number.
    pub async fn lose_forsaken_sessions(&self, before: i64) -> Result<u64> {
        let sql = end_sessions!("'lost'", "expires_at", "expires_at < $1");
        self.db.execute(sql, values![before]).await
    }

    /// Ends the lease of a node that shuts down normally.
    pub async fn end_lease(&self, node_id: &str) -> Result<()> {
        self.db.execute("DELETE FROM nodes WHERE node_id = $1", values![node_id]).await.map(drop)
    }
}
