//! Netlists of kept circuits at rest: as objects where all nodes of the database have the same ones, else in the rows.
//!
//! An object is written before the row that names it and removed after it, so whatever ends between the two leaves an object
//! without a row, which the sweep removes.

use store::{CircuitInRow, NetlistPlace, Store};

use crate::blobs::{Blobs, Missing};
use crate::caller::Caller;
use crate::web::error::ApiError;
use crate::web::offload::Offload;

/// The netlists of a database, as a node reaches them.
pub struct StoredNetlists {
    store: Store,
    offload: Offload,
    blobs: Option<Blobs>,
}

impl StoredNetlists {
    /// `blobs`: `None` where other nodes of the database would not find what this one puts there.
    pub fn new(store: Store, offload: Offload, blobs: Option<Blobs>) -> StoredNetlists {
        StoredNetlists { store, offload, blobs }
    }

    /// Puts a netlist where it stays if a row is then written that names it.
    pub async fn put(&self, caller: &Caller, name: &str, text: String) -> Result<NetlistPlace, ApiError> {
        let Some(blobs) = &self.blobs else { return Ok(NetlistPlace::Text(text)) };
        let (sealing, account, label) = (blobs.clone(), caller.account.clone(), name.to_owned());
        let sealed =
            self.offload.run(caller.into(), move || sealing.seal(&account, label.as_bytes(), text.into_bytes()));
        blobs.put(sealed.await?).await.map(NetlistPlace::Object).map_err(|error| {
            tracing::error!(error, "a netlist was not kept");
            ApiError::unavailable("objects", "the circuit cannot be kept at the moment")
        })
    }

    /// The netlist of a kept circuit. `None`: the account has no circuit of this name.
    pub async fn read(&self, caller: &Caller, name: &str) -> Result<Option<String>, ApiError> {
        let mut gone = None;
        loop {
            let object = match self.store.netlist(caller.account.as_str(), name).await? {
                None => return Ok(None),
                Some(NetlistPlace::Text(text)) => return Ok(Some(text)),
                Some(NetlistPlace::Object(object)) => object,
            };
            let Some(blobs) = self.blobs.as_ref().filter(|_| gone.as_ref() != Some(&object)) else {
                return Err(ApiError::internal("the netlist of a kept circuit is not where its row says"));
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
                // the circuit may have been replaced or deleted since its row was read
                Err(Missing::NotHere) => gone = Some(object),
                Err(missing) => return Err(not_read(missing)),
            }
        }
    }

    /// Removes an object that no row names any more.
    pub async fn forget(&self, object: Option<String>) {
        if let (Some(blobs), Some(object)) = (&self.blobs, object) {
            blobs.remove(&object).await;
        }
    }

    /// Makes objects of netlists that are in their rows, and removes objects that no row names.
    pub async fn keep_house(&self) {
        let Some(blobs) = &self.blobs else { return };
        let kept = async {
            self.put_out(blobs).await?;
            let named = self.store.circuit_blobs().await?;
            blobs.sweep(&named).await.map_err(ApiError::internal)
        };
        if let Err(error) = kept.await {
            tracing::error!(message = error.message, "netlists of kept circuits were not swept");
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
    tracing::error!(?missing, "the netlist of a kept circuit was not read");
    ApiError::unavailable("objects", "the kept circuit cannot be read at the moment")
}
