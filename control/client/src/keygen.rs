//! The evaluation key of a secret key (docs/wire-format.md 4; row meanings at `kernels::tfhe::EvaluationKey`).
//!
//! Masks come from a public seed of their own, noise from a generator that never touches the seed.

use chacha20::ChaCha20Rng;
use kernels::modular::{self, RING_MODULUS};
use kernels::ring::Ring;
use kernels::tfhe::keys::Masks;
use kernels::tfhe::{EvaluationKey, Params};
use kernels::xof;
use zeroize::Zeroizing;

use crate::gaussian;
use crate::secret_key::{SecretKey, secret_generator};

pub fn evaluation_key(secret: &SecretKey) -> EvaluationKey {
    let params = secret.preset().params();
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).expect("randomness from the operating system");
    let mut rng = secret_generator();
    EvaluationKey {
        preset: secret.preset(),
        params,
        fingerprint: Some(secret.fingerprint()),
        masks: Masks::Ango(seed),
        bootstrap_bodies: bootstrap_bodies(secret, &params, &seed, &mut rng),
        key_switch_bodies: key_switch_bodies(secret, &params, &seed, &mut rng),
    }
}

/// `[n][l][k + 1][N]`: body of row (i, j, c) = `<mask, S> + noise - S_c s_i g_j` (`c < k`), `.. + s_i g_j` (`c = k`).
fn bootstrap_bodies(secret: &SecretKey, params: &Params, seed: &[u8; 32], rng: &mut ChaCha20Rng) -> Vec<u32> {
    let (n, k) = (params.polynomial_size, params.glwe_dimension);
    let ring = Ring::of(n);
    // the ring key as residues, and transformed
    let plain: Zeroizing<Vec<u32>> =
        Zeroizing::new(secret.glwe.iter().map(|&s| modular::from_signed(s as i32)).collect());
    let mut transformed = plain.clone();
    transformed.chunks_exact_mut(n).for_each(|row| ring.forward(row));

    let gadget: Vec<u32> = (1..=params.bootstrap_level_count)
        .map(|j| {
            let unit = 1u64 << (params.bootstrap_base_log * j);
            ((RING_MODULUS as u64 + unit / 2) / unit) as u32
        })
        .collect();
    let std = params.glwe_noise_std * RING_MODULUS as f64;
    let (mut mask, mut noise) = (vec![0; k * n], Zeroizing::new(vec![0; n]));
    let mut bodies = vec![0; params.bootstrap_body_words()];
    for (row, body) in bodies.chunks_exact_mut(n).enumerate() {
        let (i, j, c) = (row / params.rgsw_rows(), row / (k + 1) % params.bootstrap_level_count, row % (k + 1));
        xof::fill_residues(seed, xof::DOMAIN_BOOTSTRAP, row as u64, &mut mask);
        for (mask, key) in mask.chunks_exact_mut(n).zip(transformed.chunks_exact(n)) {
            ring.forward(mask);
            ring.multiply_add(body, mask, key);
        }
        ring.inverse(body);
        gaussian::fill(rng, std, &mut noise);
        for (body, &noise) in body.iter_mut().zip(noise.iter()) {
            *body = modular::add(*body, modular::from_signed(noise as i32));
        }
        let message = modular::mul(secret.lwe[i] as u32, gadget[j]);
        if c == k {
            body[0] = modular::add(body[0], message);
        } else {
            for (body, &s) in body.iter_mut().zip(&plain[c * n..][..n]) {
                *body = modular::sub(*body, modular::mul(message, s));
            }
        }
    }
    bodies
}

/// `[kN][levels]`: body of row (i, j) = `<mask, s> + noise + z_i round(2^32 / D^j)`.
fn key_switch_bodies(secret: &SecretKey, params: &Params, seed: &[u8; 32], rng: &mut ChaCha20Rng) -> Vec<u32> {
    let levels = params.key_switch_level_count;
    let std = params.lwe_noise_std * 32f64.exp2();
    let mut mask = vec![0; params.lwe_dimension];
    let mut noise = Zeroizing::new(vec![0; params.key_switch_body_words()]);
    gaussian::fill(rng, std, &mut noise);
    let body = |row: usize| {
        xof::fill_torus(seed, xof::DOMAIN_KEY_SWITCH, row as u64, &mut mask);
        let unit = (params.key_switch_base as u64).pow((row % levels) as u32 + 1);
        let gadget = (((1u64 << 32) + unit / 2) / unit) as u32;
        let message = gadget.wrapping_mul(secret.glwe[row / levels] as i32 as u32);
        secret.mask_product(&mask).wrapping_add(message).wrapping_add(noise[row] as u32)
    };
    (0..params.key_switch_body_words()).map(body).collect()
}
