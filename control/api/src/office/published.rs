//! Records of registrations that the tax authority publishes (resource definition of May 2024).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Published records: a list, the authority's own layout, or a map from registration number to record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum PublishedRecords {
    /// A list of records.
    List(Vec<PublishedRecord>),
    /// The authority's own layout.
    Announced(Announcement),
    /// A map from registration number to record.
    Map(BTreeMap<String, PublishedRecord>),
}

/// The layout of the authority's Web-API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    /// The records.
    pub announcement: Vec<PublishedRecord>,
    /// Date of the last update of the records.
    pub last_update_date: Option<String>,
    /// Members that are not read.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// A published record of a registration number. Member names may also be in snake case. An empty text means null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PublishedRecord {
    /// Registration number: T and 13 digits. In a map from registration number to record, the map's key replaces this
    /// value. `registratedNumber` is the authority's spelling; `registeredNumber`, `registrationNumber` and `number`
    /// are read too.
    pub registrated_number: Option<String>,
    /// Kind of change: `01` new, `02` change, `03` lapse, `04` revocation, `99` deletion.
    pub process: Option<String>,
    /// Date from which the registration is effective, as `2023-10-01`. Required except in a deletion.
    pub registration_date: Option<String>,
    /// Date from which the registration is revoked.
    pub disposal_date: Option<String>,
    /// Date from which the registration has lapsed.
    pub expire_date: Option<String>,
    /// Name of the issuer.
    pub name: Option<String>,
    /// The authority's other members.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}
