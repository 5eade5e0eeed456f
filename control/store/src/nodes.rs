//! The nodes of a database: until when each is surely there.

use crate::database::values;
use crate::{Result, Store};

impl Store {
    /// A node says that it is there until then, in microseconds since 1970.
    pub async fn renew_lease(&self, node_id: &str, until: i64) -> Result<()> {
        let sql = "INSERT INTO nodes (node_id, lease_until) VALUES ($1, $2) \
             ON CONFLICT (node_id) DO UPDATE SET lease_until = excluded.lease_until";
        self.db.execute(sql, values![node_id, until]).await.map(drop)
    }

    /// A node that stops in order takes back what it said.
    pub async fn end_lease(&self, node_id: &str) -> Result<()> {
        self.db.execute("DELETE FROM nodes WHERE node_id = $1", values![node_id]).await.map(drop)
    }
}
