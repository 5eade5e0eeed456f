//! The nodes of a database: until when each is surely there.

use crate::database::values;
use crate::gate_sessions::end_sessions;
use crate::{Result, Store};

impl Store {
    /// A node says that it is there until then, in microseconds since 1970.
    pub async fn renew_lease(&self, node_id: &str, until: i64) -> Result<()> {
        let sql = "INSERT INTO nodes (node_id, lease_until) VALUES ($1, $2) \
             ON CONFLICT (node_id) DO UPDATE SET lease_until = excluded.lease_until";
        self.db.execute(sql, values![node_id, until]).await.map(drop)
    }

    /// Forgets nodes whose lease ended before this; how many.
    pub async fn forget_nodes(&self, before: i64) -> Result<u64> {
        self.db.execute("DELETE FROM nodes WHERE lease_until < $1", values![before]).await
    }

    /// Ends sessions that expired before this and that their node did not end: it is gone. How many.
    pub async fn lose_forsaken_sessions(&self, before: i64) -> Result<u64> {
        let sql = end_sessions!("'lost'", "expires_at", "expires_at < $1");
        self.db.execute(sql, values![before]).await
    }

    /// A node that stops in order takes back what it said.
    pub async fn end_lease(&self, node_id: &str) -> Result<()> {
        self.db.execute("DELETE FROM nodes WHERE node_id = $1", values![node_id]).await.map(drop)
    }
}
