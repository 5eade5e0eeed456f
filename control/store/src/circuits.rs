//! Uploaded circuits, by account and name.

use crate::database::{from_row, values};
use crate::pages::{Rows, page};
use crate::{Result, Store};

/// A circuit to keep.
#[derive(Clone, Debug)]
pub struct NewCircuit<'a> {
    /// Owner.
    pub account_id: &'a str,
    /// Its name within the account.
    pub name: &'a str,
    /// The netlist.
    pub text: &'a str,
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

/// What is known of a kept circuit; its text is read apart. Times in microseconds since 1970.
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

/// How keeping a circuit went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CircuitKept {
    /// Under a new name.
    Created(CircuitRecord),
    /// In place of an older one.
    Replaced(CircuitRecord),
    /// Not at all: the account would have more than it may.
    TooMuch,
}

impl Store {
    /// Keeps a circuit within the account's bounds; one of the same name is replaced.
    pub async fn put_circuit(&self, circuit: &NewCircuit<'_>, max: CircuitsMax) -> Result<CircuitKept> {
        let mut tx = self.db.begin().await?;
        // of two uploads at once the second counts the first
        tx.lock_account(circuit.account_id).await?;
        let sql = "INSERT INTO circuits (account_id, name, text, bytes, sha256, gates, by_gate, levels, input_widths, \
             output_widths, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11) \
             ON CONFLICT (account_id, name) DO UPDATE SET text = excluded.text, bytes = excluded.bytes, \
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
                    circuit.text,
                    circuit.text.len() as i64,
                    circuit.sha256,
                    circuit.gates,
                    circuit.by_gate,
                    circuit.levels,
                    circuit.input_widths,
                    circuit.output_widths,
                    circuit.now
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
        let created = record.created_at == circuit.now;
        Ok(if created { CircuitKept::Created(record) } else { CircuitKept::Replaced(record) })
    }

    /// A page of this account's circuits; a name keeps its place when its netlist is replaced.
    pub async fn circuits_page(
        &self,
        account_id: &str,
        after: Option<(i64, &str)>,
        rows_max: i64,
    ) -> Result<Rows<CircuitRecord>> {
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

    /// The netlist of a circuit of this account.
    pub async fn circuit_text(&self, account_id: &str, name: &str) -> Result<Option<String>> {
        let row: Option<(String,)> = self
            .db
            .fetch_optional("SELECT text FROM circuits WHERE account_id = $1 AND name = $2", values![account_id, name])
            .await?;
        Ok(row.map(|(text,)| text))
    }

    /// Forgets a circuit. False: there is none of this name.
    pub async fn delete_circuit(&self, account_id: &str, name: &str) -> Result<bool> {
        let done = self
            .db
            .execute("DELETE FROM circuits WHERE account_id = $1 AND name = $2", values![account_id, name])
            .await?;
        Ok(done == 1)
    }
}
