//! News between the members of a fleet. News say where to look. A member that misses news reads the truth from the database later.

use serde::{Deserialize, Serialize};

use super::super::key::KeyName;

/// Something that has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum News {
    /// A key has ended, or was deleted. Workers overwrite it and answer.
    KeyEnded {
        /// The key's name ([`KeyName::label`]).
        key: String,
        /// The member that waits for the answers.
        member: String,
        /// The id of the answers.
        id: String,
    },
    /// An operator lets a worker leave.
    Leave {
        /// The worker's name.
        worker: String,
    },
}

impl News {
    /// Reads news. `None`: a newer member's news.
    pub fn read(bytes: &[u8]) -> Option<News> {
        serde_json::from_slice(bytes).ok()
    }

    /// Writes the news.
    pub fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts are JSON")
    }

    /// Returns the name of the key that has ended.
    pub fn ended(&self) -> Option<KeyName> {
        let News::KeyEnded { key, .. } = self else { return None };
        KeyName::of_label(key)
    }
}
