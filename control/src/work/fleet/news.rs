//! News between the members of a fleet. News say where to look. A member that misses news reads the truth from the database later.

use serde::{Deserialize, Serialize};

use super::super::key::KeyName;
use crate::cache_store;

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
    /// A worker that warms up will need these keys.
    Warm {
        /// The worker's name.
        worker: String,
        /// Base URL of the internal listener of the API node that tells this.
        url: String,
        /// The keys, the most wanted first.
        keys: Vec<WarmKey>,
    },
    /// An operator lets a worker leave.
    Leave {
        /// The worker's name.
        worker: String,
    },
    /// Keys, tokens, plans or standings of callers have changed. API nodes read them again. The news name no caller, because
    /// workers hear them.
    CallersChanged {
        /// The member that tells this.
        member: String,
    },
    /// Failed attempts were counted or cleared. API nodes read them again.
    LockoutsChanged {
        /// The member that tells this.
        member: String,
    },
}

/// A key that a worker will need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarmKey {
    /// The key's name ([`KeyName::label`]).
    pub key: String,
    /// The weight of the key's account.
    pub weight: u32,
    /// Gives access to this key for some seconds.
    pub token: String,
}

impl News {
    /// Makes the news of a member about changed records.
    pub fn changed(records: &cache_store::News, member: String) -> News {
        match records {
            cache_store::News::Keys { .. } | cache_store::News::Account { .. } | cache_store::News::Tokens => {
                News::CallersChanged { member }
            }
            cache_store::News::Lockouts => News::LockoutsChanged { member },
        }
    }

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
        match self {
            News::KeyEnded { key, .. } => KeyName::of_label(key),
            News::Warm { .. } | News::Leave { .. } | News::CallersChanged { .. } | News::LockoutsChanged { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_read_as_written_and_a_newer_member_s_news_are_left_out() {
        let ended = News::KeyEnded { key: "k".to_owned(), member: "m".to_owned(), id: "i".to_owned() };
        let account = cache_store::News::Account { account_id: "acct_1".to_owned() };
        let [callers, lockouts] =
            [account, cache_store::News::Lockouts].map(|records| News::changed(&records, "m".to_owned()));
        let key = WarmKey { key: "k".to_owned(), weight: 1, token: "t".to_owned() };
        let warm = News::Warm { worker: "w".to_owned(), url: "u".to_owned(), keys: vec![key] };
        for news in [ended, warm, callers.clone(), lockouts.clone()] {
            assert_eq!(News::read(&news.write()), Some(news));
        }
        assert!(callers != lockouts && callers.ended().is_none() && lockouts.ended().is_none());
        let text = String::from_utf8(callers.write()).unwrap();
        // workers hear the news, and may not see names of accounts
        assert!(!text.contains("acct_1"), "{text}");
        for newer in [text.replace("callers", "wallets"), text.replace("member", "node"), "probe".to_owned()] {
            assert!(newer != text && News::read(newer.as_bytes()).is_none(), "{newer}");
        }
    }
}
