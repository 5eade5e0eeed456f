//! Models (platform specification, Health, models, pricing).

use serde::{Deserialize, Serialize};

/// A model for encrypted inference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Model {
    /// Stable name for requests.
    pub model_id: String,
    /// Name for people.
    pub name: String,
    /// Parameters, in billions.
    pub params_billions: f64,
    /// Made for encrypted evaluation.
    pub fhe_optimized: bool,
    /// False: exists but is loaded at the first inference, about 30 s later.
    pub available: bool,
    /// Typical time of one inference.
    pub estimated_inference_time_ms: u64,
}

// Readings O8: none unless configured.
/// The models that the node offers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Models {
    /// Models of this node.
    pub models: Vec<Model>,
}
