//! Objects to which no row refers any more. The transaction that deletes an object's row notes the object, and a node
//! that has the object removes it afterwards. If the node crashes before it has removed the object, the node removes
//! the object in a later round.

use crate::database::{Tx, from_row, values};
use crate::{Result, Store};

/// An object to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedObject {
    /// The object's name.
    pub object: String,
    /// The object's kind, as the transaction noted it.
    pub kind: String,
}

from_row!(DroppedObject { object, kind });

impl Store {
    /// Returns the objects to remove from a node's folder, the oldest first. An empty `node_id` means the storage that
    /// all nodes share.
    pub async fn dropped_objects(&self, node_id: &str, limit: i64) -> Result<Vec<DroppedObject>> {
        let sql = "SELECT object, kind FROM dropped_objects WHERE node_id = $1 ORDER BY dropped_at LIMIT $2";
        self.db.fetch_all(sql, values![node_id, limit]).await
    }

    /// Deletes the notes about these objects, which were removed.
    pub async fn forget_dropped_objects(&self, objects: &[DroppedObject]) -> Result<()> {
        let mut tx = self.db.begin().await?;
        for DroppedObject { object, .. } in objects {
            tx.execute("DELETE FROM dropped_objects WHERE object = $1", values![object]).await?;
        }
        tx.commit().await
    }
}

impl Tx {
    /// Notes that an object is to be removed after this transaction.
    pub async fn drop_object(&mut self, kind: &str, node_id: &str, object: &str, now: i64) -> Result<()> {
        let sql = "INSERT INTO dropped_objects (object, kind, node_id, dropped_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (object) DO NOTHING";
        self.execute(sql, values![object, kind, node_id, now]).await.map(drop)
    }
}
