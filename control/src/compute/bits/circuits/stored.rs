//! Stores the netlists of stored circuits: as objects if all nodes of the database share their objects, otherwise in
//! the circuits' rows of the database.
//!
//! An object is written before the row that refers to it and removed after that row. So a crash in between leaves an
//! object without a row, which the sweep removes.

use store::{CircuitInRow, NetlistPlace, Store};

use crate::blobs::{Blobs, Missing};
use crate::caller::Caller;
use crate::web::error::ApiError;
use crate::web::offload::Offload;

/// The netlists of a database, as this node reads and writes them.
pub struct StoredNetlists {
    store: Store,
    offload: Offload,
    blobs: Option<Blobs>,
}

impl StoredNetlists {
    /// Makes the storage of netlists. `blobs` must be `None` if the other nodes of the database would not find objects
    /// that this node writes.
    pub fn new(store: Store, offload: Offload, blobs: Option<Blobs>) -> StoredNetlists {
        StoredNetlists { store, offload, blobs }
    }

    /// Stores a netlist. If the netlist becomes an object, the caller must then write a row that refers to the object:
    /// otherwise the sweep removes the object.
    pub async fn put(&self, caller: &Caller, name: &str, text: String) -> Result<NetlistPlace, ApiError> {
        let Some(blobs) = &self.blobs else { return Ok(NetlistPlace::Text(text)) };
        let (sealing, account, label) = (blobs.clone(), caller.account.clone(), name.to_owned());
        let sealed =
            self.offload.run(caller.into(), move || sealing.seal(&account, label.as_bytes(), text.into_bytes()));
        blobs.put(sealed.await?).await.map(NetlistPlace::Object).map_err(|error| {
            tracing::error!(error, "a netlist could not be stored");
            ApiError::unavailable("objects", "the circuit cannot be stored at the moment")
        })
    }

    /// Reads the netlist of a stored circuit. `None`: the account has no circuit with this name.
    pub async fn read(&self, caller: &Caller, name: &str) -> Result<Option<String>, ApiError> {
        let mut gone = None;
        loop {
            let object = match self.store.netlist(caller.account.as_str(), name).await? {
                None => return Ok(None),
                Some(NetlistPlace::Text(text)) => return Ok(Some(text)),
                Some(NetlistPlace::Object(object)) => object,
            };
            let Some(blobs) = self.blobs.as_ref().filter(|_| gone.as_ref() != Some(&object)) else {
                return Err(ApiError::internal(
                    "a stored circuit's object is missing, although its database row refers to it",
                ));
            };
            match blobs.get(&object).await {
                Ok(sealed) => {
                    let (opening, account, label) = (blobs.clone(), caller.account.clone(), name.to_owned());
                    let opened = self.offload.run(caller.into(), move || {
                        let mut text = opening.open(&account, label.as_bytes(), sealed).map_err(not_read)?;
                        String::from_utf8(std::mem::take(&mut *text)).map_err(ApiError::internal)
                    });
                    return opened.await?.map(Some);
                }
                // the circuit may have been replaced or deleted after its row was read: read the row again
                Err(Missing::NotHere) => gone = Some(object),
                Err(missing) => return Err(not_read(missing)),
            }
        }
    }

    /// Removes an object to which no row refers any more.
    pub async fn forget(&self, object: Option<String>) {
        if let (Some(blobs), Some(object)) = (&self.blobs, object) {
            blobs.remove(&object).await;
        }
    }

    /// Moves netlists from rows to objects, and removes objects to which no row refers.
    pub async fn keep_house(&self) {
        let Some(blobs) = &self.blobs else { return };
        let kept = async {
            self.put_out(blobs).await?;
            let named = self.store.circuit_blobs().await?;
            blobs.sweep(&named).await.map_err(ApiError::internal)
        };
        if let Err(error) = kept.await {
            tracing::error!(message = error.message, "netlists to which no stored circuit refers could not be removed");
        }
    }

    async fn put_out(&self, blobs: &Blobs) -> Result<(), ApiError> {
        let mut last = (String::new(), String::new());
        while let Some(circuit) = self.store.circuit_in_row((&last.0, &last.1)).await? {
            last = (circuit.account_id.clone(), circuit.name.clone());
            let sealing = blobs.clone();
            let sealed = tokio::task::spawn_blocking(move || {
                let account = circuit.account_id.parse().map_err(ApiError::internal)?;
                let (name, text) = (circuit.name.clone(), circuit.text);
                let sealed = sealing.seal(&account, name.as_bytes(), text.into_bytes());
                Ok::<_, ApiError>((sealed, CircuitInRow { text: String::new(), ..circuit }))
            });
            let (sealed, circuit) = sealed.await??;
            let object = blobs.put(sealed).await.map_err(ApiError::internal)?;
            if !self.store.put_netlist_out(&circuit, &object).await? {
                blobs.remove(&object).await;
            }
        }
        Ok(())
    }
}

fn not_read(missing: Missing) -> ApiError {
    tracing::error!(?missing, "the netlist of a stored circuit could not be read");
    ApiError::unavailable("objects", "the stored circuit cannot be read at the moment")
}
