//! The values that sessions of a fleet keep: results under handles, and results of runs of circuits. A value's ciphertexts
//! are an object, which is written before the value's row and removed after the row. A sweep removes objects that a crash left.

use crate::database::{Tx, from_row, values};
use crate::{Error, Result, Store};

/// A value to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSessionValue {
    /// The handle, or a name within the run.
    pub name: String,
    /// SHA-256 of the session's id.
    pub session_digest: [u8; 32],
    /// The run whose output this is, and which output.
    pub of_run: Option<(String, i64)>,
    /// The object with the ciphertexts.
    pub object: String,
    /// The size in bytes of the ciphertexts.
    pub bytes: i64,
    /// Largest size in bytes of all values of the session, this one included.
    pub bytes_max: i64,
}

/// A value that a session keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionValue {
    /// The handle, or a name within the run.
    pub name: String,
    /// The object with the ciphertexts. `None`: the value was deleted.
    pub object: Option<String>,
    /// The size in bytes of the ciphertexts.
    pub bytes: i64,
}

from_row!(SessionValue { name, object, bytes });

impl Store {
    /// Returns the value under a name in an open session.
    pub async fn session_value(&self, session_digest: &[u8; 32], name: &str) -> Result<Option<SessionValue>> {
        let sql = "SELECT v.name, v.object, v.bytes FROM session_values v \
             JOIN gate_sessions s ON s.digest = v.session_digest \
             WHERE v.name = $1 AND v.session_digest = $2 AND v.object IS NOT NULL AND s.state = 'active'";
        self.db.fetch_optional(sql, values![name, &session_digest[..]]).await
    }

    /// Returns the outputs of a run in an open session, in their order, those included that were deleted.
    pub async fn outputs_of_run(&self, session_digest: &[u8; 32], op_id: &str) -> Result<Vec<SessionValue>> {
        let sql = "SELECT v.name, v.object, v.bytes FROM session_values v \
             JOIN gate_sessions s ON s.digest = v.session_digest \
             WHERE v.op_id = $1 AND v.session_digest = $2 AND s.state = 'active' ORDER BY v.place";
        self.db.fetch_all(sql, values![op_id, &session_digest[..]]).await
    }

    /// Deletes the value under a name. Returns its object, which the caller then removes. `None`: the session keeps no such
    /// value.
    pub async fn forget_session_value(&self, session_digest: &[u8; 32], name: &str) -> Result<Option<String>> {
        let mut tx = self.db.begin().await?;
        let sql = "SELECT v.name, v.object, v.bytes FROM session_values v WHERE v.name = $1 AND v.session_digest = $2 \
             AND v.object IS NOT NULL";
        // the session's row first, as everywhere where its values change
        let lock = "UPDATE gate_sessions SET value_bytes = value_bytes WHERE digest = $1";
        tx.execute(lock, values![&session_digest[..]]).await?;
        let found: Option<SessionValue> = tx.fetch_optional(sql, values![name, &session_digest[..]]).await?;
        let Some(SessionValue { object: Some(object), bytes, .. }) = found else { return Ok(None) };
        tx.execute("UPDATE session_values SET object = NULL WHERE name = $1", values![name]).await?;
        let sql = "UPDATE gate_sessions SET value_bytes = value_bytes - $2 WHERE digest = $1";
        tx.execute(sql, values![&session_digest[..], bytes]).await?;
        tx.commit().await?;
        Ok(Some(object))
    }

    /// Deletes the outputs of a run that are under no handle. Returns their objects, which the caller then removes.
    pub async fn forget_outputs_of_run(&self, session_digest: &[u8; 32], op_id: &str) -> Result<Vec<String>> {
        let mut objects = Vec::new();
        for value in self.outputs_of_run(session_digest, op_id).await? {
            if value.name.starts_with(op_id) {
                objects.extend(self.forget_session_value(session_digest, &value.name).await?);
            }
        }
        Ok(objects)
    }

    /// Deletes the rows of the values of a session that has ended. Returns their objects, which the caller then removes.
    pub async fn forget_values_of(&self, session_digest: &[u8]) -> Result<Vec<String>> {
        let mut tx = self.db.begin().await?;
        let sql = "DELETE FROM session_values WHERE session_digest = $1 RETURNING name, object, bytes";
        let ended: Vec<SessionValue> = tx.fetch_all(sql, values![session_digest]).await?;
        tx.commit().await?;
        Ok(ended.into_iter().filter_map(|value| value.object).collect())
    }

    /// Returns the names of all objects of values, for a sweep.
    pub async fn value_objects(&self) -> Result<Vec<String>> {
        let sql = "SELECT object FROM session_values WHERE object IS NOT NULL";
        let rows: Vec<(String,)> = self.db.fetch_all(sql, values![]).await?;
        Ok(rows.into_iter().map(|(object,)| object).collect())
    }
}

/// Writes the rows of values.
///
/// # Errors
/// [`Error::SessionEnded`]: the session has ended. [`Error::ValuesFull`]: the session's values would exceed their largest
/// size.
pub(crate) async fn keep_all(tx: &mut Tx, new: impl Iterator<Item = &NewSessionValue>) -> Result<()> {
    for value in new {
        let digest = &value.session_digest[..];
        let room = "UPDATE gate_sessions SET value_bytes = value_bytes + $2 \
             WHERE digest = $1 AND state = 'active' AND value_bytes + $2 <= $3";
        if tx.execute(room, values![digest, value.bytes, value.bytes_max]).await? == 0 {
            let open = "SELECT value_bytes FROM gate_sessions WHERE digest = $1 AND state = 'active'";
            let open: Option<(i64,)> = tx.fetch_optional(open, values![digest]).await?;
            return Err(if open.is_some() { Error::ValuesFull } else { Error::SessionEnded });
        }
        let (op_id, place) = value.of_run.as_ref().map(|(op_id, place)| (op_id.as_str(), *place)).unzip();
        let sql = "INSERT INTO session_values (name, session_digest, op_id, place, object, bytes) \
             VALUES ($1, $2, $3, $4, $5, $6)";
        tx.execute(sql, values![&value.name, digest, op_id, place, &value.object, value.bytes]).await?;
    }
    Ok(())
}
