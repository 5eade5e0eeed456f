//! The material of a key on its way into the vault: a public key, a head, rows.

use api::encryption_keys::KeyParams;
use api::{AccountId, Code};
use sha2::{Digest as _, Sha256};
use store::{KeyRowRecord, Seeded, Store};
use zeroize::Zeroizing;

use crate::blobs::{Missing, SealedObject};
use crate::caller::Caller;
use crate::compute::Compute;
use crate::compute::numbers::vault::{Shelf, Vault};
use crate::ids;
use crate::resource::Payer;
use crate::web::error::ApiError;
use crate::work::fleet::RowsKey;
use crate::work::numbers::{self, EvaluationKeyHead, PublicKeyFacts, RowFacts, StoredRow};

/// Largest number of rows that one query reads.
const ROWS_READ: i64 = 1000;

/// The owner and the payer of a material that is put into the vault.
#[derive(Clone)]
pub struct Owner {
    /// The account that owns the key.
    pub account: AccountId,
    /// The account whose shares of memory and cores are used.
    pub payer: Payer,
}

impl From<&Caller> for Owner {
    fn from(caller: &Caller) -> Owner {
        Owner { account: caller.account.clone(), payer: caller.into() }
    }
}

/// A material, and how its rows are sealed.
#[derive(Clone)]
pub struct Material {
    /// `mat_...`
    pub material_id: String,
    /// The data key of the rows. `None`: the rows are sealed under the account's key.
    rows_key: Option<RowsKey>,
}

impl Material {
    /// Makes a new material. Returns also the sealed data key for the material's record, if the material gets one.
    pub fn new(vault: &Vault) -> (Material, Option<Vec<u8>>) {
        let material_id = ids::random_hex::<16>("mat_").to_string();
        let (rows_key, secret) = vault.new_rows_key(&material_id).unzip();
        (Material { material_id, rows_key }, secret)
    }

    /// Returns the material of a record. `secret`: the sealed data key, if the record has one.
    pub fn on_record(vault: &Vault, material_id: &str, secret: Option<&[u8]>) -> Result<Material, ApiError> {
        let rows_key = secret.map(|secret| vault.rows_key(material_id, secret)).transpose()?;
        Ok(Material { material_id: material_id.to_owned(), rows_key })
    }
}

/// A public key that was checked and is now in the vault.
pub struct PutPublicKey {
    /// The object that holds the public key.
    pub object: String,
    /// Number of the public key's bytes.
    pub bytes: i64,
    /// The seed of the public key's mask, and SHA-256 of the public key's bytes.
    pub seeded: Seeded,
}

/// Returns the label under which a public key's object is sealed for its account.
fn public_key_label(material_id: &str) -> String {
    format!("{material_id} public key")
}

/// Returns the label under which a row's object is sealed under the key of its account.
fn row_label(material_id: &str, row_index: i64) -> String {
    format!("{material_id} row {row_index}")
}

/// Writes parameters as the text that a material's record contains. The text has no levels, because equal keys are found
/// by a digest over the text, and records of earlier releases have none.
pub fn recorded_params(params: &numbers::Params) -> Result<String, ApiError> {
    let recorded = KeyParams { special_primes: 0, levels: Vec::new(), ..numbers::key_params(params, "") };
    serde_json::to_string(&recorded).map_err(ApiError::internal)
}

/// Reads parameters that [`recorded_params`] wrote, and adds the key's scheme.
pub fn read_recorded_params(text: &str, scheme: &str) -> Result<KeyParams, ApiError> {
    let params: KeyParams = serde_json::from_str(text).map_err(ApiError::internal)?;
    Ok(KeyParams { scheme: scheme.to_owned(), ..params })
}

/// Puts a checked public key into the vault.
pub async fn put_public_key(
    compute: &Compute,
    owner: &Owner,
    material_id: &str,
    (seed, mut bytes): ([u8; 32], Zeroizing<Vec<u8>>),
) -> Result<PutPublicKey, ApiError> {
    let (count, sha256) = (bytes.len() as i64, Sha256::digest(&*bytes).into());
    let (label, content) = (public_key_label(material_id), std::mem::take(&mut *bytes));
    let object = compute.vault.put(Shelf::Keys, &owner.payer, &owner.account, label, content).await?;
    Ok(PutPublicKey { object, bytes: count, seeded: Seeded { seed, sha256 } })
}

/// Checks a row and puts it into the vault. Returns the record of the row.
pub async fn put_row(
    compute: &Compute,
    owner: &Owner,
    Material { material_id, rows_key }: &Material,
    row_index: i64,
    (head, facts, bytes): (EvaluationKeyHead, RowFacts, Zeroizing<Vec<u8>>),
) -> Result<KeyRowRecord, ApiError> {
    let checking = compute.offload.run(owner.payer.clone(), move || {
        head.check_row(&bytes).map(|()| (<[u8; 32]>::from(Sha256::digest(&*bytes)), bytes))
    });
    let (sha256, mut bytes) = checking.await?.map_err(|error| ApiError {
        message: format!("row {row_index} of the evaluation key: {}", error.message),
        ..error
    })?;
    let object = match rows_key.clone() {
        Some(key) => {
            let seal = move || SealedObject::of_sealed(key.seal_row(row_index, &bytes));
            compute.vault.put_sealed(Shelf::Keys, &owner.payer, facts.bytes as u64, seal).await?
        }
        None => {
            let (label, content) = (row_label(material_id, row_index), std::mem::take(&mut *bytes));
            compute.vault.put(Shelf::Keys, &owner.payer, &owner.account, label, content).await?
        }
    };
    Ok(KeyRowRecord {
        row_index,
        kind: facts.kind.to_owned(),
        element: facts.element.into(),
        level: facts.level.into(),
        digit: facts.digit.into(),
        digits: facts.digits.into(),
        object,
        bytes: facts.bytes as i64,
        sha256: sha256.to_vec(),
        seed: Some(facts.seed.to_vec()),
    })
}

