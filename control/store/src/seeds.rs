//! Seeds of masks. Two contents under one mask reveal the secret key, so a seed may have only one content under a
//! secret key (docs/wire-format.md 17). A seed is a column of the row that has its content, and is forgotten with it.

use crate::Result;
use crate::database::{Tx, values};

/// A seed and the SHA-256 of the container or row that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeded {
    /// The seed of the masks.
    pub seed: [u8; 32],
    /// SHA-256 of all bytes of the container or row.
    pub sha256: [u8; 32],
}

impl Tx {
    /// Names an object of this account and secret key that has the same seed, but other bytes. `None`: no such object
    /// is stored. The caller has locked the account.
    pub(crate) async fn other_with_seed(
        &mut self,
        account_id: &str,
        fingerprint: &[u8],
        (seed, sha256): (&[u8], &[u8]),
    ) -> Result<Option<String>> {
        let sql = "SELECT 'row ' || r.row_index || ' of an evaluation key (' || r.kind || ', digit ' || r.digit || ')' AS other \
             FROM key_rows r JOIN key_materials m ON m.material_id = r.material_id \
             WHERE r.seed = $3 AND r.sha256 <> $4 AND m.account_id = $1 AND m.fingerprint = $2 \
             UNION ALL SELECT 'a public key' FROM key_materials \
             WHERE public_key_seed = $3 AND public_key_sha256 <> $4 AND account_id = $1 AND fingerprint = $2 \
             UNION ALL SELECT 'the ciphertext ' || c.ciphertext_id FROM ciphertexts c \
             JOIN encryption_keys k ON k.key_id = c.key_id JOIN key_materials m ON m.material_id = k.material_id \
             WHERE c.seed = $3 AND c.sha256 <> $4 AND m.account_id = $1 AND m.fingerprint = $2 LIMIT 1";
        let other: Option<(String,)> = self.fetch_optional(sql, values![account_id, fingerprint, seed, sha256]).await?;
        Ok(other.map(|(other,)| other))
    }
}
