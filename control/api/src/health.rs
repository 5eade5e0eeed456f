//! Health of a node (platform specification, Health; readings O1-O7).

use serde::{Deserialize, Serialize};

/// Health of a node or of one of its dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum HealthStatus {
    /// The node or dependency answers in time.
    Healthy,
    /// The node or dependency answers more slowly than its threshold, or a part that is not critical is down.
    Degraded,
    /// A critical dependency does not answer.
    Unavailable,
}

/// `GET /health`: the short form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BriefHealth {
    /// `ok`, `degraded` or `unavailable`.
    #[cfg_attr(feature = "openapi", schema(example = "ok"))]
    pub status: String,
    /// Semantic version of the API.
    pub version: String,
}

/// `GET /api/v1/health`: the full form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// The worst status among the parts that the node needs to work.
    pub status: HealthStatus,
    /// Semantic version of the API.
    pub version: String,
    /// Seconds since the node started.
    pub uptime_seconds: f64,
    /// The backend that computes, such as `cpu-avx512`; `cpu` if the operator hides GPUs.
    pub fhe_engine: String,
    /// Whether this node computes on a GPU; false if the operator hides GPUs.
    pub gpu_available: bool,
    /// The GPU's name.
    pub gpu_name: Option<String>,
    /// The schemes that the GPU computes: `tfhe` for gates, `ckks` for numbers. Absent without a GPU, or if the operator
    /// hides GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_schemes: Option<Vec<String>>,
    /// Gate sessions that are open on this node.
    pub active_sessions: u64,
    /// Operations that were accepted and have not ended.
    pub active_jobs: u64,
    /// Used share of the room for the ciphertexts of all accounts, in percent.
    pub ciphertext_cache_usage_pct: Option<f64>,
    /// Whether `ciphertext_cache_usage_pct` is 90 or more, which means that ciphertexts will soon be evicted.
    pub ciphertext_cache_warning: bool,
    /// The outside services that the node is configured to use.
    pub dependencies: Vec<Dependency>,
    /// The embedded database, if the node has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
}

/// An outside service that the node needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Dependency {
    /// `postgres`, `nats`, `object_store`, `redis` or `provider`.
    pub name: String,
    /// The health that the last probe found.
    pub status: HealthStatus,
    /// How long the last probe took.
    pub latency_ms: Option<f64>,
    /// Why the last probe failed.
    pub error: Option<String>,
}

// Readings O3.
/// The embedded database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Storage {
    /// `sqlite`.
    pub backend: String,
    /// The health that the last probe found.
    pub status: HealthStatus,
    /// How long the last probe took.
    pub latency_ms: Option<f64>,
}
