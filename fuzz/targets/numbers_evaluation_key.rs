//! Any bytes as an evaluation key for numbers, with its head and its rows: an accepted key is written back unchanged,
//! and its rows match the parameters.
#![no_main]

use kernels::ckks::container::{
    KEY_HEAD_BYTES, ROW_HEADER_BYTES, read_key_head, read_literal, read_row, read_row_header, row_bytes, write_row,
};
use kernels::container::{CHECKSUM_BYTES, HEADER_BYTES};
use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};

/// Number of bytes of the parameters.
const PARAMS_BYTES: usize = 8;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    // finding the primes of other parameters takes long
    let small =
        |bytes: &[u8]| read_literal(bytes).is_ok_and(|literal| literal.poly_degree == 64 && literal.scale_bits == 25);
    if bytes.len() < KEY_HEAD_BYTES || !small(&bytes) {
        let _ = (bytes.len() < KEY_HEAD_BYTES).then(|| read_key_head(&bytes));
        return;
    }
    let _ = read_key_head(&bytes);
    let [checksum, head] = [24..HEADER_BYTES, HEADER_BYTES..KEY_HEAD_BYTES];
    let digest = checksum_of(&[&bytes[..24], &bytes[head]]);
    bytes[checksum].copy_from_slice(&digest);
    let Ok(head) = read_key_head(&bytes) else { return };
    assert!(head.rows > 0 && head.bytes >= u64::from(head.rows) * ROW_HEADER_BYTES as u64);
    let params = bytes[HEADER_BYTES..][..PARAMS_BYTES].to_vec();
    let mut rest = &mut bytes[KEY_HEAD_BYTES..];
    while let Ok(header) = read_row_header(&head, rest) {
        assert!(header.digit < header.digits && usize::from(header.level) <= head.params.level_max());
        let length = row_bytes(&head.params, header.kind, header.level);
        if rest.len() < length {
            assert!(read_row(&head, rest).is_err());
            return;
        }
        let (row, after) = rest.split_at_mut(length);
        let _ = read_row(&head, row);
        let (before, body) = row.split_at(ROW_HEADER_BYTES);
        let digest = checksum_of(&[&params, &before[..ROW_HEADER_BYTES - CHECKSUM_BYTES], body]);
        row[ROW_HEADER_BYTES - CHECKSUM_BYTES..ROW_HEADER_BYTES].copy_from_slice(&digest);
        if let Ok(read) = read_row(&head, row) {
            assert_eq!(read.body.len(), header.body_words(&head.params));
            assert_eq!(write_row(&head.params, &read), row, "an accepted row is written back unchanged");
            assert_eq!(read.expand(&head.params).len(), 2 * read.body.len());
        }
        rest = after;
    }
});

fn checksum_of(parts: &[&[u8]]) -> [u8; CHECKSUM_BYTES] {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize()[..CHECKSUM_BYTES].try_into().expect("a digest is longer")
}
