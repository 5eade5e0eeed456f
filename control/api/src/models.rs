//! Models (platform specification, Health, models, pricing).

use serde::{Deserialize, Serialize};

/// A model for encrypted inference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Model {
    /// The model's id, for requests.
    pub model_id: String,
    /// The model's name, for people.
    pub name: String,
    /// Number of the model's parameters, in billions.
    pub params_billions: f64,
    /// Whether the model is made for encrypted evaluation.
    pub fhe_optimized: bool,
    /// Whether the model is loaded. If not, the first inference loads it, which takes about 30 s.
    pub available: bool,
    /// Typical time of one inference.
    pub estimated_inference_time_ms: u64,
}

// Readings O8: there are no models unless the operator configures some.
/// The models that the node offers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Models {
    /// The models of this node.
    pub models: Vec<Model>,
}
