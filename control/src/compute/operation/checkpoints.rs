//! The checkpoints of operations that this node has released: workers hand them to the node that asked, which seals them and
//! puts them into the bucket. The row in the waiting line names the last one.

use std::collections::HashMap;
use std::sync::Arc;

use api::AccountId;
use bytes::Bytes;
use parking_lot::Mutex;
use store::{Released, Store};

use crate::blobs::{Blobs, Missing};
use crate::resource::Payer;
use crate::web::error::ApiError;
use crate::web::offload::Offload;
use crate::work::fleet::{Checkpoints, Kept, Reading};

/// The checkpoints of the operations that this node has released. A clone is the same.
#[derive(Clone)]
pub struct CheckpointsOfLine {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    objects: Blobs,
    offload: Offload,
    list: Mutex<HashMap<String, Held>>,
}

#[derive(Clone)]
struct Held {
    account: AccountId,
    epoch: i64,
    /// The object of the last checkpoint.
    object: Option<String>,
}

/// An operation in the list. Dropping this value takes it out.
pub struct Listed {
    of: CheckpointsOfLine,
    op_id: String,
}

impl CheckpointsOfLine {
    /// Begins with no operation. `objects`: where checkpoints lie.
    pub fn new(store: Store, objects: Blobs, offload: Offload) -> CheckpointsOfLine {
        CheckpointsOfLine { shared: Arc::new(Shared { store, objects, offload, list: Mutex::default() }) }
    }

    /// Takes the checkpoints of an operation that this node has released.
    pub fn of(&self, released: &Released, account: AccountId) -> Listed {
        let held = Held { account, epoch: released.epoch, object: released.checkpoint.clone() };
        self.shared.list.lock().insert(released.op_id.clone(), held);
        Listed { of: self.clone(), op_id: released.op_id.clone() }
    }

    fn held(&self, op_id: &str) -> Option<Held> {
        self.shared.list.lock().get(op_id).cloned()
    }

    async fn keep(&self, op_id: &str, bytes: Bytes) -> Result<bool, ApiError> {
        let Some(Held { account, epoch, .. }) = self.held(op_id) else { return Ok(false) };
        let Shared { store, objects, offload, list } = &*self.shared;
        let (sealing, label, payer) = (objects.clone(), label(op_id), Payer::account(account.clone()));
        let sealed = offload.finish(payer, move || sealing.seal(&account, label.as_bytes(), bytes.to_vec())).await?;
        let object = objects.put(sealed).await.map_err(|error| {
            tracing::warn!(error, "a checkpoint could not be written to the bucket");
            ApiError::unavailable("objects", "the checkpoint cannot be stored at the moment")
        })?;
        match store.note_checkpoint(op_id, epoch, &object).await {
            Ok(Some(before)) => {
                if let Some(held) = list.lock().get_mut(op_id) {
                    held.object = Some(object);
                }
                if let Some(before) = before {
                    objects.remove(&before).await;
                }
                Ok(true)
            }
            // another node has released the operation
            Ok(None) => {
                objects.remove(&object).await;
                Ok(false)
            }
            Err(error) => {
                objects.remove(&object).await;
                Err(error.into())
            }
        }
    }

    async fn read(&self, op_id: &str) -> Result<Option<Bytes>, ApiError> {
        let Some(Held { account, object: Some(object), .. }) = self.held(op_id) else { return Ok(None) };
        let Shared { objects, offload, .. } = &*self.shared;
        let object = match objects.get(&object).await {
            Ok(object) => object,
            Err(Missing::NotHere) => return Ok(None),
            Err(Missing::Failed(error)) => return Err(ApiError::internal(error)),
        };
        let (opening, label, payer) = (objects.clone(), label(op_id), Payer::account(account.clone()));
        let opened = offload.finish(payer, move || opening.open(&account, label.as_bytes(), object)).await?;
        Ok(opened.ok().map(|bytes| Bytes::from(bytes.to_vec())))
    }
}

/// The label of a checkpoint's seal.
fn label(op_id: &str) -> String {
    format!("{op_id} checkpoint")
}

impl Listed {
    /// Removes the last checkpoint, because the operation has ended.
    pub async fn remove(&self) {
        let object = self.of.shared.list.lock().get_mut(&self.op_id).and_then(|held| held.object.take());
        if let Some(object) = object {
            self.of.shared.objects.remove(&object).await;
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.of.shared.list.lock().remove(&self.op_id);
    }
}

impl Checkpoints for CheckpointsOfLine {
    fn read(&self, id: String) -> Reading<Bytes> {
        let of = self.clone();
        Box::pin(async move { of.read(&id).await })
    }

    fn keep(&self, id: String, bytes: Bytes) -> Kept {
        let of = self.clone();
        Box::pin(async move { of.keep(&id, bytes).await })
    }
}
