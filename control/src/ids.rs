//! Fresh identifiers (readings X4).

use api::{
    AccountId, CiphertextId, EmailId, EncryptionKeyId, EventId, HandleId, InvoiceId, KeyId, LineageId, OperationId,
    RequestId, SessionId, SignInId, TransferId, UploadId, UsageId, UserId, WebhookId,
};

use zeroize::Zeroizing;

use crate::clock::Timestamp;

/// Random bytes from the operating system.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// Random bytes from the operating system as lower-case hexadecimal, after a prefix.
pub fn random_hex<const N: usize>(prefix: &str) -> Zeroizing<String> {
    let bytes = Zeroizing::new(random::<N>());
    // allocate the final size, because growing would leave a copy
    let mut text = vec![0; prefix.len() + 2 * N];
    let (head, digits) = text.split_at_mut(prefix.len());
    head.copy_from_slice(prefix.as_bytes());
    hex::encode_to_slice(bytes.as_slice(), digits).expect("two digits a byte");
    Zeroizing::new(String::from_utf8(text).expect("digits are ASCII"))
}

/// 128 bits that sort by time: 48 bits of milliseconds, 80 random ones.
fn time_ordered(now: Timestamp) -> u128 {
    let millis = u128::try_from(now.0 / 1000).unwrap_or(0) & ((1 << 48) - 1);
    (millis << 80) | (u128::from_be_bytes(random()) >> 48)
}

/// A new account's id.
pub fn account(now: Timestamp) -> AccountId {
    AccountId::from_bits(time_ordered(now))
}

/// A new API key's id.
pub fn key(now: Timestamp) -> KeyId {
    KeyId::from_bits(time_ordered(now))
}

/// A new key lineage's id.
pub fn lineage(now: Timestamp) -> LineageId {
    LineageId::from_bits(time_ordered(now))
}

/// A new request's id.
pub fn request(now: Timestamp) -> RequestId {
    RequestId::from_bits(time_ordered(now))
}

/// A new usage row's id.
pub fn usage(now: Timestamp) -> UsageId {
    UsageId::from_bits(time_ordered(now))
}

/// A new transfer's id.
pub fn transfer(now: Timestamp) -> TransferId {
    TransferId::from_bits(time_ordered(now))
}

/// A new invoice's id.
pub fn invoice(now: Timestamp) -> InvoiceId {
    InvoiceId::from_bits(time_ordered(now))
}

/// A new e-mail's id.
pub fn email(now: Timestamp) -> EmailId {
    EmailId::from_bits(time_ordered(now))
}

/// A new webhook's id.
pub fn webhook(now: Timestamp) -> WebhookId {
    WebhookId::from_bits(time_ordered(now))
}

/// A new event's id.
pub fn event(now: Timestamp) -> EventId {
    EventId::from_bits(time_ordered(now))
}

/// The id of a new circuit run, or of a new operation on encrypted numbers.
pub fn operation(now: Timestamp) -> OperationId {
    OperationId::from_bits(time_ordered(now))
}

/// A new encryption key's id.
pub fn encryption_key(now: Timestamp) -> EncryptionKeyId {
    EncryptionKeyId::from_bits(time_ordered(now))
}

/// A new upload's id.
pub fn upload(now: Timestamp) -> UploadId {
    UploadId::from_bits(time_ordered(now))
}

/// A new ciphertext's id.
pub fn ciphertext(now: Timestamp) -> CiphertextId {
    CiphertextId::from_bits(time_ordered(now))
}

/// A new handle's id.
pub fn handle() -> HandleId {
    HandleId::from_bits(u128::from_be_bytes(random()))
}

/// A new user's id.
pub fn user(now: Timestamp) -> UserId {
    UserId::from_bits(time_ordered(now))
}

/// A new sign-in's id.
pub fn sign_in(now: Timestamp) -> SignInId {
    SignInId::from_bits(time_ordered(now))
}

/// A new gate session's id: 128 random bits, because it is a secret.
pub fn session() -> SessionId {
    SessionId::from_bits(u128::from_be_bytes(random()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_ids_sort_after_earlier_ones() {
        let ids: Vec<_> = (1..100).map(|n| request(Timestamp(n * 1_700_000_000_000))).collect();
        assert!(ids.is_sorted());
    }

    #[test]
    fn ids_of_one_moment_differ() {
        assert_ne!(key(Timestamp(5)), key(Timestamp(5)));
        assert_ne!(session(), session());
    }
}
