//! The sparse secret of bootstrapping (Bossuat, Troncoso-Pastoriza, Hubaux, eprint 2022/024): a ternary polynomial with
//! few nonzero coefficients. The part of an evaluation key that switches to it and the part that switches from it are
//! useful only together, so the sparse secret follows from the secret key: every load of a key file gives the same one.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

/// Distinguishes the hash from other hashes of a secret key.
const LABEL: &[u8] = b"ango: sparse secret of bootstrapping, 1";

/// The sparse secret of the secret key with these coefficients, and the tag of the sparse secret. A ChaCha20 stream
/// makes both from a hash of the secret key, so neither says anything about the other or about the secret key.
pub fn sparse_secret_of(secret: &[i8], fingerprint: &[u8; 8], weight: usize) -> (Zeroizing<Vec<i8>>, u32) {
    let bytes: Zeroizing<Vec<u8>> = Zeroizing::new(secret.iter().map(|&s| s as u8).collect());
    let mut hash = Sha256::new().chain_update(LABEL).chain_update(fingerprint).chain_update(&*bytes);
    let mut seed: [u8; 32] = hash.finalize_reset().into();
    let mut rng = ChaCha20Rng::from_seed(seed);
    seed.zeroize();
    let sparse = sparse_secret(secret.len(), weight, &mut rng);
    // 0 means that a key has no tag
    (sparse, rng.next_u32() | 1)
}

/// A fresh sparse secret of `n` coefficients, `weight` of which are 1 or -1, uniform among such secrets to within
/// 2^-40.
///
/// Each step sets the `r`-th coefficient that is still 0, for a random `r`. The step passes over all coefficients to
/// find that one, so that no index depends on `r`.
#[inline(never)]
fn sparse_secret(n: usize, weight: usize, rng: &mut ChaCha20Rng) -> Zeroizing<Vec<i8>> {
    let mut secret = Zeroizing::new(vec![0i8; n]);
    for taken in 0..weight {
        // a random number below n - taken: the high half of a product, because a remainder would take varying time
        let rank = ((u128::from(rng.next_u64()) * (n - taken) as u128) >> 64) as u32;
        let sign = 1 - 2 * (rng.next_u32() & 1) as i8;
        let mut zeros = 0u32;
        for coefficient in secret.iter_mut() {
            let is_zero = 1 - (*coefficient * *coefficient) as u32;
            let hit = is_zero & is_equal(zeros, rank);
            // the chosen coefficient was 0 before, so OR sets it to the sign; all other coefficients keep their values
            *coefficient |= sign & (hit as i8).wrapping_neg();
            zeros += is_zero;
        }
    }
    secret
}

/// 1 if the numbers are equal, otherwise 0, without a branch.
fn is_equal(a: u32, b: u32) -> u32 {
    let difference = a ^ b;
    ((difference | difference.wrapping_neg()) >> 31) ^ 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret_key::secret_generator;

    #[test]
    fn a_secret_key_has_one_sparse_secret_and_other_keys_have_others() {
        let (a, b) = (vec![1i8; 64], vec![-1i8; 64]);
        assert_eq!(sparse_secret_of(&a, &[1; 8], 16), sparse_secret_of(&a, &[1; 8], 16));
        let all = [(&a, 1), (&b, 1), (&a, 2)].map(|(secret, name)| sparse_secret_of(secret, &[name; 8], 16));
        for at in 0..3 {
            assert!(all[at].1 != 0 && all[at] != all[(at + 1) % 3]);
            assert_ne!(all[at].1, all[(at + 1) % 3].1);
        }
    }

    #[test]
    fn it_has_its_weight_and_every_place_and_sign_is_as_likely() {
        let (n, weight, draws) = (64, 16, 4000);
        let mut counts = vec![[0u32; 2]; n];
        for _ in 0..draws {
            let secret = sparse_secret(n, weight, &mut secret_generator());
            assert_eq!(secret.iter().filter(|&&s| s != 0).count(), weight);
            for (count, &s) in counts.iter_mut().zip(secret.iter()) {
                count[0] += u32::from(s == 1);
                count[1] += u32::from(s == -1);
            }
        }
        // each count is expected to be 4000 * 16 / 64 / 2 = 500 with a standard deviation of 21; 7 deviations are
        // allowed on each side
        assert!(counts.iter().flatten().all(|count| (350..=650).contains(count)), "{counts:?}");
    }
}
