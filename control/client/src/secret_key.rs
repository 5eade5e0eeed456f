//! The secret of a gate key: binary for bits, ternary for the ring.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use kernels::container::{self, Tag};
use kernels::tfhe::lwe::EIGHTH;
use kernels::tfhe::seeded::SEED_BYTES;
use kernels::tfhe::{Lwe, Preset, SeededLweList};
use kernels::xof::{self, Rows};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::gaussian;

/// The secret of one gate key. The secret key encrypts and decrypts bits, and makes the evaluation key. Overwritten on
/// drop.
#[derive(Clone, ZeroizeOnDrop)]
pub struct SecretKey {
    #[zeroize(skip)]
    preset: Preset,
    #[zeroize(skip)]
    fingerprint: [u8; 8],
    /// `[n]`, each 0 or 1.
    pub(crate) lwe: Vec<u8>,
    /// `[k][N]`, each -1, 0 or 1.
    pub(crate) glwe: Vec<i8>,
}

/// First compares the presets and fingerprints, which are public. If they are equal, compares the secrets in constant
/// time.
impl PartialEq for SecretKey {
    fn eq(&self, other: &SecretKey) -> bool {
        let public = self.preset == other.preset && self.fingerprint == other.fingerprint;
        public && (self.lwe.ct_eq(&other.lwe) & self.glwe.ct_eq(&other.glwe)).into()
    }
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretKey").field("preset", &self.preset).finish_non_exhaustive()
    }
}

/// A generator for secrets and noise, seeded by the operating system. Overwritten on drop, because its state determines
/// the key.
///
/// # Panics
/// When the operating system gives no random bytes, because no safe alternative exists.
pub(crate) fn secret_generator() -> ChaCha20Rng {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed).expect("randomness from the operating system");
    ChaCha20Rng::from_seed(*seed)
}

/// Maps a uniform random word to -1, 0 or 1, uniform to within 2^-32. Rejection sampling would take varying time.
pub(crate) fn ternary(word: u32) -> i8 {
    ((word as u64 * 3) >> 32) as i8 - 1
}

/// Whether all coefficients are -1, 0 or 1. Looks at all of them before it branches.
pub(crate) fn are_ternary(coefficients: &[i8]) -> bool {
    // sets a bit only if s + 1 is not 0, 1 or 2: the first term has the bits above the lowest two, and the second term
    // is 1 if the lowest two bits are both 1
    let excess = coefficients.iter().fold(0, |excess, &s| {
        let shifted = (s as u8).wrapping_add(1);
        excess | shifted >> 2 | (shifted >> 1 & shifted & 1)
    });
    excess == 0
}

impl SecretKey {
    /// A fresh key.
    pub fn generate(preset: Preset) -> SecretKey {
        SecretKey::generate_from(preset, &mut secret_generator())
    }

    /// A fresh key from the output of `rng`.
    pub(crate) fn generate_from(preset: Preset, rng: &mut ChaCha20Rng) -> SecretKey {
        let params = preset.params();
        let lwe = (0..params.lwe_dimension).map(|_| (rng.next_u32() & 1) as u8).collect();
        let glwe = (0..params.extracted_dimension()).map(|_| ternary(rng.next_u32())).collect();
        let mut fingerprint = [0; 8];
        getrandom::fill(&mut fingerprint).expect("randomness from the operating system");
        fingerprint[0] |= 1; // all zeros would mean "no fingerprint"
        SecretKey { preset, fingerprint, lwe, glwe }
    }

    /// The preset of the key.
    pub fn preset(&self) -> Preset {
        self.preset
    }

    /// The random name that this key, its evaluation key and its ciphertexts share.
    pub fn fingerprint(&self) -> [u8; 8] {
        self.fingerprint
    }

