//! The public key's payload (docs/wire-format.md 16): parameters, level, seed, body.

use super::{PARAMS_BYTES, SEED_BYTES, check_level, packed_bytes, params_block, put_rows, read_rows, seed_of, split};
use crate::ckks::Params;
use crate::ckks::keys::PublicKey;
use crate::container::{Error, HEADER_BYTES, Tag, frame_arithmetic, unframe_arithmetic};

/// Size of the level and three zeros together, in bytes.
const LEVEL_BYTES: usize = 4;

/// Size of the container of a public key, in bytes.
pub fn public_key_bytes(params: &Params, level: usize) -> usize {
    HEADER_BYTES + PARAMS_BYTES + LEVEL_BYTES + SEED_BYTES + packed_bytes(params, &params.level(level).primes)
}

/// Writes the container of a public key.
///
/// # Panics
/// When the body does not have the words of the key's level.
pub fn write_public_key(key: &PublicKey) -> Vec<u8> {
    frame_arithmetic(Tag::ArithmeticPublicKey, key.fingerprint, |out| {
        out.reserve_exact(public_key_bytes(&key.params, key.level) - HEADER_BYTES);
        out.extend(params_block(&key.params));
        out.extend([key.level as u8, 0, 0, 0]);
        out.extend(key.seed);
        put_rows(&key.params, &key.params.level(key.level).primes, &key.body, out);
    })
}

/// Reads the container of a public key.
///
/// # Errors
/// [`Error::SecretKey`] for a secret key; other variants for malformed bytes.
pub fn read_public_key(bytes: &[u8]) -> Result<PublicKey, Error> {
    super::refuse_foreign_secrets(bytes)?;
    let (fingerprint, payload) = unframe_arithmetic(bytes, Tag::ArithmeticPublicKey)?;
    let (params, rest) = super::split_params(payload)?;
    let (level, rest) = split(rest, LEVEL_BYTES)?;
    let &[level, 0, 0, 0] = level else {
        return Err(Error::Malformed("the three bytes after the level must be zero".into()));
    };
    let level = check_level(level, params.level_max())?;
    let (seed, rest) = split(rest, SEED_BYTES)?;
    let mut body = Vec::new();
    read_rows(&params, &params.level(level).primes, rest, &mut body)?;
    Ok(PublicKey { params, fingerprint, level, seed: seed_of(seed), body })
}
