//! The evaluation key: the public key material with which a server computes on bits that it cannot read.

use zeroize::Zeroize;

use super::masks::{self, TfheRsSeed};
use super::params::{Params, Preset};
use crate::tfhe::params::MODULUS;
use crate::tfhe::torus::from_torus;
use crate::xof;

/// The source of a key's masks. The seed is public and replaces uniform words, so these words are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masks {
    /// Ango's format: words modulo the ring prime (bootstrap) and on the 32-bit torus (key switch), masks from
    /// [`crate::xof`] under this seed.
    Ango([u8; 32]),
    /// A `CompressedServerKey` of tfhe-rs: every word on the 32-bit torus, power-of-two bases, masks from tfhe-rs's
    /// AES-CTR generator under these two seeds ([`super::masks`]).
    TfheRs {
        /// Seed of the bootstrapping key's masks.
        bootstrap: TfheRsSeed,
        /// Seed of the key-switching key's masks.
        key_switch: TfheRsSeed,
    },
}

/// Public key material of one gate key in its stored and wire form: seeded, bodies only.
///
/// Row `(i, j, c)` of the bootstrapping key is an RLWE encryption, under the ring key, of `-S_c s_i g_j` (`c < k`) or
/// `s_i g_j` (`c = k`), with `g_j = round(q / B^j)` and j = 1..l. Row `(i, j)` of the key-switching key is an LWE
/// encryption of `z_i * round(2^32 / D^j)`, where z are the coefficients of the ring key and D is the base of the key
/// switch (docs/wire-format.md 4). Overwritten on drop.
#[derive(Clone, PartialEq)]
pub struct EvaluationKey {
    /// The preset whose dimensions the key has.
    pub preset: Preset,
    /// Dimensions, bases and levels: those of the preset, except for the bases and levels of an imported key.
    pub params: Params,
    /// Random fingerprint that the key shares with its ciphertexts. If a ciphertext has a different fingerprint, the
    /// ciphertext belongs to another key (readings G11).
    pub fingerprint: Option<[u8; 8]>,
    /// The source of the masks.
    pub masks: Masks,
    /// `[n][l][k + 1][N]` words, level 1 first.
    pub bootstrap_bodies: Vec<u32>,
    /// `[kN][levels]` words, level 1 first.
    pub key_switch_bodies: Vec<u32>,
}

impl std::fmt::Debug for EvaluationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EvaluationKey").field("preset", &self.preset).finish_non_exhaustive()
    }
}

impl EvaluationKey {
    /// Whether another library made the key. If so, only the maker of the key knows its noise and secrets, and
    /// therefore its security.
    pub fn is_imported(&self) -> bool {
        matches!(self.masks, Masks::TfheRs { .. })
    }

    /// Size of this key in host memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        4 * (self.bootstrap_bodies.len() + self.key_switch_bodies.len())
    }

    /// Expands the RGSW ciphertext of key bit `i`: `[l][k + 1][k + 1][N]` words in `[0, q)`. Each row has the mask
    /// polynomials, then the body. Words of an imported key are rounded from the torus to q.
    ///
    /// # Panics
    /// When `out` has another length or `i` is not below n.
    pub fn expand_bootstrap(&self, i: usize, out: &mut [u32]) {
        let p = &self.params;
        let (n, k, rows) = (p.polynomial_size, p.glwe_dimension, p.rgsw_rows());
        assert_eq!(out.len(), rows * (k + 1) * n);
        let bodies = &self.bootstrap_bodies[i * rows * n..][..rows * n];
        let rows_out = out.chunks_exact_mut((k + 1) * n).zip(bodies.chunks_exact(n));
        match self.masks {
            Masks::Ango(seed) => {
                for (row, (out, body)) in rows_out.enumerate() {
                    let (mask, out) = out.split_at_mut(k * n);
                    xof::fill_residues(&seed, xof::DOMAIN_BOOTSTRAP, (i * rows + row) as u64, MODULUS, mask);
                    out.copy_from_slice(body);
                }
            }
            Masks::TfheRs { bootstrap, .. } => {
                let mut masks = vec![0; rows * k * n];
                masks::bootstrap_masks(bootstrap, p, i, &mut masks);
                for ((out, body), mask) in rows_out.zip(masks.chunks_exact(k * n)) {
                    for (out, &word) in out.iter_mut().zip(mask.iter().chain(body)) {
                        *out = from_torus(word);
                    }
                }
            }
        }
    }

    /// Expands the key-switching rows of input coefficient `i`: `[levels][n + 1]` torus words.
    ///
    /// # Panics
    /// When `out` has another length or `i` is not below kN.
    pub fn expand_key_switch(&self, i: usize, out: &mut [u32]) {
        let p = &self.params;
        let (n, levels) = (p.lwe_dimension, p.key_switch_level_count);
        assert_eq!(out.len(), levels * (n + 1));
        let bodies = &self.key_switch_bodies[i * levels..][..levels];
        let rows = out.chunks_exact_mut(n + 1).zip(bodies).enumerate();
        match self.masks {
            Masks::Ango(seed) => {
                for (j, (row, &body)) in rows {
                    let row_index = (i * levels + j) as u64;
                    xof::fill_torus(&seed, xof::DOMAIN_KEY_SWITCH, row_index, &mut row[..n]);
                    row[n] = body;
                }
            }
            Masks::TfheRs { key_switch, .. } => {
                let mut masks = vec![0; levels * n];
                masks::key_switch_masks(key_switch, p, i, &mut masks);
                for (j, (row, &body)) in rows {
                    row[..n].copy_from_slice(&masks[j * n..][..n]);
                    row[n] = body;
                }
            }
        }
    }
}

impl Drop for EvaluationKey {
    fn drop(&mut self) {
        self.bootstrap_bodies.zeroize();
        self.key_switch_bodies.zeroize();
    }
}
