//! `Ciphertext` and `CompressedCiphertext`: a bit, with its mask or with the mask's seed.

use super::reader::Reader;
use crate::bytes::Error;
use crate::tfhe::Lwe;
use crate::tfhe::masks::ciphertext_mask;

/// Variant numbers of `Ciphertext`.
const ENCRYPTED: u32 = 0;
const TRIVIAL: u32 = 1;
/// Size of `Ciphertext::Encrypted` without its words, in bytes: variant, length, modulus.
const ENCRYPTED_FRAME: usize = 4 + 8 + 24;
/// Size of `Ciphertext::Trivial`, in bytes.
const TRIVIAL_SIZE: usize = 4 + 1;
/// Sizes of a `CompressedCiphertext`, in bytes: with the seed of releases 1.0 to 1.5, and with the seed of later
/// releases.
const COMPRESSED_SIZES: [usize; 2] = [52, 80];

/// Reads a bit's ciphertext of dimension `lwe_dimension`, in any of its three forms. The mask of a compressed
/// ciphertext is expanded. A trivial ciphertext gets a mask of zeros.
///
/// # Errors
/// `Malformed` for bytes of another form, for lengths that contradict each other, and for another dimension. `Params`
/// for a custom modulus or another mask generator.
pub fn read_ciphertext(bytes: &[u8], lwe_dimension: usize) -> Result<Lwe, Error> {
    let mut reader = Reader::new(bytes);
    if COMPRESSED_SIZES.contains(&bytes.len()) {
        let body = reader.u32()?;
        let size = reader.u64()?;
        let seed = reader.seed()?;
        reader.modulus()?;
        reader.end()?;
        check_size(size, lwe_dimension)?;
        let mut words = vec![0; lwe_dimension + 1];
        ciphertext_mask(seed, &mut words[..lwe_dimension]);
        words[lwe_dimension] = body;
        return Ok(Lwe::new(words));
    }
    match reader.u32()? {
        ENCRYPTED => {
            let words = reader.words()?;
            reader.modulus()?;
            reader.end()?;
            check_size(words.len() as u64, lwe_dimension)?;
            Ok(Lwe::new(words.iter().collect()))
        }
        TRIVIAL => {
            let bit = reader.u8()?;
            reader.end()?;
            match bit {
                0 | 1 => Ok(Lwe::trivial(lwe_dimension, bit == 1)),
                _ => Err(Error::Malformed("a bit is neither 0 nor 1".into())),
            }
        }
        _ => Err(Error::Malformed("not a ciphertext of tfhe-rs".into())),
    }
}

/// Writes `Ciphertext::Encrypted` as bincode does.
pub fn write_ciphertext(lwe: &Lwe) -> Vec<u8> {
    let words = lwe.words();
    let mut bytes = Vec::with_capacity(ENCRYPTED_FRAME + 4 * words.len());
    bytes.extend(ENCRYPTED.to_le_bytes());
    bytes.extend((words.len() as u64).to_le_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend(0u128.to_le_bytes());
    bytes.extend(32u64.to_le_bytes());
    bytes
}

/// Whether the bytes have the shape of a `Ciphertext` or `CompressedCiphertext`. The check is cheap and does not show
/// that the bytes are acceptable.
pub fn looks_like_ciphertext(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    if COMPRESSED_SIZES.contains(&bytes.len()) {
        return reader.bytes(12).and_then(|_| reader.seed()).and_then(|_| reader.modulus()).is_ok();
    }
    match reader.u32() {
        Ok(ENCRYPTED) => reader.words().and_then(|_| reader.modulus()).is_ok(),
        Ok(TRIVIAL) => bytes.len() == TRIVIAL_SIZE,
        _ => false,
    }
}

fn check_size(words: u64, lwe_dimension: usize) -> Result<(), Error> {
    if words == lwe_dimension as u64 + 1 {
        return Ok(());
    }
    Err(Error::Malformed(format!("the ciphertext has {words} words, but the key needs {}", lwe_dimension + 1)))
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// For each of the two seed layouts: a compressed true bit that a release of `node-tfhe` wrote, and the SHA-256 of
    /// the `Ciphertext` that the same release expanded from it.
    const KNOWN: [(&str, &str, &str); 2] = [
        (
            "1.0.0",
            "759942047d020000000000001d81691542f61545f24ac4a725ee3964000000000000000000000000000000002000000000000000",
            "13d1b6833896e90c97b645f0bd22ee59633e2fbfb8e2e22a2da1d6e63dae8412",
        ),
        (
            "1.7.0",
            "629c10727d020000000000000000000081f24aaf8225c56820f8fb5024a9d41e0000000000000000000000000000000000000000\
             00000000000000000000000000000000000000002000000000000000",
            "4c823bfc8e14c87e322b99055e611a97eff4e88b01d6b4b74f70f93838076b56",
        ),
    ];

    #[test]
    fn compressed_ciphertexts_of_released_clients_expand_as_those_clients_expand_them() {
        for (release, compressed, expanded) in KNOWN {
            let bytes = unhex(compressed);
            assert!(looks_like_ciphertext(&bytes), "{release}");
            let lwe = read_ciphertext(&bytes, 636).expect("a client's own bytes");
            assert_eq!(Sha256::digest(write_ciphertext(&lwe))[..], unhex(expanded), "{release}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let lwe = Lwe::new((0..709).map(|i: u32| i.wrapping_mul(0x9e37_79b9)).collect());
        let bytes = write_ciphertext(&lwe);
        assert!(looks_like_ciphertext(&bytes));
        assert_eq!(read_ciphertext(&bytes, 708), Ok(lwe));
    }

    fn unhex(text: &str) -> Vec<u8> {
        let digits = text.as_bytes().chunks_exact(2);
        digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }
}
