//! Records that the tax authority publishes of registrations (resource definition of May 2024).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Published records: a list, the authority's own layout, or a map from number to record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum PublishedRecords {
    /// A list.
    List(Vec<PublishedRecord>),
    /// The authority's own layout.
    Announced(Announcement),
    /// A map from number to record.
    Map(BTreeMap<String, PublishedRecord>),
}

/// The layout of the authority's Web-API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    /// The records.
    pub announcement: Vec<PublishedRecord>,
    /// As of when.
    #[serde(default)]
    pub last_update_date: Option<String>,
    /// Members that are not read.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// A record of a number. Names of members may be in snake case too; an empty text is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PublishedRecord {
    /// T and 13 digits; in a map the name of the record says it. The spelling is the authority's; `registeredNumber`, `registrationNumber` and `number` are
    /// read too.
    #[serde(default)]
    pub registrated_number: Option<String>,
    /// `01` new, `02` change, `03` lapse, `04` revocation, `99` deletion.
    #[serde(default)]
    pub process: Option<String>,
    /// From when the registration holds, as `2023-10-01`. Required but in a deletion.
    #[serde(default)]
    pub registration_date: Option<String>,
    /// From when it is revoked.
    #[serde(default)]
    pub disposal_date: Option<String>,
    /// From when it has lapsed.
    #[serde(default)]
    pub expire_date: Option<String>,
    /// Name of the issuer.
    #[serde(default)]
    pub name: Option<String>,
    /// The authority's other members.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}
