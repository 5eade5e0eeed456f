//! The evaluation key of a known answer, with noise by a formula. Neither client can make such a key, because both draw
//! their noise.

use client::SecretKey;
use kernels::tfhe::{EvaluationKey, MODULUS};
use tests_compute::evaluation_key::without_noise;

use crate::answers::KeyAnswers;
use crate::unbase64;

/// Bits of the formula's noise in `make_vectors.py`, for bootstrapping and key-switching bodies.
const NOISE_BITS: [u32; 2] = [6, 19];

/// The key of a known answer. The noise of body word w is the top bits of `w * 2654435761`, centred on 0.
pub fn of_answers(answers: &KeyAnswers) -> EvaluationKey {
    let secret = SecretKey::from_bytes(&unbase64(&answers.secret_key)).expect("a secret key");
    let mut key = without_noise(&secret, answers.seed);
    key.params = key.params.with_mod_switch(answers.mod_switch());
    let noise = |at: usize, bits: u32| {
        let word = (at as u32).wrapping_mul(2_654_435_761);
        (word >> (32 - bits)) as i32 - (1 << (bits - 1))
    };
    for (at, word) in key.bootstrap_bodies.iter_mut().enumerate() {
        *word = MODULUS.add(*word, MODULUS.from_signed(noise(at, NOISE_BITS[0])));
    }
    for (at, word) in key.key_switch_bodies.iter_mut().enumerate() {
        *word = word.wrapping_add(noise(at, NOISE_BITS[1]) as u32);
    }
    key
}
