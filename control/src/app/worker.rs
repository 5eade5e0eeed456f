//! The worker of this process.

use super::ground::Ground;
use crate::secrets::Key;
use crate::work::{ComputeConfig, EngineDevice, Here, KeyStore};

/// The worker of this process: the engine on its devices, and the evaluation keys of open sessions on disk.
pub struct OwnWorker {
    pub here: Here,
    pub keys: KeyStore,
}

impl OwnWorker {
    /// Starts the engine, which may take seconds, because kernels are compiled. `devices`: if given, these
    /// devices compute, and the settings choose none. `accounts`: the key of the accounts' digests.
    ///
    /// # Errors
    /// When no device computes, or when the folder of the keys cannot be made or emptied.
    pub async fn start(
        config: &ComputeConfig,
        ground: &Ground,
        devices: Option<Vec<EngineDevice>>,
        accounts: Key,
    ) -> anyhow::Result<OwnWorker> {
        let (bounds, kernel_cache) = (config.clone(), ground.data_dir.kernel_cache());
        let here = tokio::task::spawn_blocking(move || match devices {
            None => Here::start(&bounds, kernel_cache, accounts),
            Some(devices) => Here::start_on(&bounds, devices, accounts),
        });
        let here = here.await??;
        Ok(OwnWorker { here, keys: KeyStore::open(ground.data_dir.path(), config)? })
    }
}
