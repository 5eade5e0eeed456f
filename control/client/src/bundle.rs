//! Many ciphertexts in one file: containers one after another, bit 0 of the value first. Each says its own length.

use kernels::container::{self, Form, HEADER_BYTES, Tag};
use kernels::tfhe::Lwe;

use crate::SecretKey;

/// Ciphertexts of one bundle at most.
pub const CIPHERTEXTS_MAX: usize = 1 << 16;

/// Encrypts bits under a key, a container each.
pub fn encrypt(key: &SecretKey, bits: &[bool]) -> Vec<Vec<u8>> {
    let write = |lwe: &Lwe| container::write_ciphertext(lwe, key.preset(), Some(key.fingerprint()), Form::Ango);
    bits.iter().map(|&bit| write(&key.encrypt(bit))).collect()
}

/// Decrypts containers, or what a server answered in the form of tfhe-rs.
///
/// # Errors
/// The first that is damaged or was made under another key.
pub fn decrypt<T: AsRef<[u8]>>(key: &SecretKey, ciphertexts: &[T]) -> Result<Vec<bool>, container::Error> {
    let read = |bytes: &T| container::read_ciphertext(bytes.as_ref(), key.preset(), Some(key.fingerprint()));
    ciphertexts.iter().map(|bytes| Ok(key.decrypt(&read(bytes)?.0))).collect()
}

/// Cuts a bundle into its containers. Each is a whole, undamaged ciphertext; whose, is checked by whoever reads it.
///
/// # Errors
/// Anything else, a secret key above all: what is cut here may be on its way to a server. No ciphertext at all; more than
/// [`CIPHERTEXTS_MAX`].
pub fn split(bundle: &[u8]) -> Result<Vec<&[u8]>, container::Error> {
    let malformed = |why: String| container::Error::Malformed(why);
    let (mut containers, mut rest) = (Vec::new(), bundle);
    while !rest.is_empty() {
        let index = containers.len();
        if index == CIPHERTEXTS_MAX {
            return Err(malformed(format!("a bundle has at most {CIPHERTEXTS_MAX} ciphertexts")));
        }
        let bytes = container_bytes(rest).ok_or_else(|| malformed(format!("ciphertext {index} is cut short")))?;
        let (container, after) = rest.split_at(bytes?);
        container::unframe(container, Tag::Ciphertext)?;
        containers.push(container);
        rest = after;
    }
    if containers.is_empty() {
        return Err(malformed("there is no ciphertext".into()));
    }
    Ok(containers)
}

/// Bytes of the container that `bytes` begin with; none when there are not so many.
fn container_bytes(bytes: &[u8]) -> Option<Result<usize, container::Error>> {
    if !bytes.starts_with(&container::MAGIC) {
        return Some(Err(container::Error::UnknownForm));
    }
    let payload = u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?);
    let total = usize::try_from(payload).ok()?.checked_add(HEADER_BYTES)?;
    (total <= bytes.len()).then_some(Ok(total))
}

#[cfg(test)]
mod tests {
    use kernels::tfhe::Preset;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bundle_gives_back_its_bits_in_order() {
        let key = SecretKey::generate(Preset::Fast128);
        let bits = [true, false, false, true, true];
        let bundle = encrypt(&key, &bits).concat();
        assert_eq!(decrypt(&key, &split(&bundle).unwrap()), Ok(bits.to_vec()));
    }

    #[test]
    fn a_cut_or_foreign_bundle_is_refused() {
        let key = SecretKey::generate(Preset::Fast128);
        let bundle = encrypt(&key, &[true, false]).concat();
        for cut in [0, 1, 4, 20, HEADER_BYTES, bundle.len() / 2 - 1, bundle.len() / 2 + 1, bundle.len() - 1] {
            assert!(split(&bundle[..cut]).is_err(), "cut at {cut}");
        }
        assert_eq!(split(b"something else"), Err(container::Error::UnknownForm));
        let mut endless = bundle.clone();
        endless[16..24].fill(0xff);
        assert!(split(&endless).is_err());
    }

    #[test]
    fn keys_are_no_ciphertexts() {
        let key = SecretKey::generate(Preset::Fast128);
        assert_eq!(split(&key.to_bytes()), Err(container::Error::SecretKey));
        let evaluation_key = container::write_evaluation_key(&key.evaluation_key());
        assert!(matches!(split(&evaluation_key), Err(container::Error::WrongType { .. })));
    }

    #[test]
    fn another_key_s_ciphertext_is_not_decrypted() {
        let [mine, other] = [(); 2].map(|()| SecretKey::generate(Preset::Fast128));
        assert!(decrypt(&mine, &encrypt(&other, &[true])).is_err());
    }

    proptest! {
        #[test]
        fn whole_containers_are_split_and_anything_more_or_less_is_an_error(
            mut bytes in prop_oneof![Just(Vec::new()), prop::collection::vec(any::<u8>(), 0..200)],
            lengths in prop::collection::vec(0usize..80, 0..4),
        ) {
            let put = |length| move |out: &mut Vec<u8>| out.resize(HEADER_BYTES + length, 7);
            let containers = lengths.iter().map(|&length| container::frame(Tag::Ciphertext, Preset::Fast128, None, put(length)));
            let behind = bytes.len();
            // whole containers, and anything behind them
            bytes.splice(0..0, containers.flatten().collect::<Vec<_>>());
            let split = split(&bytes);
            prop_assert_eq!(split.is_ok(), behind == 0 && !lengths.is_empty());
            if let Ok(containers) = split {
                prop_assert_eq!(containers.len(), lengths.len());
                prop_assert_eq!(containers.concat(), bytes);
            }
        }
    }
}
