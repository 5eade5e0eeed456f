//! Keys made from a seed, so that a measurement can be repeated, with the properties of the key that the noise depends
//! on.
//!
//! The client draws its own randomness. `tests/vectors` checks that its noise has the documented size.

use client::SecretKey;
use kernels::container::{self, Tag};
use kernels::tfhe::keys::Masks;
use kernels::tfhe::masks::{TfheRsSeed, bootstrap_masks, key_switch_masks};
use kernels::tfhe::noise::{Secret, import_rounding};
use kernels::tfhe::{EvaluationKey, ModSwitch, Params, ParamsLiteral, Preset, RING_MODULUS, ring};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tests_compute::evaluation_key::{add_noise, draw, secrets, without_noise};

/// A secret key and its evaluation key.
pub struct Key {
    pub secret: SecretKey,
    pub evaluation: EvaluationKey,
    /// The key's parameters. As noise they have the root mean square of the errors that were drawn for this key.
    pub drawn: ParamsLiteral,
    /// The fraction of ones in the small key, and the mean square of the ring key's coefficients.
    pub of_secret: Secret,
}

/// A key in Ango's format.
pub fn ours(preset: Preset, seed: u64) -> Key {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let p = preset.params();
    let secret = secret(preset, &mut rng, |word| ((u64::from(word) * 3) >> 32) as i8 - 1);
    let mut masks = [0; 32];
    rng.fill_bytes(&mut masks);
    let mut evaluation = without_noise(&secret, masks);
    let [glwe_noise_std, lwe_noise_std] = add_noise(&mut evaluation, &mut || rng.next_u64());
    let drawn = ParamsLiteral { glwe_noise_std, lwe_noise_std, ..*p };
    Key { of_secret: measured(&secret), secret, evaluation, drawn }
}

/// A key like those of tfhe-rs for `fast_128`: binary secrets, all words on the 32-bit torus, and powers of two as
/// bases.
pub fn imported(seed: u64) -> Key {
    let preset = Preset::Fast128;
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let secret = secret(preset, &mut rng, |word| (word & 1) as i8);
    let (s, z) = secrets(&secret);
    let literal = ParamsLiteral {
        key_switch_base: 4,
        key_switch_level_count: 6,
        mod_switch: ModSwitch::Nearest,
        ..*preset.params()
    };
    let p = Params::try_from(literal).expect("a shape of tfhe-rs");
    let mut stream = || TfheRsSeed { key: rng.next_u64().into(), first_byte: 0 };
    let (bootstrap, key_switch) = (stream(), stream());
    let mut evaluation = EvaluationKey {
        preset,
        params: p,
        fingerprint: None,
        masks: Masks::TfheRs { bootstrap, key_switch },
        bootstrap_bodies: Vec::with_capacity(p.bootstrap_body_words()),
        key_switch_bodies: Vec::with_capacity(p.key_switch_body_words()),
    };

    let (n, k, l) = (p.polynomial_size, p.glwe_dimension, p.bootstrap_level_count);
    let mut masks = vec![0; p.rgsw_rows() * k * n];
    for (i, &bit) in s.iter().enumerate() {
        bootstrap_masks(bootstrap, &p, i, &mut masks);
        for (row, mask) in masks.chunks_exact(k * n).enumerate() {
            let (level, c) = (row / (k + 1) + 1, row % (k + 1));
            let mut body = torus_product(mask, &z, n);
            let message = (bit as u32) << (32 - p.bootstrap_base_log * level);
            match z.chunks_exact(n).nth(c) {
                None => body[0] = body[0].wrapping_add(message),
                Some(polynomial) => body
                    .iter_mut()
                    .zip(polynomial)
                    .for_each(|(body, &z)| *body = body.wrapping_sub(message.wrapping_mul(z as u32))),
            }
            evaluation.bootstrap_bodies.extend(body);
        }
    }
    assert_eq!(evaluation.bootstrap_bodies.len(), s.len() * l * (k + 1) * n);
    let mut masks = vec![0; p.key_switch_level_count * s.len()];
    for (i, &z) in z.iter().enumerate() {
        key_switch_masks(key_switch, &p, i, &mut masks);
        for (mask, level) in masks.chunks_exact(s.len()).zip(1..) {
            let product = mask.iter().zip(&s).fold(0u32, |sum, (&a, &s)| sum.wrapping_add(a * s as u32));
            evaluation.key_switch_bodies.push(product.wrapping_add((z as u32) << (32 - 2 * level)));
        }
    }

    let mut add = |std: f64, bodies: &mut [u32]| {
        let rms = draw(&mut || rng.next_u64(), std * 32f64.exp2(), bodies.len(), |at, error| {
            bodies[at] = bodies[at].wrapping_add(error as u32);
        });
        rms / 32f64.exp2()
    };
    let of_secret = measured(&secret);
    let ring_rms = add(p.glwe_noise_std, &mut evaluation.bootstrap_bodies);
    let lwe_noise_std = add(p.lwe_noise_std, &mut evaluation.key_switch_bodies);
    let glwe_noise_std = (ring_rms.powi(2) + import_rounding(&p, of_secret)).sqrt();
    Key { secret, evaluation, drawn: ParamsLiteral { glwe_noise_std, lwe_noise_std, ..*p }, of_secret }
}

fn secret(preset: Preset, rng: &mut ChaCha20Rng, coefficient: impl Fn(u32) -> i8) -> SecretKey {
    let p = preset.params();
    let bytes = container::frame(Tag::SecretKey, preset, Some([1; 8]), |out| {
        out.extend((0..p.lwe_dimension).map(|_| (rng.next_u32() & 1) as u8));
        out.extend((0..p.extracted_dimension()).map(|_| coefficient(rng.next_u32()) as u8));
    });
    SecretKey::from_bytes(&bytes).expect("a secret key")
}

fn measured(secret: &SecretKey) -> Secret {
    let (s, z) = secrets(secret);
    let mean = |numbers: &[i64]| numbers.iter().map(|x| x * x).sum::<i64>() as f64 / numbers.len() as f64;
    Secret { ones: mean(&s), ring_square: mean(&z) }
}

/// `A_0 S_0 + .. + A_(k-1) S_(k-1)` modulo `X^N + 1` and `2^32` for binary `S`. The words are split into halves, so
/// that sums stay below q / 2.
fn torus_product(mask: &[u32], key: &[i64], n: usize) -> Vec<u32> {
    let ring = ring(n);
    let half = |shift: u32| {
        let mut product = vec![0; n];
        for (mask, key) in mask.chunks_exact(n).zip(key.chunks_exact(n)) {
            let mut mask: Vec<u32> = mask.iter().map(|word| word >> shift & 0xffff).collect();
            let mut key: Vec<u32> = key.iter().map(|&z| z as u32).collect();
            ring.forward(&mut mask);
            ring.forward(&mut key);
            ring.multiply_add(&mut product, &mask, &key);
        }
        ring.inverse(&mut product);
        product
    };
    let signed = |x: u32| if x > RING_MODULUS / 2 { x.wrapping_sub(RING_MODULUS) } else { x };
    let halves = half(16).into_iter().zip(half(0));
    halves.map(|(high, low)| (signed(high) << 16).wrapping_add(signed(low))).collect()
}