/// Reads a row's container from the vault. `None`: the row was deleted.
pub async fn read_row(
    vault: &Vault,
    owner: &Owner,
    Material { material_id, rows_key }: &Material,
    row_index: i64,
    at: (&str, &str),
) -> Result<Option<Zeroizing<Vec<u8>>>, ApiError> {
    let Some(key) = rows_key.clone() else {
        return vault.read(Shelf::Keys, &owner.payer, &owner.account, row_label(material_id, row_index), at).await;
    };
    let open = move |object: SealedObject| {
        let row = key.open_row(row_index, &object.into_bytes());
        row.ok_or_else(|| Missing::Failed("a row was changed, or belongs to another key".to_owned()))
    };
    vault.read_sealed(Shelf::Keys, &owner.payer, at, open).await
}

/// Reads the records of all rows of a material, in order.
pub async fn all_rows(store: &Store, material_id: &str) -> Result<Vec<KeyRowRecord>, ApiError> {
    let mut rows = Vec::new();
    loop {
        let read = store.key_rows(material_id, rows.len() as i64, ROWS_READ).await?;
        let is_last = (read.len() as i64) < ROWS_READ;
        rows.extend(read);
        if is_last {
            return Ok(rows);
        }
    }
}

/// Converts a row's record to the engine's form.
pub fn stored_row(row: &KeyRowRecord) -> StoredRow {
    StoredRow {
        kind: row.kind.clone(),
        element: row.element as u32,
        level: row.level as usize,
        row_index: row.row_index,
    }
}

/// Refuses a public key and an evaluation key that belong to different secret keys or parameters.
pub fn check_pair(public_key: &PublicKeyFacts, head: &EvaluationKeyHead) -> Result<(), ApiError> {
    if public_key.params == *head.params() && public_key.fingerprint == head.fingerprint() {
        return Ok(());
    }
    Err(other_pair())
}

/// Returns the error for a public key and an evaluation key that do not belong together.
pub fn other_pair() -> ApiError {
    let message = "the public key and the evaluation key belong to different secret keys or parameters";
    ApiError::new(Code::InvalidParams, message).at("eval_key", "does not belong to the public key")
}

/// Returns the error for a public key whose seed has another content already, in the object `other`.
pub fn public_key_seed_used(other: &str) -> ApiError {
    seed_used(("public_key", "the public key"), other, Code::InvalidParams)
}

/// Returns the error for a row of an evaluation key whose seed has another content already, in the object `other`.
pub fn row_seed_used(row: &KeyRowRecord, other: &str) -> ApiError {
    let KeyRowRecord { row_index, kind, digit, .. } = row;
    let name = format!("row {row_index} of the evaluation key ({kind}, digit {digit})");
    seed_used(("eval_key", &name), other, Code::InvalidParams)
}

/// Returns the error for an object of a request whose seed has another content already, in the object `other`.
pub fn seed_used((member, name): (&str, &str), other: &str, code: Code) -> ApiError {
    let message = format!(
        "{name} has the same seed as {other}, with other bytes: two contents under one mask reveal the secret key; draw a \
         new seed from the operating system and make {name} again"
    );
    ApiError::new(code, message).at(member, "its seed is used already: draw a new seed")
}

/// SHA-256 of a material: of its public key, its parameters, its fingerprint and the digests of its rows.
pub struct MaterialDigest(Sha256);

impl MaterialDigest {
    /// Starts the digest of a material, before any row.
    pub fn new(public_key: &[u8], params: &str, fingerprint: &[u8]) -> MaterialDigest {
        let digest = Sha256::new().chain_update(public_key).chain_update(Sha256::digest(params));
        MaterialDigest(digest.chain_update(Sha256::digest(fingerprint)))
    }

    /// Adds the next row to the digest.
    pub fn add(&mut self, row: &KeyRowRecord) {
        self.0.update(Sha256::digest(&row.sha256));
    }

    /// Returns the digest of the material, after the last row was added.
    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use api::params::SecurityLevel;

    use super::*;

    #[test]
    fn records_of_parameters_stay_as_earlier_releases_wrote_them() {
        // a digest over this text finds equal keys, and nodes of two releases compare the texts
        let params = numbers::params_of((64, 40, 1), SecurityLevel::Testing, false).unwrap();
        let primes: Vec<u32> = params.primes().iter().map(|prime| prime.q()).collect();
        let text = format!(
            r#"{{"poly_degree":64,"scale_bits":40,"security_level":"testing","max_depth":1,"bootstrap":false,"scheme":"","modulus_chain":{},"total_q_bits":{},"security_bits":0}}"#,
            serde_json::to_string(&primes).unwrap(),
            numbers::total_q_bits(&params)
        );
        assert_eq!(recorded_params(&params).unwrap(), text);
        let read = read_recorded_params(&text, "ckks").unwrap();
        assert_eq!((read.levels.len(), numbers::params_on_record(&read).unwrap()), (0, params));
    }
}
