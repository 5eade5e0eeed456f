//! Public masks from a seed: AES-256 in counter mode (NIST SP 800-38A), with one stream for each row.
//!
//! Key: the 32-byte seed. Initial counter block: domain (u32, big-endian), row (u64, big-endian), 32 zero bits; these
//! last 32 bits are the block counter, big-endian. The stream is read as little-endian words. docs/wire-format.md
//! defines the same streams for other programs, and a test compares words of a stream with the output of `openssl`.

use aes::cipher::{InnerIvInit, KeyInit, KeyIvInit, StreamCipher, StreamCipherCoreWrapper};
use aes::{Aes256, Aes256Enc};

use crate::modular::Modulus;

/// Masks of the bootstrapping key, row `(i l + j)(k + 1) + c`: `[k][N]` words modulo q.
pub const DOMAIN_BOOTSTRAP: u32 = 1;
/// Masks of the key-switching key, row `i levels + j`: `[n]` torus words.
pub const DOMAIN_KEY_SWITCH: u32 = 2;
/// Random words for the representation of a loaded bootstrapping key, from a seed of the process. This domain is not
/// part of the format.
pub(crate) const DOMAIN_REPRESENTATION: u32 = 3;

/// Masks of seeded ciphertexts, row i: `[n]` torus words.
pub const DOMAIN_CIPHERTEXT: u32 = 3;
/// Masks of a row of a switching key for encrypted numbers (CKKS). Each row has its own seed; row i of the stream is
/// `[N]` words modulo the prime of index i.
pub const DOMAIN_SWITCHING_KEY: u32 = 4;

/// The mask of a public key for encrypted numbers; the rows of its stream are those of a switching key.
pub const DOMAIN_PUBLIC_KEY: u32 = 5;
/// The mask of a seeded ciphertext of arithmetic; the rows of its stream are those of a switching key.
pub const DOMAIN_NUMBERS: u32 = 6;

type Stream = ctr::Ctr32BE<Aes256>;

fn stream(seed: &[u8; 32], domain: u32, row: u64) -> Stream {
    Stream::new(seed.into(), &first_block(domain, row).into())
}

fn first_block(domain: u32, row: u64) -> [u8; 16] {
    let mut block = [0; 16];
    block[..4].copy_from_slice(&domain.to_be_bytes());
    block[4..12].copy_from_slice(&row.to_be_bytes());
    block
}

/// The streams of one seed and domain. The AES key schedule is computed once for all rows.
pub struct Rows {
    aes: Aes256Enc,
    domain: u32,
}

impl Rows {
    /// Makes the streams of this seed in this domain.
    pub fn of(seed: &[u8; 32], domain: u32) -> Rows {
        Rows { aes: Aes256Enc::new(seed.into()), domain }
    }

    /// Fills `out` with a row's torus words, like [`fill_torus`].
    pub fn fill_torus(&self, row: u64, out: &mut [u32]) {
        let block = first_block(self.domain, row);
        let core = ctr::CtrCore::<Aes256Enc, ctr::flavors::Ctr32BE>::inner_iv_init(self.aes.clone(), &block.into());
        let mut stream = StreamCipherCoreWrapper::from_core(core);
        stream.write_keystream(bytemuck::cast_slice_mut(out));
        out.iter_mut().for_each(|word| *word = u32::from_le(*word));
    }
}

/// Fills `out` with uniform torus words from the stream of a row.
pub fn fill_torus(seed: &[u8; 32], domain: u32, row: u64, out: &mut [u32]) {
    next_words(&mut stream(seed, domain, row), out);
}

/// Fills `out` with uniform words in `[0, q)`. A candidate is the lowest bits of a stream word, as many bits as `q`
/// has. Candidates at or above `q` are skipped.
pub fn fill_residues(seed: &[u8; 32], domain: u32, row: u64, modulus: Modulus, out: &mut [u32]) {
    let mask = (1 << modulus.bits()) - 1;
    let mut stream = stream(seed, domain, row);
    let mut filled = 0;
    while filled < out.len() {
        // fill the rest of `out` with new words; then move the accepted ones forward over the skipped ones
        let first = filled;
        next_words(&mut stream, &mut out[first..]);
        for at in first..out.len() {
            let word = out[at] & mask;
            if word < modulus.q() {
                out[filled] = word;
                filled += 1;
            }
        }
    }
}

/// Fills `out` with the next words of a key stream, read as little-endian.
pub(crate) fn next_words(stream: &mut impl StreamCipher, out: &mut [u32]) {
    let mut bytes = [0u8; 1024];
    for chunk in out.chunks_mut(bytes.len() / 4) {
        let bytes = &mut bytes[..4 * chunk.len()];
        bytes.fill(0);
        stream.apply_keystream(bytes);
        for (word, bytes) in chunk.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modular::tests::PRIMES;

    #[test]
    fn the_torus_stream_is_aes_256_ctr_of_the_documented_block() {
        // `openssl enc -aes-256-ctr -K 00..1f -iv 00000002 0000000000000007 00000000` over zero bytes
        let seed: [u8; 32] = std::array::from_fn(|i| i as u8);
        let mut words = [0; 4];
        fill_torus(&seed, DOMAIN_KEY_SWITCH, 7, &mut words);
        assert_eq!(words, EXPECTED);
    }
    const EXPECTED: [u32; 4] = [3_986_133_495, 2_456_527_948, 2_181_243_346, 1_278_840_587];

    #[test]
    fn the_rows_of_a_seed_are_the_streams_of_its_rows() {
        let (mut one, mut other) = ([0; 637], [1; 637]);
        for (domain, row) in [(DOMAIN_KEY_SWITCH, 7), (DOMAIN_CIPHERTEXT, 0), (DOMAIN_CIPHERTEXT, u64::MAX)] {
            fill_torus(&[3; 32], domain, row, &mut one);
            Rows::of(&[3; 32], domain).fill_torus(row, &mut other);
            assert_eq!(one, other, "domain {domain} row {row}");
        }
    }

    #[test]
    fn residues_are_in_range_and_do_not_depend_on_how_many_are_asked_for() {
        let seed = [9; 32];
        for modulus in PRIMES.map(Modulus::new) {
            let (mut few, mut many) = ([0; 10], vec![0; 300_000]);
            fill_residues(&seed, DOMAIN_BOOTSTRAP, 3, modulus, &mut few);
            fill_residues(&seed, DOMAIN_BOOTSTRAP, 3, modulus, &mut many);
            assert_eq!(few, many[..10]);
            assert!(many.iter().all(|&x| x < modulus.q()), "{modulus:?}");
            assert_ne!(many[..100], many[100..200], "{modulus:?}");
            // the words are uniform: each half of [0, q) has about half of them, within six standard deviations
            let expected = many.len() as f64 * f64::from(modulus.q() / 2) / f64::from(modulus.q());
            let low = many.iter().filter(|&&x| x < modulus.q() / 2).count() as f64;
            assert!((low - expected).abs() < 6.0 * (many.len() as f64 / 4.0).sqrt(), "{modulus:?}: {low}");
        }
    }
}