    /// A fresh encryption of a bit.
    pub fn encrypt(&self, bit: bool) -> Lwe {
        let mut rng = secret_generator();
        let mut noise = [0];
        gaussian::fill(&mut rng, self.preset.params().lwe_noise_std * 32f64.exp2(), &mut noise);
        let mut mask = vec![0u8; 4 * self.lwe.len()];
        getrandom::fill(&mut mask).expect("randomness from the operating system");
        let mut words: Vec<u32> =
            mask.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect();
        words.push(self.body(&words, bit, noise[0]));
        noise.zeroize();
        Lwe::new(words)
    }

    /// Fresh encryptions of bits. Their masks are made from one fresh seed, so that a bit takes 4 bytes to send.
    ///
    /// The seed is public and comes directly from the operating system; noise comes from another generator. A seed must
    /// be used only once (docs/wire-format.md 7), so the caller cannot choose the seed.
    pub fn encrypt_seeded(&self, bits: &[bool]) -> SeededLweList {
        let mut seed = [0; SEED_BYTES];
        getrandom::fill(&mut seed).expect("randomness from the operating system");
        let mut noise = Zeroizing::new(vec![0; bits.len()]);
        let std = self.preset.params().lwe_noise_std * 32f64.exp2();
        gaussian::fill(&mut secret_generator(), std, &mut noise);
        let rows = Rows::of(&seed, xof::DOMAIN_CIPHERTEXT);
        let mut mask = vec![0; self.lwe.len()];
        let body = |(row, (&bit, &noise)): (usize, (&bool, &i64))| {
            rows.fill_torus(row as u64, &mut mask);
            self.body(&mask, bit, noise)
        };
        SeededLweList::new(seed, bits.iter().zip(noise.iter()).enumerate().map(body).collect())
    }

    /// The body `<a, s> + m + e` modulo 2^32, without a branch on the bit.
    fn body(&self, mask: &[u32], bit: bool, noise: i64) -> u32 {
        let message = EIGHTH.wrapping_mul(2 * bit as u32).wrapping_sub(EIGHTH);
        self.mask_product(mask).wrapping_add(message).wrapping_add(noise as u32)
    }

    /// Decrypts a ciphertext: the bit is the sign of the phase.
    ///
    /// # Panics
    /// When the ciphertext has another dimension.
    pub fn decrypt(&self, ciphertext: &Lwe) -> bool {
        (self.phase(ciphertext) as i32) >= 0
    }

    /// The phase `b - <a, s>` on the 32-bit torus: `+-2^29` plus the noise. For tests of the noise.
    ///
    /// # Panics
    /// When the ciphertext has another dimension.
    pub fn phase(&self, ciphertext: &Lwe) -> u32 {
        assert_eq!(ciphertext.dimension(), self.lwe.len(), "a ciphertext of another preset");
        let (body, mask) = ciphertext.words().split_last().expect("a ciphertext has a body");
        body.wrapping_sub(self.mask_product(mask))
    }

    /// The phase of a sample, `[kN + 1]` words, under the ring key. For tests of the noise.
    ///
    /// # Panics
    /// When the sample has another dimension.
    pub fn extracted_phase(&self, sample: &[u32]) -> u32 {
        assert_eq!(sample.len(), self.glwe.len() + 1, "a sample of another preset");
        let (body, mask) = sample.split_last().expect("a sample has a body");
        mask.iter().zip(&self.glwe).fold(*body, |sum, (&a, &s)| sum.wrapping_sub(a.wrapping_mul(s as i32 as u32)))
    }

    /// `<a, s>` modulo 2^32, without a branch on the key's bits.
    pub(crate) fn mask_product(&self, mask: &[u32]) -> u32 {
        mask.iter().zip(&self.lwe).fold(0u32, |sum, (&a, &s)| sum.wrapping_add(a & (s as u32).wrapping_neg()))
    }

