//! The ciphertext's payload (docs/wire-format.md 18): parameters, level, form and floats; then either both
//! polynomials, or one polynomial and a seed.

use super::{
    PARAMS_BYTES, SEED_BYTES, check_level, expect_params, packed_bytes, params_block, put_rows, read_rows, seed_of,
    split,
};
use crate::ckks::Params;
use crate::ckks::ciphertext::{Ciphertext, SeededCiphertext};
use crate::ckks::noise::{Noise, Tail};
use crate::ckks::room;
use crate::container::{Error, HEADER_BYTES, Tag, frame_arithmetic, unframe_arithmetic};

/// Size of the level, the form, the tail and a zero together, in bytes.
const KIND_BYTES: usize = 4;
/// Size of the scale, the value bound and the variance together, in bytes.
const FLOAT_BYTES: usize = 24;
/// Number of bytes before the seed or the polynomials. The frame's header is included.
pub const CIPHERTEXT_HEAD_BYTES: usize = HEADER_BYTES + PARAMS_BYTES + KIND_BYTES + FLOAT_BYTES;

/// How a container holds a ciphertext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Both polynomials.
    Whole = 0,
    /// The first polynomial and the seed of the second.
    Seeded = 1,
}

/// Size of the container of a ciphertext, in bytes.
pub fn ciphertext_bytes(params: &Params, level: usize, form: Form) -> usize {
    let polynomial = packed_bytes(params, &params.level(level).primes);
    CIPHERTEXT_HEAD_BYTES
        + match form {
            Form::Whole => 2 * polynomial,
            Form::Seeded => SEED_BYTES + polynomial,
        }
}

/// Writes the container of a ciphertext with both polynomials.
///
/// # Panics
/// When the number of words does not match the ciphertext's level.
pub fn write_ciphertext(ciphertext: &Ciphertext, params: &Params, fingerprint: [u8; 8]) -> Vec<u8> {
    let Ciphertext { level, scale, noise, ref words } = *ciphertext;
    let primes = &params.level(level).primes;
    write(params, fingerprint, (level, Form::Whole), (scale, noise), |out| {
        assert_eq!(words.len(), 2 * primes.len() * params.n(), "two polynomials of the level");
        for polynomial in words.chunks_exact(primes.len() * params.n()) {
            put_rows(params, primes, polynomial, out);
        }
    })
}

/// Writes the container of a ciphertext with one polynomial and the seed of the other polynomial.
///
/// # Panics
/// When the number of words does not match the ciphertext's level.
pub fn write_seeded_ciphertext(ciphertext: &SeededCiphertext, params: &Params, fingerprint: [u8; 8]) -> Vec<u8> {
    let SeededCiphertext { level, scale, noise, seed, ref body } = *ciphertext;
    write(params, fingerprint, (level, Form::Seeded), (scale, noise), |out| {
        out.extend(seed);
        put_rows(params, &params.level(level).primes, body, out);
    })
}

fn write(
    params: &Params,
    fingerprint: [u8; 8],
    (level, form): (usize, Form),
    (scale, noise): (f64, Noise),
    put: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    frame_arithmetic(Tag::ArithmeticCiphertext, fingerprint, |out| {
        out.reserve_exact(ciphertext_bytes(params, level, form) - HEADER_BYTES);
        out.extend(params_block(params));
        out.extend([level as u8, form as u8, u8::from(noise.tail == Tail::Mixed), 0]);
        [scale, noise.value_bound, noise.variance].iter().for_each(|float| out.extend(float.to_le_bytes()));
        put(out);
    })
}

/// Reads a ciphertext's container for a key of these parameters and this fingerprint. The second polynomial of a
/// seeded ciphertext is expanded.
///
/// # Errors
/// [`Error::SecretKey`] for a secret key; [`Error::Params`] for a ciphertext of other parameters or of another key;
/// [`Error::Malformed`] and other variants for bytes that break the format (readings C17).
pub fn read_ciphertext(bytes: &[u8], params: &Params, fingerprint: [u8; 8]) -> Result<Ciphertext, Error> {
    super::refuse_foreign_secrets(bytes)?;
    let (found, payload) = unframe_arithmetic(bytes, Tag::ArithmeticCiphertext)?;
    let rest = expect_params(payload, params)?;
    if found != fingerprint {
        return Err(Error::Params("the ciphertext was made under another key".into()));
    }
    let (kind, rest) = split(rest, KIND_BYTES)?;
    let &[level, form, tail @ (0 | 1), 0] = kind else {
        return Err(Error::Malformed("the two bytes after the form must be 0 or 1, and 0".into()));
    };
    let tail = if tail == 1 { Tail::Mixed } else { Tail::AsSent };
    let level = check_level(level, params.level_max())?;
    let (floats, rest) = split(rest, FLOAT_BYTES)?;
    let (scale, noise) = read_floats(floats, params, level)?;
    let noise = Noise { tail, ..noise };
    let primes = &params.level(level).primes;
    let polynomial = packed_bytes(params, primes);
    let expected = match form {
        0 => 2 * polynomial,
        1 => SEED_BYTES + polynomial,
        _ => return Err(Error::Malformed(format!("the ciphertext has the unknown form {form}"))),
    };
    if rest.len() != expected {
        return Err(Error::Malformed(format!(
            "a ciphertext of level {level} must have {expected} bytes after its header, found {}",
            rest.len()
        )));
    }
    let mut words = Vec::new();
    if form == 1 {
        let (seed, body) = split(rest, SEED_BYTES)?;
        read_rows(params, primes, body, &mut words)?;
        return Ok(SeededCiphertext { level, scale, noise, seed: seed_of(seed), body: words }.expand(params));
    }
    words.reserve_exact(2 * primes.len() * params.n());
    for rows in rest.chunks_exact(polynomial) {
        read_rows(params, primes, rows, &mut words)?;
    }
    Ok(Ciphertext { level, scale, noise, words })
}

/// Returns the seed in a container that [`read_ciphertext`] accepts. `None`: the container has both polynomials.
pub fn ciphertext_seed(bytes: &[u8]) -> Option<[u8; SEED_BYTES]> {
    let is_seeded = bytes.get(HEADER_BYTES + PARAMS_BYTES + 1) == Some(&(Form::Seeded as u8));
    let seed = bytes.get(CIPHERTEXT_HEAD_BYTES..CIPHERTEXT_HEAD_BYTES + SEED_BYTES)?;
    is_seeded.then(|| seed_of(seed))
}

/// Reads the scale and the noise record, and checks them.
fn read_floats(bytes: &[u8], params: &Params, level: usize) -> Result<(f64, Noise), Error> {
    let float = |at: usize| f64::from_le_bytes(bytes[8 * at..][..8].try_into().expect("eight bytes"));
    let [scale, value_bound, variance] = [float(0), float(1), float(2)];
    room::check_record(params, level, scale, [value_bound, variance]).map_err(Error::Malformed)?;
    Ok((scale, Noise::new(value_bound, variance)))
}
