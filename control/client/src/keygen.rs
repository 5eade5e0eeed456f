//! Makes the evaluation key of a secret key (docs/wire-format.md 4; meaning of rows at `kernels::tfhe::EvaluationKey`).
//!
//! Masks come from a public seed. Noise comes from another generator, which never uses that seed.

use chacha20::ChaCha20Rng;
use kernels::tfhe::keys::Masks;
use kernels::tfhe::{EvaluationKey, MODULUS, Params, RING_MODULUS, ring};
use kernels::xof;
use zeroize::Zeroizing;

use crate::gaussian;
use crate::secret_key::{SecretKey, secret_generator};

impl SecretKey {
    /// Makes the evaluation key, with which a server can compute. The key is seeded, and every call draws fresh masks
    /// and noise. A call takes about 0.2 s.
    pub fn evaluation_key(&self) -> EvaluationKey {
        let params = self.preset().params();
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).expect("randomness from the operating system");
        let mut rng = secret_generator();
        EvaluationKey {
            preset: self.preset(),
            params,
            fingerprint: Some(self.fingerprint()),
            masks: Masks::Ango(seed),
            bootstrap_bodies: bootstrap_bodies(self, &params, &seed, &mut rng),
            key_switch_bodies: key_switch_bodies(self, &params, &seed, &mut rng),
        }
    }
}

/// Bodies of the bootstrapping key, `[n][l][k + 1][N]`. The body of row (i, j, c) is `<mask, S> + noise - S_c s_i g_j`
/// for `c < k`, and `<mask, S> + noise + s_i g_j` for `c = k`.
///
/// The loops count the rows instead of cutting the bodies into chunks, because code that handles secrets has no
/// division (scripts/constant-time).
fn bootstrap_bodies(secret: &SecretKey, params: &Params, seed: &[u8; 32], rng: &mut ChaCha20Rng) -> Vec<u32> {
    let (n, k) = (params.polynomial_size, params.glwe_dimension);
    let ring = ring(n);
    // `plain` is the ring key as residues, `transformed` is the same key after the ring's transform
    let plain: Zeroizing<Vec<u32>> =
        Zeroizing::new(secret.glwe.iter().map(|&s| MODULUS.from_signed(s as i32)).collect());
    let mut transformed = plain.clone();
    for c in 0..k {
        ring.forward(&mut transformed[c * n..][..n]);
    }

    let gadget = params.bootstrap_gadget();
    let std = params.glwe_noise_std * RING_MODULUS as f64;
    let (mut mask, mut noise) = (vec![0; k * n], Zeroizing::new(vec![0; n]));
    let mut bodies = vec![0; params.bootstrap_body_words()];
    let mut row = 0;
    for &bit in &secret.lwe {
        for &unit in &gadget {
            for c in 0..=k {
                let body = &mut bodies[row * n..][..n];
                xof::fill_residues(seed, xof::DOMAIN_BOOTSTRAP, row as u64, MODULUS, &mut mask);
                for c in 0..k {
                    let mask = &mut mask[c * n..][..n];
                    ring.forward(mask);
                    ring.multiply_add(body, mask, &transformed[c * n..][..n]);
                }
                ring.inverse(body);
                gaussian::fill(rng, std, &mut noise);
                for (body, &noise) in body.iter_mut().zip(noise.iter()) {
                    *body = MODULUS.add(*body, MODULUS.from_signed(noise as i32));
                }
                let message = MODULUS.mul(bit as u32, unit);
                if c == k {
                    body[0] = MODULUS.add(body[0], message);
                } else {
                    for (body, &s) in body.iter_mut().zip(&plain[c * n..][..n]) {
                        *body = MODULUS.sub(*body, MODULUS.mul(message, s));
                    }
                }
                row += 1;
            }
        }
    }
    bodies
}

/// Bodies of the key switching key, `[kN][levels]`. The body of row (i, j) is `<mask, s> + noise + z_i round(2^32 /
/// D^j)`.
fn key_switch_bodies(secret: &SecretKey, params: &Params, seed: &[u8; 32], rng: &mut ChaCha20Rng) -> Vec<u32> {
    let gadget = params.key_switch_gadget();
    let std = params.lwe_noise_std * 32f64.exp2();
    let mut mask = vec![0; params.lwe_dimension];
    let mut noise = Zeroizing::new(vec![0; params.key_switch_body_words()]);
    gaussian::fill(rng, std, &mut noise);
    let mut bodies = Vec::with_capacity(params.key_switch_body_words());
    for &coefficient in &secret.glwe {
        for &unit in &gadget {
            let row = bodies.len();
            xof::fill_torus(seed, xof::DOMAIN_KEY_SWITCH, row as u64, &mut mask);
            let message = unit.wrapping_mul(coefficient as i32 as u32);
            bodies.push(secret.mask_product(&mask).wrapping_add(message).wrapping_add(noise[row] as u32));
        }
    }
    bodies
}
