//! The evaluation key (docs/wire-format.md 17): a head, then rows. Each row has a checksum, so the receiver can check
//! each row as soon as it arrives.

use sha2::{Digest, Sha256};

use super::{
    PARAMS_BYTES, SEED_BYTES, check_level, packed_bytes, params_block, put_rows, read_rows, seed_of, split_params,
};
use crate::ckks::keys::{KeyRow, RowHeader};
use crate::ckks::params::{Params, PartKind};
use crate::container::{CHECKSUM_BYTES, Error, HEADER_BYTES, Tag, frame_head, unframe_head};

const ROWS_BYTES: usize = 4;
/// Size of the head, in bytes: the frame's header, the parameters, the number of rows.
pub const KEY_HEAD_BYTES: usize = HEADER_BYTES + PARAMS_BYTES + ROWS_BYTES;
/// Size of the kind, the level, the digit, the number of digits, and the Galois element or tag together, in bytes.
const KIND_BYTES: usize = 8;
/// Number of bytes of a row before its body.
pub const ROW_HEADER_BYTES: usize = KIND_BYTES + SEED_BYTES + CHECKSUM_BYTES;

/// The contents of an evaluation key's head.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyHead {
    /// The parameters.
    pub params: Params,
    /// Random fingerprint of the secret key.
    pub fingerprint: [u8; 8],
    /// How many rows follow.
    pub rows: u32,
    /// How many bytes all rows have together.
    pub bytes: u64,
}

/// Size of one row of a part of this kind and level, in bytes.
pub fn row_bytes(params: &Params, kind: PartKind, level: u8) -> usize {
    ROW_HEADER_BYTES + packed_bytes(params, &params.key_primes(kind, usize::from(level)))
}

/// Size of a whole part, in bytes.
pub fn part_bytes(params: &Params, kind: PartKind, level: usize) -> usize {
    params.digits(kind, level).len() * row_bytes(params, kind, level as u8)
}

/// Writes the head of a key that has these parts, each given by its kind and its level.
///
/// # Panics
/// When a 32-bit word cannot count the rows.
pub fn write_key_head(params: &Params, fingerprint: [u8; 8], parts: &[(PartKind, usize)]) -> Vec<u8> {
    let rows: usize = parts.iter().map(|&(kind, level)| params.digits(kind, level).len()).sum();
    let bytes: usize = parts.iter().map(|&(kind, level)| part_bytes(params, kind, level)).sum();
    let rows = u32::try_from(rows).expect("as many rows as a word counts");
    let mut first = params_block(params).to_vec();
    first.extend(rows.to_le_bytes());
    let payload_bytes = (first.len() + bytes) as u64;
    frame_head(Tag::ArithmeticEvaluationKey, fingerprint, payload_bytes, &first)
}

/// Reads the head from the first [`KEY_HEAD_BYTES`] of a key and ignores the bytes after them.
///
/// # Errors
/// [`Error::SecretKey`] for a secret key; other variants for malformed bytes, for example if the announced length
/// cannot hold the announced number of rows.
pub fn read_key_head(bytes: &[u8]) -> Result<KeyHead, Error> {
    super::refuse_foreign_secrets(bytes)?;
    let first = PARAMS_BYTES + ROWS_BYTES;
    let (fingerprint, announced, payload) = unframe_head(bytes, Tag::ArithmeticEvaluationKey, first)?;
    let (params, rows) = split_params(payload)?;
    let rows = u32::from_le_bytes(rows.try_into().expect("four bytes"));
    let bytes = announced.checked_sub(first as u64);
    let smallest = if params.literal().bootstrap { PartKind::ToSparse } else { PartKind::Relinearization };
    let least = row_bytes(&params, smallest, 0) as u64;
    let most = row_bytes(&params, PartKind::Relinearization, params.raised_level() as u8) as u64;
    let possible = |bytes: &u64| rows > 0 && (u64::from(rows) * least..=u64::from(rows) * most).contains(bytes);
    let Some(bytes) = bytes.filter(possible) else {
        let why = format!("the head announces {rows} rows in {announced} bytes, but a row has {least} to {most} bytes");
        return Err(Error::Malformed(why));
    };
    Ok(KeyHead { params, fingerprint, rows, bytes })
}

/// Writes a row.
///
/// # Panics
/// When the body does not have the words of the row's level.
pub fn write_row(params: &Params, row: &KeyRow) -> Vec<u8> {
    let header = &row.header;
    let mut out = Vec::with_capacity(row_bytes(params, header.kind, header.level));
    let (code, element) = kind_code(header.kind);
    out.extend([code, header.level, header.digit, header.digits]);
    out.extend((element | header.sparse_tag).to_le_bytes());
    out.extend(header.seed);
    out.extend([0; CHECKSUM_BYTES]);
    put_rows(params, &params.key_primes(header.kind, usize::from(header.level)), &row.body, &mut out);
    let checksum = checksum(params, &out);
    out[ROW_HEADER_BYTES - CHECKSUM_BYTES..ROW_HEADER_BYTES].copy_from_slice(&checksum);
    out
}

