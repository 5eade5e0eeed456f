//! `Ciphertext` and `CompressedCiphertext`: a bit, with its mask or with the seed of it.

use super::masks::ciphertext_mask;
use super::reader::Reader;
use crate::container::Error;
use crate::tfhe::Lwe;

/// Variant numbers of `Ciphertext`.
const ENCRYPTED: u32 = 0;
const TRIVIAL: u32 = 1;
/// Bytes of `Ciphertext::Encrypted` apart from its words: variant, length, modulus.
const ENCRYPTED_FRAME: usize = 4 + 8 + 24;
/// Bytes of `Ciphertext::Trivial`.
const TRIVIAL_SIZE: usize = 4 + 1;
/// Bytes of a `CompressedCiphertext`, with the seed of releases 1.0 to 1.5 and of later ones.
const COMPRESSED_SIZES: [usize; 2] = [52, 80];

/// Reads a bit's ciphertext of dimension `lwe_dimension`, in any of its three forms; the mask of a compressed one is
/// written out, a trivial one gets a mask of zeros.
///
/// # Errors
/// `Malformed` for bytes of another form, lengths that disagree or another dimension; `Params` for a custom modulus or
/// another mask generator.
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

/// The bytes that bincode makes of `Ciphertext::Encrypted`.
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

/// Whether the bytes have the shape of a `Ciphertext` or `CompressedCiphertext`. Cheap; says nothing about whether they
/// are acceptable.
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
    Err(Error::Malformed(format!("the ciphertext has {words} words where the key takes {}", lwe_dimension + 1)))
}
