//! Evaluation keys as docs/wire-format.md 4 defines them, but without noise. A client cannot make such keys, because it
//! always draws noise.

use std::f64::consts::TAU;

use client::SecretKey;
use kernels::container::{self, Tag};
use kernels::tfhe::keys::Masks;
use kernels::tfhe::{EvaluationKey, MODULUS, Params, Preset, RING_MODULUS, ring};
use kernels::xof;

/// A key whose bodies are exactly the mask times the secret plus the message. `seed` gives the masks.
pub fn without_noise(secret: &SecretKey, seed: [u8; 32]) -> EvaluationKey {
    let (s, z) = secrets(secret);
    let mut key = of_secrets(&secret.preset().params(), &s, &z, seed);
    key.preset = secret.preset();
    key.fingerprint = Some(secret.fingerprint());
    key
}

/// Like [`without_noise`], but for any parameters, and from the secrets `s`, `[n]`, and `z`, `[kN]`. The key has the
/// shape of `p`, although its field `preset` is `fast_128`.
pub fn of_secrets(p: &Params, s: &[i64], z: &[i64], seed: [u8; 32]) -> EvaluationKey {
    EvaluationKey {
        preset: Preset::Fast128,
        params: *p,
        fingerprint: None,
        masks: Masks::Ango(seed),
        bootstrap_bodies: (0..p.lwe_dimension * p.rgsw_rows())
            .flat_map(|row| {
                let (k, l) = (p.glwe_dimension, p.bootstrap_level_count);
                let (i, level, c) = (row / (l * (k + 1)), row / (k + 1) % l + 1, row % (k + 1));
                let mut body = ring_mask_product(&seed, row, z, p.polynomial_size);
                let gadget = rounded(RING_MODULUS.into(), 1 << (p.bootstrap_base_log * level)) as i64 * s[i];
                if c == k {
                    body[0] = residue(i64::from(body[0]) + gadget);
                } else {
                    for (body, &key) in body.iter_mut().zip(&z[c * p.polynomial_size..]) {
                        *body = residue(i64::from(*body) - gadget * key);
                    }
                }
                body
            })
            .collect(),
        key_switch_bodies: (0..p.key_switch_body_words())
            .map(|row| {
                let (i, level) = (row / p.key_switch_level_count, row % p.key_switch_level_count + 1);
                let mut mask = vec![0; p.lwe_dimension];
                xof::fill_torus(&seed, xof::DOMAIN_KEY_SWITCH, row as u64, &mut mask);
                let product: i64 = mask.iter().zip(s).map(|(&a, s)| i64::from(a) * s).sum();
                let gadget = rounded(1 << 32, u64::from(p.key_switch_base).pow(level as u32)) as i64;
                (product + gadget * z[i]) as u32
            })
            .collect(),
    }
}

/// Adds rounded Gaussian errors to all bodies of a key, with the deviations in its parameters. Returns the root mean
/// squares of the errors drawn for the bootstrapping key and for the key-switching key, in this order.
pub fn add_noise(key: &mut EvaluationKey, random: &mut impl FnMut() -> u64) -> [f64; 2] {
    let p = key.params;
    let ring_std = p.glwe_noise_std * f64::from(RING_MODULUS);
    let ring_rms = draw(random, ring_std, key.bootstrap_bodies.len(), |at, error| {
        let body = &mut key.bootstrap_bodies[at];
        *body = MODULUS.add(*body, MODULUS.from_signed(error));
    });
    let lwe_rms = draw(random, p.lwe_noise_std * 32f64.exp2(), key.key_switch_bodies.len(), |at, error| {
        let body = &mut key.key_switch_bodies[at];
        *body = body.wrapping_add(error as u32);
    });
    [ring_rms / f64::from(RING_MODULUS), lwe_rms / 32f64.exp2()]
}

/// Draws `count` rounded Gaussian errors and passes each to `add`. Returns their root mean square.
pub fn draw(random: &mut impl FnMut() -> u64, std: f64, count: usize, mut add: impl FnMut(usize, i32)) -> f64 {
    let mut squares = 0.0;
    let mut uniform = || (random() >> 11) as f64 * (-53f64).exp2();
    for at in (0..count).step_by(2) {
        let (radius, angle) = ((-2.0 * (1.0 - uniform()).ln()).sqrt() * std, uniform() * TAU);
        for (at, error) in [(at, radius * angle.cos()), (at + 1, radius * angle.sin())] {
            if at < count {
                squares += error.round().powi(2);
                add(at, error.round() as i32);
            }
        }
    }
    (squares / count as f64).sqrt()
}

/// The secrets `s`, `[n]`, and `z`, `[kN]`, read from the secret key's container.
pub fn secrets(secret: &SecretKey) -> (Vec<i64>, Vec<i64>) {
    let bytes = secret.to_bytes();
    let (_, payload) = container::unframe(&bytes, Tag::SecretKey).expect("the container of a secret key");
    let mut s: Vec<i64> = payload.iter().map(|&byte| i64::from(byte as i8)).collect();
    let z = s.split_off(secret.preset().params().lwe_dimension);
    (s, z)
}

/// The sum `A_0 S_0 + .. + A_(k-1) S_(k-1)` of a bootstrapping row, computed with the plain transform.
fn ring_mask_product(seed: &[u8; 32], row: usize, z: &[i64], n: usize) -> Vec<u32> {
    let ring = ring(n);
    let mut mask = vec![0; z.len()];
    xof::fill_residues(seed, xof::DOMAIN_BOOTSTRAP, row as u64, MODULUS, &mut mask);
    let mut product = vec![0; n];
    for (mask, key) in mask.chunks_exact_mut(n).zip(z.chunks_exact(n)) {
        let mut key: Vec<u32> = key.iter().map(|&key| residue(key)).collect();
        ring.forward(mask);
        ring.forward(&mut key);
        ring.multiply_add(&mut product, mask, &key);
    }
    ring.inverse(&mut product);
    product
}

fn residue(x: i64) -> u32 {
    x.rem_euclid(RING_MODULUS.into()) as u32
}

/// `round(a / b)`.
fn rounded(a: u64, b: u64) -> u64 {
    (2 * a + b) / (2 * b)
}
