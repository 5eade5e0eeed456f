//! Typed, prefixed identifiers (readings X4): a prefix and 26 characters of lower-case base32 over 128 bits.

use serde::{Deserialize, Serialize};

/// Characters after the prefix: 128 bits in base32, rounded up.
const BODY_CHARACTERS: usize = 26;
/// RFC 4648 base32hex, lower case. In this alphabet texts sort like their bits.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// Writes the bits as 26 characters, the most significant bits first. So texts sort like their bits, and by time if the
/// bits begin with a time.
fn encode(bits: u128) -> String {
    // 26 characters have room for 130 bits, so the first character holds only the top 3 of the 128 bits
    (0..BODY_CHARACTERS).rev().map(|place| ALPHABET[(bits >> (5 * place)) as usize & 31] as char).collect()
}

fn decode(body: &str) -> Option<u128> {
    if body.len() != BODY_CHARACTERS {
        return None;
    }
    body.bytes().try_fold(0u128, |bits, character| {
        let digit = ALPHABET.iter().position(|&known| known == character)? as u128;
        // a first character above 7 needs more than 128 bits, so the multiplication overflows
        bits.checked_mul(32)?.checked_add(digit)
    })
}

/// The error for a text that is not an identifier of the wanted kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnId;

impl std::fmt::Display for NotAnId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not an identifier of this kind")
    }
}

impl std::error::Error for NotAnId {}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The prefix of every identifier of this kind.
            pub const PREFIX: &str = $prefix;

            /// Makes the identifier with these 128 bits.
            pub fn from_bits(bits: u128) -> Self {
                Self(format!("{}{}", $prefix, encode(bits)))
            }

            /// The identifier's 128 bits.
            pub fn bits(&self) -> u128 {
                decode(&self.0[$prefix.len()..]).expect("an identifier was checked when it was made")
            }

            /// The identifier's text, with its prefix.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                let body = text.strip_prefix($prefix).ok_or(NotAnId)?;
                decode(body).ok_or(NotAnId)?;
                Ok(Self(text.to_owned()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = NotAnId;

            fn try_from(text: String) -> Result<Self, NotAnId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    };
}

/// Defines a kind of identifier that may be logged.
macro_rules! open_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        id!($(#[$doc])* $name, $prefix);

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

open_id!(
    /// An account: owner of keys and sessions.
    AccountId, "acct_"
);
open_id!(
    /// An API key's record; not the key itself.
    KeyId, "ak_"
);
open_id!(
    /// An encryption key's record; not the key itself.
    EncryptionKeyId, "key_"
);
open_id!(
    /// An upload of an encryption key in parts.
    UploadId, "up_"
);
open_id!(
    /// A ciphertext that the service keeps.
    CiphertextId, "ct_"
);
open_id!(
    /// A lineage of API keys: a key and its rotated successors share this id (readings A19).
    LineageId, "lin_"
);
open_id!(
    /// A request, for questions to support (readings X11).
    RequestId, "req_"
);
open_id!(
    /// A transfer in the ledger. A transfer pays for work.
    TransferId, "xfr_"
);
open_id!(
    /// An invoice that this service made.
    InvoiceId, "inv_"
);
open_id!(
    /// An e-mail.
    EmailId, "mail_"
);
open_id!(
    /// A webhook.
    WebhookId, "wh_"
);
open_id!(
    /// An event. A delivery of the event to a webhook has the same id.
    EventId, "evt_"
);
open_id!(
    /// One line of the usage record.
    UsageId, "use_"
);
open_id!(
    /// A run of a circuit, or an operation on encrypted numbers.
    OperationId, "op_"
);
open_id!(
    /// A value that the node keeps for a session; valid within that session only.
    HandleId, "hdl_"
);
open_id!(
    /// A user of the dashboard.
    UserId, "usr_"
);
open_id!(
    /// A sign-in: all tokens of one log-in share this id.
    SignInId, "sgn_"
);
id!(
    /// A gate session. The id is purely random, is a secret of its account (readings X4, X16), and is never logged. The
    /// database has only the id's digest and the sealed id.
    SessionId, "sess_"
);

impl std::fmt::Debug for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("sess_(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_what_it_wrote() {
        for bits in [0, 1, u128::MAX, 1 << 127, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            let id = KeyId::from_bits(bits);
            assert_eq!(id.bits(), bits);
            assert_eq!(id.as_str().len(), 3 + 26);
            assert_eq!(id.as_str().parse(), Ok(id.clone()));
            assert_eq!(decode(&id.as_str()[3..]), Some(bits));
        }
    }

    #[test]
    fn ids_of_growing_bits_sort_like_their_bits() {
        let mut bits = 1u128;
        for _ in 0..126 {
            assert!(AccountId::from_bits(bits) < AccountId::from_bits(bits * 2));
            bits *= 2;
        }
    }

    #[test]
    fn foreign_prefixes_wrong_lengths_and_wrong_letters_are_refused() {
        let good = SessionId::from_bits(7);
        for bad in [
            good.as_str().replace("sess_", "ak_"),
            good.as_str()[..30].to_owned(),
            format!("{}a", good.as_str()),
            good.as_str().to_uppercase(),
            "sess_80000000000000000000000000".to_owned(),
            "sess_0000000000000000000000000w".to_owned(),
            String::new(),
        ] {
            assert_eq!(bad.parse::<SessionId>(), Err(NotAnId), "{bad}");
        }
    }

    #[test]
    fn a_session_id_hides_itself_from_logs() {
        let id = SessionId::from_bits(u128::MAX);
        assert!(!format!("{id:?}").contains(&id.as_str()[5..]));
    }
}
