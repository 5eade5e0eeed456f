//! Many ciphertexts in one file: containers one after another, bit 0 of the value first. Each container states its own
//! length, and holds one bit or all bits of a seed.

use kernels::container::{self, Form, HEADER_BYTES, Tag};
use kernels::tfhe::Lwe;
use kernels::tfhe::seeded::SEED_BYTES;

use crate::SecretKey;

/// Largest number of ciphertexts in a bundle.
pub const CIPHERTEXTS_MAX: usize = 1 << 16;

/// Encrypts bits under a key, each into its own container.
pub fn encrypt(key: &SecretKey, bits: &[bool]) -> Vec<Vec<u8>> {
    let write = |lwe: &Lwe| container::write_ciphertext(lwe, key.preset(), Some(key.fingerprint()), Form::Ango);
    bits.iter().map(|&bit| write(&key.encrypt(bit))).collect()
}

/// Encrypts bits under a key into one container, 4 bytes per bit.
///
/// # Panics
/// When `bits` is empty or has more than [`CIPHERTEXTS_MAX`] elements.
pub fn encrypt_seeded(key: &SecretKey, bits: &[bool]) -> Vec<u8> {
    container::write_seeded(&key.encrypt_seeded(bits), key.preset(), Some(key.fingerprint()))
}

/// Number of bits in these containers, by their lengths alone.
pub fn width<T: AsRef<[u8]>>(containers: &[T]) -> usize {
    let bits = |container: &[u8]| match container::is_seeded(container) {
        true => container.len().saturating_sub(HEADER_BYTES + SEED_BYTES) / 4,
        false => 1,
    };
    containers.iter().map(|container| bits(container.as_ref())).sum()
}

/// Decrypts containers, or ciphertexts that a server returned in the form of tfhe-rs.
///
/// # Errors
/// When a ciphertext is damaged or was made under another key; the first such error.
pub fn decrypt<T: AsRef<[u8]>>(key: &SecretKey, ciphertexts: &[T]) -> Result<Vec<bool>, container::Error> {
    let (preset, fingerprint) = (key.preset(), Some(key.fingerprint()));
    let mut bits = Vec::with_capacity(ciphertexts.len());
    for bytes in ciphertexts.iter().map(AsRef::as_ref) {
        if container::is_seeded(bytes) {
            let list = container::read_seeded(bytes, preset, fingerprint)?.expand(preset.params().lwe_dimension);
            bits.extend(list.to_lwes().iter().map(|lwe| key.decrypt(lwe)));
        } else {
            bits.push(key.decrypt(&container::read_ciphertext(bytes, preset, fingerprint)?.0));
        }
    }
    Ok(bits)
}

/// Cuts a bundle into its containers, and checks that each is whole, undamaged and holds ciphertexts. Whether a
/// container belongs to the expected key is not checked here, but when the container is read.
///
/// # Errors
/// When a container does not hold ciphertexts. A secret key in particular is refused, because the containers may be
/// sent to a server. When the bundle is empty or has more than [`CIPHERTEXTS_MAX`] bits.
pub fn split(bundle: &[u8]) -> Result<Vec<&[u8]>, container::Error> {
    let malformed = |why: String| container::Error::Malformed(why);
    let (mut containers, mut bits, mut rest) = (Vec::new(), 0, bundle);
    while !rest.is_empty() {
        let bytes = container_bytes(rest)
            .ok_or_else(|| malformed(format!("the bundle ends in the middle of ciphertext {bits}")))?;
        let (container, after) = rest.split_at(bytes?);
        bits += match container::is_seeded(container) {
            true => container::unframe_seeded(container)?.1.len(),
            false => container::unframe(container, Tag::Ciphertext).map(|_| 1)?,
        };
        if bits > CIPHERTEXTS_MAX {
            return Err(malformed(format!("the bundle holds more than {CIPHERTEXTS_MAX} ciphertexts")));
        }
        containers.push(container);
        rest = after;
    }
    if containers.is_empty() {
        return Err(malformed("there is no ciphertext".into()));
    }
    Ok(containers)
}

/// Length in bytes of the container at the beginning of `bytes`; `None` when `bytes` are too short.
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
    fn seeded_and_whole_ciphertexts_may_stand_in_one_bundle() {
        let key = SecretKey::generate(Preset::Fast128);
        let bundle = [encrypt_seeded(&key, &[true, false, true]), encrypt(&key, &[true]).concat()].concat();
        let containers = split(&bundle).unwrap();
        assert_eq!((containers.len(), width(&containers)), (2, 4));
        assert_eq!(decrypt(&key, &containers), Ok(vec![true, false, true, true]));
        assert!(split(&bundle[..HEADER_BYTES + 32 + 8]).is_err(), "a body is missing");
        let other = SecretKey::generate(Preset::Fast128);
        assert!(decrypt(&other, &containers).is_err());
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
            // makes a bundle of whole containers with arbitrary bytes at its end
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
