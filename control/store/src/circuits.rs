//! Uploaded circuits, by account and name. Each circuit's netlist is an object, or a text in the circuit's row.

use crate::database::{from_row, values};
use crate::pages::{PageRows, page};
use crate::{Result, Store};

/// A circuit to store.
#[derive(Clone, Debug)]
pub struct NewCircuit<'a> {
    /// The owner's account.
    pub account_id: &'a str,
    /// The circuit's name within the account.
    pub name: &'a str,
    /// Where the netlist is stored.
    pub netlist: &'a NetlistPlace,
    /// Size of the netlist in bytes.
    pub bytes: i64,
    /// SHA-256 of the netlist.
    pub sha256: &'a [u8; 32],
    /// Number of gates.
    pub gates: i64,
    /// JSON object: the number of gates under each gate's name.
    pub by_gate: &'a str,
    /// Number of levels.
    pub levels: i64,
    /// JSON array: the width of each input in bits.
    pub input_widths: &'a str,
    /// JSON array: the width of each output in bits.
    pub output_widths: &'a str,
    /// Now, in microseconds since 1970.
    pub now: i64,
}

/// Where a circuit's netlist is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetlistPlace {
    /// The netlist is this text, which is stored in the circuit's row.
    Text(String),
    /// The netlist is in the object with this name.
    Object(String),
}

impl NetlistPlace {
    fn of((text, blob): (String, Option<String>)) -> NetlistPlace {
        blob.map_or(NetlistPlace::Text(text), NetlistPlace::Object)
    }

    /// Returns the values of the columns `text` and `blob`.
    fn columns(&self) -> (&str, Option<&str>) {
        match self {
            NetlistPlace::Text(text) => (text, None),
            NetlistPlace::Object(name) => ("", Some(name)),
        }
    }
}

/// A stored circuit's row without its netlist. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitRecord {
    /// The circuit's name within the account.
    pub name: String,
    /// Size of the netlist in bytes.
    pub bytes: i64,
    /// SHA-256 of the netlist.
    pub sha256: Vec<u8>,
    /// Number of gates.
    pub gates: i64,
    /// JSON object: the number of gates under each gate's name.
    pub by_gate: String,
    /// Number of levels.
    pub levels: i64,
    /// JSON array: the width of each input in bits.
    pub input_widths: String,
    /// JSON array: the width of each output in bits.
    pub output_widths: String,
    /// When the name was first used.
    pub created_at: i64,
    /// When the present netlist was uploaded.
    pub updated_at: i64,
}

from_row!(CircuitRecord {
    name,
    bytes,
    sha256,
    gates,
    by_gate,
    levels,
    input_widths,
    output_widths,
    created_at,
    updated_at
});

/// Limits on the circuits of an account.
#[derive(Clone, Copy, Debug)]
pub struct CircuitsMax {
    /// Largest number of circuits.
    pub count: i64,
    /// Largest total size of all netlists, in bytes.
    pub bytes: i64,
}

/// A circuit whose netlist is in its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitInRow {
    /// The owner's account.
    pub account_id: String,
    /// The circuit's name within the account.
    pub name: String,
    /// The netlist.
    pub text: String,
    /// SHA-256 of the netlist.
    pub sha256: Vec<u8>,
}

from_row!(CircuitInRow { account_id, name, text, sha256 });

/// A deleted circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenCircuit {
    /// Name of the object with the circuit's netlist. `None`: the netlist was in the circuit's row.
    pub blob: Option<String>,
}

from_row!(ForgottenCircuit { blob });

/// The result of storing a circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CircuitKept {
    /// The circuit is stored under a new name.
    Created(CircuitRecord),
    /// The circuit replaced an older circuit. The text is the name of the object with the older netlist, if that
    /// netlist was in an object.
    Replaced(CircuitRecord, Option<String>),
    /// Nothing was stored, because the account would exceed its limits.
    TooMuch,
}

