//! Ciphertexts whose masks come from a seed. A bit takes 4 bytes instead of 4 (n + 1).

use crate::tfhe::lwe_list::LweList;

/// Size of a seed, in bytes.
pub const SEED_BYTES: usize = 32;

/// LWE ciphertexts of one seed (docs/wire-format.md 7). Mask `i` is row `i` of the seed's stream
/// ([`crate::xof::DOMAIN_CIPHERTEXT`]), and the list holds body `i`.
///
/// Seed and bodies are public. A seed must be used only once: if two ciphertexts share a mask, the difference of their
/// bodies shows whether their bits are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeededLweList {
    seed: [u8; SEED_BYTES],
    bodies: Vec<u32>,
}

impl SeededLweList {
    /// The ciphertexts with the masks of this seed and with these bodies, which are torus words.
    pub fn new(seed: [u8; SEED_BYTES], bodies: Vec<u32>) -> Self {
        Self { seed, bodies }
    }

    /// The seed of the masks.
    pub fn seed(&self) -> &[u8; SEED_BYTES] {
        &self.seed
    }

    /// The bodies, one torus word for each ciphertext.
    pub fn bodies(&self) -> &[u32] {
        &self.bodies
    }

    /// The number of ciphertexts.
    pub fn len(&self) -> usize {
        self.bodies.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.bodies.is_empty()
    }

    /// Expands the ciphertexts, of dimension n. This takes half a microsecond of CPU time for each ciphertext.
    pub fn expand(&self, lwe_dimension: usize) -> LweList {
        let mut list = LweList::with_capacity(lwe_dimension, self.len());
        list.append_seeded(&self.seed, &self.bodies);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xof;

    #[test]
    fn masks_are_the_rows_of_the_seeds_stream_and_bodies_follow_them() {
        let seeded = SeededLweList::new([7; 32], vec![10, 20, 30]);
        let list = seeded.expand(5);
        assert_eq!((list.len(), list.dimension(), seeded.len()), (3, 5, 3));
        for (row, words) in list.iter().enumerate() {
            let mut mask = [0; 5];
            xof::fill_torus(&[7; 32], xof::DOMAIN_CIPHERTEXT, row as u64, &mut mask);
            assert_eq!((&words[..5], words[5]), (&mask[..], 10 * (row as u32 + 1)));
        }
    }

    #[test]
    fn each_seed_begins_at_its_own_row_0() {
        let (one, two) = (SeededLweList::new([1; 32], vec![1, 2]), SeededLweList::new([2; 32], vec![3]));
        let mut list = one.expand(4);
        list.append_seeded(two.seed(), two.bodies());
        assert_eq!(list.rows(0..2), one.expand(4).words());
        assert_eq!(list.rows(2..3), two.expand(4).words());
    }
}