/// Reads the header of a row from its first [`ROW_HEADER_BYTES`]. The length of the whole row is [`row_bytes`] of the
/// header's kind and level. The checksum is not checked here.
///
/// # Errors
/// [`Error`] for malformed bytes, or for a kind, level, digit or Galois element that keys of these parameters do not
/// have.
pub fn read_row_header(head: &KeyHead, bytes: &[u8]) -> Result<RowHeader, Error> {
    let Some(bytes) = bytes.get(..ROW_HEADER_BYTES) else {
        return Err(Error::Malformed(format!(
            "a row's header must have {ROW_HEADER_BYTES} bytes, found {}",
            bytes.len()
        )));
    };
    let params = &head.params;
    let [code, level, digit, digits] = bytes[..4].try_into().expect("four bytes");
    let element = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
    let kind = kind_of(params, code, element)?;
    let is_sparse = matches!(kind, PartKind::ToSparse | PartKind::FromSparse);
    let sparse_tag = if is_sparse { element } else { 0 };
    // parts for bootstrapping may have a level above that of fresh ciphertexts
    let at = check_level(level, params.raised_level())?;
    if kind == PartKind::ToSparse && at > 0 {
        return Err(Error::Params(
            "the key part that switches to the sparse secret must be of level 0, because at a higher level the part is insecure".into(),
        ));
    }
    let expected = params.digits(kind, at).len();
    if usize::from(digits) != expected || digit >= digits {
        return Err(Error::Params(format!(
            "this key part must have {expected} rows, numbered from 0; found row {digit} of {digits}"
        )));
    }
    Ok(RowHeader { kind, level, digit, digits, seed: seed_of(&bytes[KIND_BYTES..][..SEED_BYTES]), sparse_tag })
}

/// Returns the length of the row whose header begins with these bytes, and checks nothing else of the row. Eight bytes are
/// enough.
///
/// # Errors
/// [`Error`] for fewer bytes, or for a kind, level or Galois element that keys of these parameters do not have.
pub fn row_bytes_from(params: &Params, header: &[u8]) -> Result<usize, Error> {
    let Some(&[code, level, _, _, a, b, c, d]) = header.first_chunk::<KIND_BYTES>() else {
        return Err(Error::Malformed(format!("the kind of a row takes {KIND_BYTES} bytes, found {}", header.len())));
    };
    let kind = kind_of(params, code, u32::from_le_bytes([a, b, c, d]))?;
    check_level(level, params.raised_level())?;
    Ok(row_bytes(params, kind, level))
}

/// Reads a whole row. `bytes` must have exactly the row's length.
///
/// # Errors
/// [`Error`] for a wrong length or checksum, or a residue that is not below its prime.
pub fn read_row(head: &KeyHead, bytes: &[u8]) -> Result<KeyRow, Error> {
    let header = read_row_header(head, bytes)?;
    let expected = row_bytes(&head.params, header.kind, header.level);
    if bytes.len() != expected {
        return Err(Error::Malformed(format!("a row of this level must have {expected} bytes, found {}", bytes.len())));
    }
    if checksum(&head.params, bytes) != bytes[ROW_HEADER_BYTES - CHECKSUM_BYTES..ROW_HEADER_BYTES] {
        let why = "the row's checksum is wrong: the row is damaged or was made for other parameters";
        return Err(Error::Malformed(why.into()));
    }
    let mut body = Vec::new();
    let primes = head.params.key_primes(header.kind, usize::from(header.level));
    read_rows(&head.params, &primes, &bytes[ROW_HEADER_BYTES..], &mut body)?;
    Ok(KeyRow { header, body })
}

/// Computes the checksum of a row: the first bytes of SHA-256 over the parameters and the row without its checksum.
fn checksum(params: &Params, row: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hash = Sha256::new();
    hash.update(params_block(params));
    hash.update(&row[..ROW_HEADER_BYTES - CHECKSUM_BYTES]);
    hash.update(&row[ROW_HEADER_BYTES..]);
    hash.finalize()[..CHECKSUM_BYTES].try_into().expect("a digest is longer")
}

fn kind_code(kind: PartKind) -> (u8, u32) {
    match kind {
        PartKind::Relinearization => (1, 0),
        PartKind::Galois(element) => (2, element),
        PartKind::ToSparse => (3, 0),
        PartKind::FromSparse => (4, 0),
    }
}

fn kind_of(params: &Params, code: u8, element: u32) -> Result<PartKind, Error> {
    let bootstrap = params.literal().bootstrap;
    match (code, element) {
        (1, 0) => Ok(PartKind::Relinearization),
        (2, element) if element % 2 == 1 && (3..2 * params.n() as u32).contains(&element) => {
            Ok(PartKind::Galois(element))
        }
        (2, element) => Err(Error::Params(format!("these parameters have no Galois element {element}"))),
        (3, _) if bootstrap => Ok(PartKind::ToSparse),
        (4, _) if bootstrap => Ok(PartKind::FromSparse),
        (3 | 4, _) => Err(Error::Params(
            "the key has a part for bootstrapping, but the key's parameters have no levels for bootstrapping".into(),
        )),
        (1, _) => Err(Error::Malformed("the Galois element of a relinearization part must be 0".into())),
        _ => Err(Error::Malformed(format!("unknown kind of key part: {code}"))),
    }
}
