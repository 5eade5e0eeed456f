//! The values of a session of a fleet: rows of the database, whose ciphertexts are objects in the bucket. An object is sealed
//! under the data key of the session's key, so the end of the session makes the values unreadable too (readings G3).

use std::sync::Arc;

use api::OperationId;
use store::{NewSessionValue, SessionValue, Store};
use zeroize::Zeroize;

use super::{EncryptedValue, Made, NoRoom, ValueMemory, no_room};
use crate::blobs::{Blobs, Missing, SealedObject};
use crate::resource::Payer;
use crate::secrets::Key;
use crate::web::error::ApiError;
use crate::web::offload::Offload;
use crate::work::{Form, LweList, fleet};

/// Where the values of all sessions of the fleet are.
pub struct SharedValues {
    /// The values' rows.
    pub store: Store,
    /// The values' ciphertexts.
    pub objects: Blobs,
    /// Seals and opens values outside the async threads.
    pub offload: Offload,
}

/// Where the values of one session are.
pub struct SharedShelf {
    pub(super) values: Arc<SharedValues>,
    pub(super) session: SharedSession,
}

/// Everything of a session of the fleet that its values need.
pub struct SharedSession {
    /// SHA-256 of the session's id.
    pub digest: [u8; 32],
    /// The data key of the session's key.
    pub data_key: Arc<Key>,
    /// The label of the session's key.
    pub label: String,
    /// Words of a ciphertext, less one.
    pub lwe_dimension: usize,
    /// Size in bytes of the session's values when its row was read.
    pub bytes: u64,
    /// Largest size in bytes of the session's values.
    pub bytes_max: u64,
    /// The account in whose name CPU time is taken.
    pub payer: Payer,
}

impl SharedShelf {
    /// Refuses results of this size, if the session has no room for them. The unit that keeps them checks again.
    pub fn check_room(&self, bytes: u64) -> Result<(), ApiError> {
        let fits = self.session.bytes.checked_add(bytes).is_some_and(|sum| sum <= self.session.bytes_max);
        if fits { Ok(()) } else { Err(no_room(NoRoom::Session)) }
    }

    /// Writes the objects of values. Returns the rows that keep them.
    pub async fn put(&self, made: &[Made], run: Option<&OperationId>) -> Result<Vec<NewSessionValue>, ApiError> {
        let mut rows = Vec::with_capacity(made.len());
        for (place, Made { handle, value }) in made.iter().enumerate() {
            let name = match (handle, run) {
                (Some(handle), _) => handle.as_str().to_owned(),
                (None, Some(run)) => format!("{}-{place}", run.as_str()),
                (None, None) => continue,
            };
            match self.put_one(&name, value.clone()).await {
                Ok((object, bytes)) => rows.push(NewSessionValue {
                    name,
                    session_digest: self.session.digest,
                    of_run: run.map(|run| (run.as_str().to_owned(), place as i64)),
                    object,
                    bytes: bytes as i64,
                    bytes_max: i64::try_from(self.session.bytes_max).unwrap_or(i64::MAX),
                }),
                Err(error) => {
                    self.take_back(&rows).await;
                    return Err(error);
                }
            }
        }
        Ok(rows)
    }

    async fn put_one(&self, name: &str, value: Arc<EncryptedValue>) -> Result<(String, usize), ApiError> {
        let (key, label) = (self.session.data_key.clone(), self.label_of(name));
        let sealed = self.values.offload.finish(self.session.payer.clone(), move || {
            let mut content = content_of(&value);
            let (sealed, bytes) = (fleet::seal_value(&key, &label, &content), content.len());
            content.zeroize();
            (SealedObject::of_sealed(sealed), bytes)
        });
        let (object, bytes) = sealed.await?;
        let object = self.values.objects.put(object).await.map_err(|error| {
            tracing::error!(error, "a value could not be written to the bucket");
            ApiError::unavailable("objects", "the node cannot store the results at the moment; nothing was charged")
        })?;
        Ok((object, bytes))
    }

    /// Removes objects whose rows were not written.
    pub async fn take_back(&self, rows: &[NewSessionValue]) {
        for row in rows {
            self.values.objects.remove(&row.object).await;
        }
    }

    /// Reads the value under a name.
    pub async fn read(&self, name: &str, memory: &ValueMemory) -> Result<Option<Arc<EncryptedValue>>, ApiError> {
        let Some(row) = self.values.store.session_value(&self.session.digest, name).await? else { return Ok(None) };
        self.open(&row, memory).await
    }

    /// Returns the outputs of a run: for each its name, and the value unless it is under a handle or was deleted. `None`: the
    /// session keeps no outputs of this run.
    pub async fn outputs_of(
        &self,
        run: &OperationId,
        memory: &ValueMemory,
    ) -> Result<Option<Vec<(String, Option<Arc<EncryptedValue>>)>>, ApiError> {
        let rows = self.values.store.outputs_of_run(&self.session.digest, run.as_str()).await?;
        let mut outputs = Vec::with_capacity(rows.len());
        for row in rows {
            let is_under_handle = !row.name.starts_with(run.as_str());
            let value = if is_under_handle { None } else { self.open(&row, memory).await? };
            if !is_under_handle && value.is_none() {
                return Ok(None);
            }
            outputs.push((row.name, value));
        }
        Ok((!outputs.is_empty()).then_some(outputs))
    }

