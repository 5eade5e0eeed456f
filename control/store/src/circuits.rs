//! Uploaded circuits, by account and name. Their netlists are objects, or texts in the rows.

use crate::database::{from_row, values};
use crate::pages::{PageRows, page};
use crate::{Result, Store};

/// A circuit to keep.
#[derive(Clone, Debug)]
pub struct NewCircuit<'a> {
    /// Owner.
    pub account_id: &'a str,
    /// Its name within the account.
    pub name: &'a str,
    /// Where its netlist is.
    pub netlist: &'a NetlistPlace,
    /// Bytes of the netlist.
    pub bytes: i64,
    /// SHA-256 of the netlist.
    pub sha256: &'a [u8; 32],
    /// Gates.
    pub gates: i64,
    /// JSON object: gate name to count.
    pub by_gate: &'a str,
    /// Levels.
    pub levels: i64,
    /// JSON array: bits of each input.
    pub input_widths: &'a str,
    /// JSON array: bits of each output.
    pub output_widths: &'a str,
    /// Now, in microseconds since 1970.
    pub now: i64,
}

/// Where the netlist of a circuit is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetlistPlace {
    /// Here.
    Text(String),
    /// In the object of this name.
    Object(String),
}

impl NetlistPlace {
    fn of((text, blob): (String, Option<String>)) -> NetlistPlace {
        blob.map_or(NetlistPlace::Text(text), NetlistPlace::Object)
    }

    /// The columns `text` and `blob`.
    fn columns(&self) -> (&str, Option<&str>) {
        match self {
            NetlistPlace::Text(text) => (text, None),
            NetlistPlace::Object(name) => ("", Some(name)),
        }
    }
}

/// What is known of a kept circuit; its netlist is read apart. Times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitRecord {
    /// Its name within the account.
    pub name: String,
    /// Bytes of the netlist.
    pub bytes: i64,
    /// SHA-256 of the netlist.
    pub sha256: Vec<u8>,
    /// Gates.
    pub gates: i64,
    /// JSON object: gate name to count.
    pub by_gate: String,
    /// Levels.
    pub levels: i64,
    /// JSON array: bits of each input.
    pub input_widths: String,
    /// JSON array: bits of each output.
    pub output_widths: String,
    /// When the name was first used.
    pub created_at: i64,
    /// When the netlist came.
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

/// What an account may keep.
#[derive(Clone, Copy, Debug)]
pub struct CircuitsMax {
    /// Circuits.
    pub count: i64,
    /// Bytes of their texts together.
    pub bytes: i64,
}

/// A circuit whose netlist is in its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitInRow {
    /// Owner.
    pub account_id: String,
    /// Its name within the account.
    pub name: String,
    /// The netlist.
    pub text: String,
    /// SHA-256 of the netlist.
    pub sha256: Vec<u8>,
}

from_row!(CircuitInRow { account_id, name, text, sha256 });

/// A circuit that was forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenCircuit {
    /// Name of the object that holds its netlist.
    pub blob: Option<String>,
}

from_row!(ForgottenCircuit { blob });

/// How keeping a circuit went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CircuitKept {
    /// Under a new name.
    Created(CircuitRecord),
    /// In place of an older one, whose netlist was in this object.
    Replaced(CircuitRecord, Option<String>),
    /// Not at all: the account would have more than it may.
    TooMuch,
}

impl Store {
    /// Keeps a circuit within the account's bounds; one of the same name is replaced.
    pub async fn put_circuit(&self, circuit: &NewCircuit<'_>, max: CircuitsMax) -> Result<CircuitKept> {
        let mut tx = self.db.begin().await?;
        // of two uploads at once the second counts the first
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

    /// A page of this account's circuits; a name keeps its place when its netlist is replaced.
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

    /// A circuit of this account.
    pub async fn circuit(&self, account_id: &str, name: &str) -> Result<Option<CircuitRecord>> {
        let sql = "SELECT name, bytes, sha256, gates, by_gate, levels, input_widths, output_widths, created_at, updated_at \
             FROM circuits WHERE account_id = $1 AND name = $2";
        self.db.fetch_optional(sql, values![account_id, name]).await
    }

    /// Where the netlist of a circuit of this account is.
    pub async fn netlist(&self, account_id: &str, name: &str) -> Result<Option<NetlistPlace>> {
        let sql = "SELECT text, blob FROM circuits WHERE account_id = $1 AND name = $2";
        Ok(self.db.fetch_optional(sql, values![account_id, name]).await?.map(NetlistPlace::of))
    }

    /// Forgets a circuit; the object that its netlist was in. `None`: there is no circuit of this name.
    pub async fn delete_circuit(&self, account_id: &str, name: &str) -> Result<Option<ForgottenCircuit>> {
        let mut tx = self.db.begin().await?;
        let sql = "DELETE FROM circuits WHERE account_id = $1 AND name = $2 RETURNING blob";
        let forgotten = tx.fetch_optional(sql, values![account_id, name]).await?;
        tx.commit().await?;
        Ok(forgotten)
    }

    /// The names of all objects that hold netlists.
    pub async fn circuit_blobs(&self) -> Result<Vec<String>> {
        let rows: Vec<(String,)> =
            self.db.fetch_all("SELECT blob FROM circuits WHERE blob IS NOT NULL", values![]).await?;
        Ok(rows.into_iter().map(|(blob,)| blob).collect())
    }

    /// A circuit whose netlist is in its row and comes after this one, by account and name.
    pub async fn circuit_in_row(&self, after: (&str, &str)) -> Result<Option<CircuitInRow>> {
        let sql = "SELECT account_id, name, text, sha256 FROM circuits WHERE blob IS NULL AND (account_id, name) > ($1, $2) \
             ORDER BY account_id, name LIMIT 1";
        self.db.fetch_optional(sql, values![after.0, after.1]).await
    }

    /// Lets the row of a circuit name an object in place of the netlist that it held. False: the circuit is gone, or has
    /// another netlist.
    pub async fn put_netlist_out(&self, circuit: &CircuitInRow, blob: &str) -> Result<bool> {
        let sql = "UPDATE circuits SET text = '', blob = $4 \
             WHERE account_id = $1 AND name = $2 AND sha256 = $3 AND blob IS NULL";
        let done = self.db.execute(sql, values![&circuit.account_id, &circuit.name, &circuit.sha256, blob]).await?;
        Ok(done == 1)
    }
}
