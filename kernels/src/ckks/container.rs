//! Containers of arithmetic (CKKS): bytes to types and back (docs/wire-format.md 14 to 18).
//!
//! Every length, code, float and residue is checked. A header alone causes no allocation. Only [`open_secret_key`]
//! accepts a secret key, and only the client calls it; all other readers refuse secret keys.

mod ciphertext;
mod evaluation_key;
mod packed;
mod public_key;
#[cfg(test)]
mod tests;

pub use ciphertext::{
    CIPHERTEXT_HEAD_BYTES, Form, ciphertext_bytes, ciphertext_seed, read_ciphertext, write_ciphertext,
    write_seeded_ciphertext,
};
pub use evaluation_key::{
    KEY_HEAD_BYTES, KeyHead, ROW_HEADER_BYTES, part_bytes, read_key_head, read_row, read_row_header, row_bytes,
    row_bytes_from, write_key_head, write_row,
};
pub use public_key::{public_key_bytes, read_public_key, write_public_key};

use super::chain::chain_version;
use super::params::{Params, ParamsLiteral, SecurityLevel};
use crate::container::{Error, HEADER_BYTES, MAGIC, Tag, frame_arithmetic, refuse_foreign_secrets, unframe_arithmetic};

/// Size of the parameters block, in bytes. Every payload starts with this block.
pub const PARAMS_BYTES: usize = 8;
const SEED_BYTES: usize = 32;

/// Reads the parameter literal of a container of arithmetic (any type but a secret key) and checks nothing else. A
/// caller uses the literal to report why [`Params::new`] refuses the parameters.
///
/// # Errors
/// When the bytes are not a container of arithmetic, or contain no literal.
pub fn read_literal(bytes: &[u8]) -> Result<ParamsLiteral, Error> {
    refuse_foreign_secrets(bytes)?;
    if !bytes.starts_with(&MAGIC) {
        return Err(Error::UnknownForm);
    }
    let code = bytes.get(6).copied();
    if [Tag::SecretKey, Tag::ArithmeticSecretKey].iter().any(|&tag| code == Some(tag as u8)) {
        return Err(Error::SecretKey);
    }
    let wanted = [Tag::ArithmeticPublicKey, Tag::ArithmeticEvaluationKey, Tag::ArithmeticCiphertext];
    match bytes.get(HEADER_BYTES..HEADER_BYTES + PARAMS_BYTES) {
        Some(block) if wanted.iter().any(|&tag| code == Some(tag as u8)) => literal_of(block),
        Some(_) => Err(Error::Malformed("the container holds no CKKS ciphertext, public key or evaluation key".into())),
        None => Err(Error::Malformed("the container is cut short before its parameters".into())),
    }
}

/// Writes a container of the client's secret key: the parameters, then the bytes that `put` appends.
pub fn write_secret_key(params: &Params, fingerprint: [u8; 8], put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    frame_arithmetic(Tag::ArithmeticSecretKey, fingerprint, |out| {
        out.extend(params_block(params));
        put(out);
    })
}

/// Opens a secret key's container and returns the parameters, the fingerprint and the secret's `[N]` bytes. Only the
/// client calls this function.
///
/// # Errors
/// [`Error`] for bytes that are not a well-formed container of a secret key.
pub fn open_secret_key(bytes: &[u8]) -> Result<(Params, [u8; 8], &[u8]), Error> {
    let (fingerprint, payload) = unframe_arithmetic(bytes, Tag::ArithmeticSecretKey)?;
    let (params, secret) = split_params(payload)?;
    if secret.len() != params.n() {
        return Err(Error::Malformed(format!(
            "the secret must have {} coefficients, found {}",
            params.n(),
            secret.len()
        )));
    }
    Ok((params, fingerprint, secret))
}

/// Makes the parameters block for `params`.
fn params_block(params: &Params) -> [u8; PARAMS_BYTES] {
    let ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap } = params.literal();
    let log_n = poly_degree.trailing_zeros() as u8;
    [log_n, scale_bits as u8, max_depth as u8, security.code(), u8::from(bootstrap), chain_version(bootstrap), 0, 0]
}

