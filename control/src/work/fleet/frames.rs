//! Sealed frames: many megabytes as pieces of 1 MiB, each sealed under one random data key. A frame is bound to its number, to
//! the number of all frames and to a name, so frames cannot be swapped, dropped or taken from another object.

use seal::{EXTRA_BYTES, Seal};
use zeroize::Zeroizing;

use crate::ids;
use crate::secrets::Key;

/// Bytes of a frame before it is sealed. The last frame may be shorter.
const FRAME_BYTES: usize = 1 << 20;

/// Makes a random data key.
pub fn new_data_key() -> Key {
    Key::new(ids::random())
}

/// Seals bytes.
pub fn seal(key: &Key, name: &str, bytes: &[u8]) -> Vec<u8> {
    let (seal, frames) = (Seal::new(key), bytes.chunks(FRAME_BYTES));
    let count = frames.len();
    let mut sealed = Vec::with_capacity(bytes.len() + count * EXTRA_BYTES);
    for (at, frame) in frames.enumerate() {
        sealed.extend_from_slice(&seal.seal(label(name, at, count), frame));
    }
    sealed
}

/// Opens bytes that [`seal()`] sealed. `None`: frames are changed, missing, swapped, or of another name or key.
pub fn open(key: &Key, name: &str, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (seal, frames) = (Seal::new(key), sealed.chunks(FRAME_BYTES + EXTRA_BYTES));
    let count = frames.len();
    let mut bytes = Zeroizing::new(Vec::with_capacity(sealed.len()));
    for (at, frame) in frames.enumerate() {
        bytes.extend_from_slice(&seal.open(label(name, at, count), frame)?);
    }
    Some(bytes)
}

fn label(name: &str, at: usize, count: usize) -> String {
    format!("{name} frame {at} of {count}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_open_in_their_order_whole_and_under_their_name_only() {
        let key = new_data_key();
        for length in [0, 1, FRAME_BYTES, FRAME_BYTES + 1, 3 * FRAME_BYTES] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let sealed = seal(&key, "n", &bytes);
            assert_eq!(*open(&key, "n", &sealed).unwrap(), bytes);
        }
        let sealed = seal(&key, "n", &vec![7; 3 * FRAME_BYTES]);
        let whole = FRAME_BYTES + EXTRA_BYTES;
        let (first, rest) = sealed.split_at(whole);
        let (second, third) = rest.split_at(whole);
        let swapped = [second, first, third].concat();
        let cut = [first, second].concat();
        let doubled = [first, second, second, third].concat();
        for wrong in [&swapped, &cut, &doubled, &sealed[..sealed.len() - 1].to_vec()] {
            assert!(open(&key, "n", wrong).is_none());
        }
        assert!(open(&key, "m", &sealed).is_none());
        assert!(open(&new_data_key(), "n", &sealed).is_none());
        assert!(!sealed.windows(32).any(|window| window == [7; 32]));
    }
}