impl Store {
    /// Stores a circuit if the account's limits permit it. A circuit with the same name is replaced.
    pub async fn put_circuit(&self, circuit: &NewCircuit<'_>, max: CircuitsMax) -> Result<CircuitKept> {
        let mut tx = self.db.begin().await?;
        // lock the account, so that the second of two concurrent uploads counts the first
        tx.lock_account(circuit.account_id).await?;
        let sql = "SELECT blob FROM circuits WHERE account_id = $1 AND name = $2";
        let older: Option<(Option<String>,)> =
            tx.fetch_optional(sql, values![circuit.account_id, circuit.name]).await?;
        let (text, blob) = circuit.netlist.columns();
        let sql = "INSERT INTO circuits (account_id, name, text, bytes, sha256, gates, by_gate, levels, input_widths, \
             output_widths, created_at, updated_at, blob) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11, $12) \
             ON CONFLICT (account_id, name) DO UPDATE SET text = excluded.text, blob = excluded.blob, bytes = excluded.bytes, \
             sha256 = excluded.sha256, gates = excluded.gates, by_gate = excluded.by_gate, levels = excluded.levels, \
             input_widths = excluded.input_widths, output_widths = excluded.output_widths, \
             updated_at = excluded.updated_at \
             RETURNING name, bytes, sha256, gates, by_gate, levels, input_widths, output_widths, created_at, updated_at";
        let record: CircuitRecord = tx
            .fetch_one(
                sql,
                values![
                    circuit.account_id,
                    circuit.name,
                    text,
                    circuit.bytes,
                    circuit.sha256,
                    circuit.gates,
                    circuit.by_gate,
                    circuit.levels,
                    circuit.input_widths,
                    circuit.output_widths,
                    circuit.now,
                    blob
                ],
            )
            .await?;
        let (count, bytes): (i64, i64) = tx
            .fetch_one(
                "SELECT COUNT(*), CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM circuits WHERE account_id = $1",
                values![circuit.account_id],
            )
            .await?;
        if count > max.count || bytes > max.bytes {
            return Ok(CircuitKept::TooMuch);
        }
        tx.commit().await?;
        Ok(match older {
            None => CircuitKept::Created(record),
            Some((blob,)) => CircuitKept::Replaced(record, blob),
        })
    }

    /// Returns a page of this account's circuits. A name keeps its place in the list when its netlist is replaced.
    pub async fn circuits_page(
        &self,
        account_id: &str,
        after: Option<(i64, &str)>,
        rows_max: i64,
    ) -> Result<PageRows<CircuitRecord>> {
        let (created_at, name) = after.unwrap_or((i64::MAX, ""));
        page(
            &self.db,
            after.is_none(),
            (
                "SELECT name, bytes, sha256, gates, by_gate, levels, input_widths, output_widths, created_at, updated_at, \
                 (SELECT COUNT(*) FROM circuits WHERE account_id = $1) AS total_count FROM circuits \
                 WHERE account_id = $1 AND (created_at, name) < ($2, $3) \
                 ORDER BY created_at DESC, name DESC LIMIT $4",
                values![account_id, created_at, name, rows_max],
            ),
            ("SELECT COUNT(*) FROM circuits WHERE account_id = $1", values![account_id]),
        )
        .await
    }

    /// Returns a circuit of this account.
    pub async fn circuit(&self, account_id: &str, name: &str) -> Result<Option<CircuitRecord>> {
        let sql = "SELECT name, bytes, sha256, gates, by_gate, levels, input_widths, output_widths, created_at, updated_at \
             FROM circuits WHERE account_id = $1 AND name = $2";
        self.db.fetch_optional(sql, values![account_id, name]).await
    }

    /// Returns the netlist of a circuit of this account, or the name of the object with the netlist.
    pub async fn netlist(&self, account_id: &str, name: &str) -> Result<Option<NetlistPlace>> {
        let sql = "SELECT text, blob FROM circuits WHERE account_id = $1 AND name = $2";
        Ok(self.db.fetch_optional(sql, values![account_id, name]).await?.map(NetlistPlace::of))
    }

    /// Deletes a circuit. Returns which object contained the circuit's netlist. `None`: no circuit has this name.
    pub async fn delete_circuit(&self, account_id: &str, name: &str) -> Result<Option<ForgottenCircuit>> {
        let mut tx = self.db.begin().await?;
        let sql = "DELETE FROM circuits WHERE account_id = $1 AND name = $2 RETURNING blob";
        let forgotten = tx.fetch_optional(sql, values![account_id, name]).await?;
        tx.commit().await?;
        Ok(forgotten)
    }

    /// Returns the names of all objects that contain netlists.
    pub async fn circuit_blobs(&self) -> Result<Vec<String>> {
        let rows: Vec<(String,)> =
            self.db.fetch_all("SELECT blob FROM circuits WHERE blob IS NOT NULL", values![]).await?;
        Ok(rows.into_iter().map(|(blob,)| blob).collect())
    }

    /// Finds the next circuit whose netlist is in its row. Circuits are sorted by account and name; the search begins
    /// after `after`.
    pub async fn circuit_in_row(&self, after: (&str, &str)) -> Result<Option<CircuitInRow>> {
        let sql = "SELECT account_id, name, text, sha256 FROM circuits WHERE blob IS NULL AND (account_id, name) > ($1, $2) \
             ORDER BY account_id, name LIMIT 1";
        self.db.fetch_optional(sql, values![after.0, after.1]).await
    }

    /// Replaces the netlist in a circuit's row by the name of an object. False: nothing was changed, because the
    /// circuit was deleted or has another netlist now.
    pub async fn put_netlist_out(&self, circuit: &CircuitInRow, blob: &str) -> Result<bool> {
        let sql = "UPDATE circuits SET text = '', blob = $4 \
             WHERE account_id = $1 AND name = $2 AND sha256 = $3 AND blob IS NULL";
        let done = self.db.execute(sql, values![&circuit.account_id, &circuit.name, &circuit.sha256, blob]).await?;
        Ok(done == 1)
    }
}