fn literal_of(block: &[u8]) -> Result<ParamsLiteral, Error> {
    let &[log_n, scale_bits, max_depth, security, flags, version, 0, 0] = block else {
        return Err(Error::Malformed("the last bytes of the parameters are not zero".into()));
    };
    let params = |why: String| Err(Error::Params(why));
    let Some(security) = SecurityLevel::from_code(security) else {
        return params(format!("unknown security level {security}"));
    };
    if flags > 1 {
        return params(format!("unknown flags {flags}"));
    }
    let bootstrap = flags == 1;
    let expected = chain_version(bootstrap);
    if version != expected {
        let with = if bootstrap { "with" } else { "without" };
        return params(format!(
            "the version of chains {with} the levels of bootstrapping is {expected}, not {version}; make a new key"
        ));
    }
    if log_n > 15 {
        return params(format!("2^{log_n} is not a poly_degree"));
    }
    Ok(ParamsLiteral {
        poly_degree: 1 << log_n,
        scale_bits: u32::from(scale_bits),
        max_depth: u32::from(max_depth),
        security,
        bootstrap,
    })
}

/// Splits a payload into its parameters and the bytes after them.
fn split_params(payload: &[u8]) -> Result<(Params, &[u8]), Error> {
    let (block, rest) = split(payload, PARAMS_BYTES)?;
    let params = Params::new(literal_of(block)?).map_err(|error| Error::Params(error.to_string()))?;
    Ok((params, rest))
}

/// Checks that a payload starts with the parameters `params`, and returns the bytes after them.
fn expect_params<'a>(payload: &'a [u8], params: &Params) -> Result<&'a [u8], Error> {
    let (block, rest) = split(payload, PARAMS_BYTES)?;
    match literal_of(block)? == params.literal() {
        true => Ok(rest),
        false => Err(Error::Params("the ciphertext and the key have different parameters".into())),
    }
}

/// Splits `bytes` after its first `first` bytes.
fn split(bytes: &[u8], first: usize) -> Result<(&[u8], &[u8]), Error> {
    let cut = || Error::Malformed(format!("the payload is cut short at {} bytes", bytes.len()));
    bytes.split_at_checked(first).ok_or_else(cut)
}

fn seed_of(bytes: &[u8]) -> [u8; SEED_BYTES] {
    bytes.try_into().expect("the seed's bytes")
}

/// Checks that `level` is at most `highest`, and returns `level`.
fn check_level(level: u8, highest: usize) -> Result<usize, Error> {
    match usize::from(level) <= highest {
        true => Ok(usize::from(level)),
        false => Err(Error::Params(format!("the level must be at most {highest}, not {level}"))),
    }
}

/// Returns the size, in bytes, of packed rows: one row for each of these primes.
fn packed_bytes(params: &Params, primes: &[usize]) -> usize {
    primes.iter().map(|&prime| packed::row_bytes(params.primes()[prime], params.n())).sum()
}

/// Packs the rows of `words`, which is `[primes][N]`, and appends them to `out`.
fn put_rows(params: &Params, primes: &[usize], words: &[u32], out: &mut Vec<u8>) {
    assert_eq!(words.len(), primes.len() * params.n(), "a row a prime");
    for (&prime, row) in primes.iter().zip(words.chunks_exact(params.n())) {
        packed::pack(params.primes()[prime], row, out);
    }
}

/// Unpacks `bytes`, which must have exactly the length of `[primes][N]` packed words, and appends the words to `out`.
fn read_rows(params: &Params, primes: &[usize], mut bytes: &[u8], out: &mut Vec<u32>) -> Result<(), Error> {
    let expected = packed_bytes(params, primes);
    if bytes.len() != expected {
        return Err(Error::Malformed(format!("the residues must have {expected} bytes, found {}", bytes.len())));
    }
    out.reserve_exact(primes.len() * params.n());
    for &prime in primes {
        let modulus = params.primes()[prime];
        let (row, rest) = bytes.split_at(packed::row_bytes(modulus, params.n()));
        let first = out.len();
        out.resize(first + params.n(), 0);
        packed::unpack(modulus, row, &mut out[first..])?;
        bytes = rest;
    }
    Ok(())
}
