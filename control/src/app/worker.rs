//! The worker of this process.

use super::ground::Ground;
use crate::secrets::Key;
use crate::work::{ComputeConfig, EngineDevice, Here};

/// Starts the engine, which may take seconds, because kernels are compiled. `devices`: if given, these devices compute, and the
/// settings choose none. `accounts`: the key of the accounts' digests.
///
/// # Errors
/// When no device computes.
pub async fn start(
    config: &ComputeConfig,
    ground: &Ground,
    devices: Option<Vec<EngineDevice>>,
    accounts: Key,
) -> anyhow::Result<Here> {
    let (bounds, kernel_cache) = (config.clone(), ground.data_dir.kernel_cache());
    let here = tokio::task::spawn_blocking(move || match devices {
        None => Here::start(&bounds, kernel_cache, accounts),
        Some(devices) => Here::start_on(&bounds, devices, accounts),
    });
    here.await?
}