    /// The key in Ango's container (docs/wire-format.md 3).
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let len = self.lwe.len() + self.glwe.len();
        Zeroizing::new(container::frame(Tag::SecretKey, self.preset, Some(self.fingerprint), |out| {
            out.reserve_exact(len);
            out.extend(&self.lwe);
            out.extend(self.glwe.iter().map(|&s| s as u8));
        }))
    }

    /// Reads a key in Ango's container.
    ///
    /// # Errors
    /// When the bytes are not an intact container of a secret key.
    pub fn from_bytes(bytes: &[u8]) -> Result<SecretKey, container::Error> {
        let malformed = |why: &str| container::Error::Malformed(why.into());
        let (header, payload) = container::unframe(bytes, Tag::SecretKey)?;
        let params = header.preset.params();
        if payload.len() != params.lwe_dimension + params.extracted_dimension() {
            return Err(malformed("the secret key does not have the length that its preset requires"));
        }
        let (lwe, glwe) = payload.split_at(params.lwe_dimension);
        let key = SecretKey {
            preset: header.preset,
            fingerprint: header.fingerprint.ok_or_else(|| malformed("a secret key has a fingerprint"))?,
            lwe: lwe.to_vec(),
            glwe: glwe.iter().map(|&s| s as i8).collect(),
        };
        // OR together the bits above bit 0 of all coefficients, and branch only on the result, so that no branch
        // depends on a single coefficient
        let lwe_excess = key.lwe.iter().fold(0, |excess, &s| excess | s >> 1);
        if lwe_excess != 0 || !are_ternary(&key.glwe) {
            return Err(malformed("a coefficient of the secret key is out of range"));
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_survive_encryption_under_every_preset() {
        for preset in Preset::ALL {
            let key = SecretKey::generate(preset);
            for i in 0..64 {
                assert_eq!(key.decrypt(&key.encrypt(i % 3 == 0)), i % 3 == 0);
            }
        }
    }

    #[test]
    fn seeded_bits_survive_encryption_under_every_preset() {
        for preset in Preset::ALL {
            let key = SecretKey::generate(preset);
            let bits: Vec<bool> = (0..64).map(|i| i % 3 == 0).collect();
            let list = key.encrypt_seeded(&bits).expand(preset.params().lwe_dimension);
            let noise = |lwe: &Lwe| (key.phase(lwe) as i32).unsigned_abs().abs_diff(EIGHTH);
            assert!(list.to_lwes().iter().any(|lwe| noise(lwe) > 0), "there is noise");
            assert!(list.to_lwes().iter().all(|lwe| noise(lwe) < EIGHTH / 2), "and not too much");
            assert_eq!(list.to_lwes().iter().map(|lwe| key.decrypt(lwe)).collect::<Vec<_>>(), bits);
        }
    }

    #[test]
    fn every_call_has_a_fresh_seed_and_fresh_noise() {
        let key = SecretKey::generate(Preset::Fast128);
        let [one, two] = [(); 2].map(|()| key.encrypt_seeded(&[true; 4]));
        assert_ne!(one.seed(), two.seed());
        let phases = one.expand(636).to_lwes().iter().map(|lwe| key.phase(lwe)).collect::<Vec<_>>();
        assert!(phases.iter().enumerate().all(|(at, phase)| !phases[..at].contains(phase)), "{phases:?}");
    }

    #[test]
    fn a_secret_key_survives_its_container_and_damage_does_not() {
        let key = SecretKey::generate(Preset::Fast128);
        let bytes = key.to_bytes();
        assert_eq!(SecretKey::from_bytes(&bytes), Ok(key));
        for at in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 4;
            assert!(SecretKey::from_bytes(&damaged).is_err(), "byte {at}");
            assert!(SecretKey::from_bytes(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn what_secrets_are_drawn_from_is_overwritten_like_the_secrets() {
        fn overwritten<T: ZeroizeOnDrop>() {}
        overwritten::<SecretKey>();
        overwritten::<ChaCha20Rng>();
    }

    #[test]
    fn debug_output_holds_no_secret() {
        assert_eq!(format!("{:?}", SecretKey::generate(Preset::Fast128)), "SecretKey { preset: Fast128, .. }");
    }
}
