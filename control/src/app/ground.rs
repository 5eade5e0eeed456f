//! Parts of a node that need no database.

use std::sync::Arc;

use crate::clock::Clock;
use crate::config::Config;
use crate::data_dir::{DataDir, NodeLock};
use crate::in_flight::InFlight;
use crate::telemetry::Telemetry;
use crate::tls::Tls;
use crate::web::offload::Offload;

/// Parts of a node that need no database.
pub struct Ground {
    pub clock: Clock,
    /// The node's certificate. `None`: the node serves plain HTTP.
    pub tls: Option<Tls>,
    pub data_dir: DataDir,
    /// The id of the node that uses the data folder. The id is the same at every start.
    pub node_id: String,
    pub telemetry: Arc<Telemetry>,
    pub offload: Offload,
    /// Running requests. A stopping node waits for them.
    pub in_flight: InFlight,
    /// Running circuits and operations, and e-mails that are being sent. A stopping node waits until their ends are
    /// recorded.
    pub unfinished: InFlight,
    // the last field, because the fields are dropped in this order and the folder must stay locked while the others
    // exist
    pub lock: NodeLock,
}

impl Ground {
    /// Reads the certificate, and makes and locks the data folder.
    ///
    /// # Errors
    /// When the certificate or the folder cannot be used, or when another node runs on the folder.
    pub fn open(config: &Config, clock: Clock) -> anyhow::Result<Ground> {
        let tls = config.tls.clone().map(Tls::open).transpose()?;
        let data_dir = DataDir::open(&config.data_dir)?;
        let lock = data_dir.lock()?;
        Ok(Ground {
            clock,
            tls,
            node_id: data_dir.node_id()?,
            data_dir,
            telemetry: Arc::new(Telemetry::new()?),
            offload: Offload::new(),
            in_flight: InFlight::new(),
            unfinished: InFlight::new(),
            lock,
        })
    }
}
