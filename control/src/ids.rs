//! Fresh identifiers (readings X4).

use api::{
    AccountId, CiphertextId, EmailId, EncryptionKeyId, EventId, HandleId, InvoiceId, KeyId, LineageId, OperationId,
    RequestId, SessionId, SignInId, TransferId, UploadId, UsageId, UserId, WebhookId,
};

use zeroize::Zeroizing;

use crate::clock::Timestamp;

/// Returns random bytes from the operating system.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// Writes random bytes from the operating system as lower-case hexadecimal, after a prefix.
pub fn random_hex<const N: usize>(prefix: &str) -> Zeroizing<String> {
    let bytes = Zeroizing::new(random::<N>());
    // allocate the final size, because growing would leave a copy
    let mut text = vec![0; prefix.len() + 2 * N];
    let (head, digits) = text.split_at_mut(prefix.len());
    head.copy_from_slice(prefix.as_bytes());
    hex::encode_to_slice(bytes.as_slice(), digits).expect("two digits a byte");
    Zeroizing::new(String::from_utf8(text).expect("digits are ASCII"))
}

/// Makes 128 bits that sort by time: 48 bits of milliseconds, then 80 random bits.
fn time_ordered(now: Timestamp) -> u128 {
    let millis = u128::try_from(now.0 / 1000).unwrap_or(0) & ((1 << 48) - 1);
    (millis << 80) | (u128::from_be_bytes(random()) >> 48)
}

/// Makes the id of a new account.
pub fn account(now: Timestamp) -> AccountId {
    AccountId::from_bits(time_ordered(now))
}

/// Makes the id of a new API key.
pub fn key(now: Timestamp) -> KeyId {
    KeyId::from_bits(time_ordered(now))
}

/// Makes the id of a new key lineage.
pub fn lineage(now: Timestamp) -> LineageId {
    LineageId::from_bits(time_ordered(now))
}

/// Makes the id of a new request.
pub fn request(now: Timestamp) -> RequestId {
    RequestId::from_bits(time_ordered(now))
}

/// Makes the id of a new usage row.
pub fn usage(now: Timestamp) -> UsageId {
    UsageId::from_bits(time_ordered(now))
}

/// Makes the id of a new transfer.
pub fn transfer(now: Timestamp) -> TransferId {
    TransferId::from_bits(time_ordered(now))
}

/// Makes the id of a new invoice.
pub fn invoice(now: Timestamp) -> InvoiceId {
    InvoiceId::from_bits(time_ordered(now))
}

/// Makes the id of a new e-mail.
pub fn email(now: Timestamp) -> EmailId {
    EmailId::from_bits(time_ordered(now))
}

/// Makes the id of a new webhook.
pub fn webhook(now: Timestamp) -> WebhookId {
    WebhookId::from_bits(time_ordered(now))
}

/// Makes the id of a new event.
pub fn event(now: Timestamp) -> EventId {
    EventId::from_bits(time_ordered(now))
}

/// Makes the id of a new circuit run, or of a new operation on encrypted numbers.
pub fn operation(now: Timestamp) -> OperationId {
    OperationId::from_bits(time_ordered(now))
}

/// Makes the id of a new encryption key.
pub fn encryption_key(now: Timestamp) -> EncryptionKeyId {
    EncryptionKeyId::from_bits(time_ordered(now))
}

/// Makes the id of a new upload.
pub fn upload(now: Timestamp) -> UploadId {
    UploadId::from_bits(time_ordered(now))
}

/// Makes the id of a new ciphertext.
pub fn ciphertext(now: Timestamp) -> CiphertextId {
    CiphertextId::from_bits(time_ordered(now))
}

/// Makes the id of a new handle.
pub fn handle() -> HandleId {
    HandleId::from_bits(u128::from_be_bytes(random()))
}

/// Makes the id of a new user.
pub fn user(now: Timestamp) -> UserId {
    UserId::from_bits(time_ordered(now))
}

/// Makes the id of a new sign-in.
pub fn sign_in(now: Timestamp) -> SignInId {
    SignInId::from_bits(time_ordered(now))
}

/// Makes the id of a new gate session: 128 random bits, because the id is a secret.
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