    async fn open(&self, row: &SessionValue, memory: &ValueMemory) -> Result<Option<Arc<EncryptedValue>>, ApiError> {
        let Some(object) = &row.object else { return Ok(None) };
        let room = memory.reserve(row.bytes.unsigned_abs()).map_err(no_room)?;
        let object = match self.values.objects.get(object).await {
            Ok(object) => object,
            // the value was deleted after its row was read
            Err(Missing::NotHere) => return Ok(None),
            Err(Missing::Failed(error)) => {
                tracing::error!(error, "a value could not be read from the bucket");
                return Err(ApiError::unavailable("objects", "the value cannot be read at the moment"));
            }
        };
        let (key, label, dimension) =
            (self.session.data_key.clone(), self.label_of(&row.name), self.session.lwe_dimension);
        let opened = self.values.offload.finish(self.session.payer.clone(), move || {
            let content = fleet::open_value(&key, &label, &object.into_bytes())?;
            value_of(dimension, &content)
        });
        let (form, bits) = opened
            .await?
            .ok_or_else(|| ApiError::internal("the object of a value was changed, or is of another value"))?;
        Ok(Some(Arc::new(EncryptedValue::new(bits, form, room))))
    }

    /// Deletes the value under a name. False: the session keeps no such value.
    pub async fn forget(&self, name: &str) -> Result<bool, ApiError> {
        let object = self.values.store.forget_session_value(&self.session.digest, name).await?;
        if let Some(object) = &object {
            self.values.objects.remove(object).await;
        }
        Ok(object.is_some())
    }

    /// Deletes the outputs of a run that are under no handle.
    pub async fn forget_run(&self, run: &OperationId) -> Result<(), ApiError> {
        for object in self.values.store.forget_outputs_of_run(&self.session.digest, run.as_str()).await? {
            self.values.objects.remove(&object).await;
        }
        Ok(())
    }

    fn label_of(&self, name: &str) -> String {
        format!("{} value {name}", self.session.label)
    }
}

impl SharedValues {
    /// Removes the values of a session that has ended.
    pub async fn forget_values_of(&self, session_digest: &[u8]) -> Result<(), store::Error> {
        for object in self.store.forget_values_of(session_digest).await? {
            self.objects.remove(&object).await;
        }
        Ok(())
    }

    /// Removes objects of values that no row names. A request that ended between the object and the row left them.
    pub async fn sweep(&self) {
        let swept = match self.store.value_objects().await {
            Ok(named) => self.objects.sweep(&named).await,
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = swept {
            tracing::warn!(error, "values in the bucket that no session names could not be removed");
        }
    }
}

const FORM_ANGO: u8 = 0;
const FORM_TFHE_RS: u8 = 1;

/// Writes a value: a byte for its form, then its words, little-endian.
fn content_of(value: &EncryptedValue) -> Vec<u8> {
    let words = value.bits.rows(0..value.bits.len());
    let mut content = Vec::with_capacity(1 + 4 * words.len());
    content.push(match value.form {
        Form::Ango => FORM_ANGO,
        Form::TfheRs => FORM_TFHE_RS,
    });
    words.iter().for_each(|word| content.extend_from_slice(&word.to_le_bytes()));
    content
}

/// Reads a value that [`content_of`] wrote. `None`: the bytes are no value of this dimension.
fn value_of(lwe_dimension: usize, content: &[u8]) -> Option<(Form, LweList)> {
    let (form, words) = content.split_first()?;
    let form = match *form {
        FORM_ANGO => Form::Ango,
        FORM_TFHE_RS => Form::TfheRs,
        _ => return None,
    };
    let (words, rest) = words.as_chunks::<4>();
    if !rest.is_empty() || words.len() % (lwe_dimension + 1) != 0 {
        return None;
    }
    let words = words.iter().copied().map(u32::from_le_bytes).collect();
    Some((form, LweList::from_words(lwe_dimension, words)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Resource;
    use api::AccountId;

    #[test]
    fn a_value_is_read_as_it_was_written_and_other_bytes_are_refused() {
        let payer = Payer::account(AccountId::from_bits(1));
        let memory = ValueMemory::of_session(Resource::memory(100, 100), payer, 100);
        for form in [Form::Ango, Form::TfheRs] {
            let bits = LweList::from_words(2, vec![0, u32::MAX, 7, 1, 2, 3]);
            let value = EncryptedValue::new(bits.clone(), form, memory.reserve(1).unwrap());
            let content = content_of(&value);
            assert_eq!(value_of(2, &content), Some((form, bits)));
            assert_eq!(value_of(3, &content), None);
            assert_eq!(value_of(2, &content[..content.len() - 1]), None);
        }
        assert_eq!((value_of(2, &[]), value_of(2, &[2])), (None, None));
        assert_eq!(value_of(2, &[0]).map(|(_, bits)| bits.len()), Some(0));
    }
}
