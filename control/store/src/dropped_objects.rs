//! Objects that no row names any more: written down in the transaction that forgets them, removed afterwards by the nodes
//! that have them. Whatever ends in between, they are removed at the next look.

use crate::database::{Tx, from_row, values};
use crate::{Result, Store};

/// An object that is to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedObject {
    /// Its name.
    pub object: String,
    /// Its kind, as the writer of the row calls it.
    pub kind: String,
}

from_row!(DroppedObject { object, kind });

impl Store {
    /// Objects to be removed from a node's folder, or (with an empty name) from where all nodes have the same ones; the
    /// oldest first.
    pub async fn dropped_objects(&self, node_id: &str, limit: i64) -> Result<Vec<DroppedObject>> {
        let sql = "SELECT object, kind FROM dropped_objects WHERE node_id = $1 ORDER BY dropped_at LIMIT $2";
        self.db.fetch_all(sql, values![node_id, limit]).await
    }

    /// Forgets objects that were removed.
    pub async fn forget_dropped_objects(&self, objects: &[DroppedObject]) -> Result<()> {
        let mut tx = self.db.begin().await?;
        for DroppedObject { object, .. } in objects {
            tx.execute("DELETE FROM dropped_objects WHERE object = $1", values![object]).await?;
        }
        tx.commit().await
    }
}

impl Tx {
    /// Has an object removed once this transaction is done.
    pub async fn drop_object(&mut self, kind: &str, node_id: &str, object: &str, now: i64) -> Result<()> {
        let sql = "INSERT INTO dropped_objects (object, kind, node_id, dropped_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (object) DO NOTHING";
        self.execute(sql, values![object, kind, node_id, now]).await.map(drop)
    }
}
