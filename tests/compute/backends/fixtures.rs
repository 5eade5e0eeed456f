//! Keys and inputs of any shape, made of random words without a secret. Tests of equality need no secret.

use kernels::tfhe::keys::Masks;
use kernels::tfhe::masks::TfheRsSeed;
use kernels::tfhe::{EvaluationKey, ModSwitch, Params, ParamsLiteral, Preset, RING_MODULUS};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A shape that protects nothing: `n`, `k`, `N`, bootstrap base log and levels, key-switch base and levels.
#[derive(Clone, Copy)]
pub struct Shape(pub usize, pub usize, pub usize, pub usize, pub usize, pub u32, pub usize);

impl Shape {
    pub fn params(self) -> Params {
        let Shape(n, k, big_n, base_log, levels, key_switch_base, key_switch_levels) = self;
        let literal = ParamsLiteral {
            lwe_dimension: n,
            glwe_dimension: k,
            polynomial_size: big_n,
            bootstrap_base_log: base_log,
            bootstrap_level_count: levels,
            key_switch_base,
            key_switch_level_count: key_switch_levels,
            lwe_noise_std: 0.0,
            glwe_noise_std: 0.0,
            mod_switch: ModSwitch::Centred,
        };
        Params::try_from(literal).expect("a shape within the bounds of the kernels")
    }

    /// The shape as text, such as `n12-k1-N64-B8x2-D3x7`.
    pub fn name(self) -> String {
        let Shape(n, k, big_n, base_log, levels, key_switch_base, key_switch_levels) = self;
        format!("n{n}-k{k}-N{big_n}-B{base_log}x{levels}-D{key_switch_base}x{key_switch_levels}")
    }
}

/// The words of a key's bodies: random words, or the largest possible words, which bring lazily reduced sums closest to
/// their bounds.
#[derive(Clone, Copy, PartialEq)]
pub enum Bodies {
    Random,
    Largest,
}

/// A key with random masks, and with these bodies.
pub fn key(params: Params, bodies: Bodies, seed: u64) -> EvaluationKey {
    let mut rng = generator(seed);
    let mut words = |count: usize, largest: u32| -> Vec<u32> {
        (0..count)
            .map(|_| match bodies {
                Bodies::Random => (u64::from(rng.next_u32()) % (u64::from(largest) + 1)) as u32,
                Bodies::Largest => largest,
            })
            .collect()
    };
    EvaluationKey {
        // the preset does not matter, because the kernels read only `params`
        preset: Preset::Fast128,
        params,
        fingerprint: None,
        bootstrap_bodies: words(params.bootstrap_body_words(), RING_MODULUS - 1),
        key_switch_bodies: words(params.key_switch_body_words(), u32::MAX),
        masks: Masks::Ango([seed as u8; 32]),
    }
}

/// A key like [`key`], but with the masks, body words and modulus switch of a key from a tfhe-rs client.
pub fn imported_key(params: Params, seed: u64) -> EvaluationKey {
    let mut key = key(params.with_mod_switch(ModSwitch::Nearest), Bodies::Random, seed);
    let mut rng = generator(!seed);
    key.bootstrap_bodies.fill_with(|| rng.next_u32());
    let mut stream = |first_byte| TfheRsSeed { key: rng.next_u64().into(), first_byte };
    key.masks = Masks::TfheRs { bootstrap: stream(0), key_switch: stream(1) };
    key
}

/// `[rows][words]` torus words. The first rows have extreme words, whose exponents are 0, N and a 2N that wraps to 0;
/// the others are random.
pub fn torus_rows(rows: usize, words: usize, seed: u64) -> Vec<u32> {
    let mut rng = generator(seed);
    let mut out = Vec::with_capacity(rows * words);
    for row in 0..rows {
        out.extend((0..words).map(|at| match row {
            1 => 0,
            2 => u32::MAX,
            // words around half a turn give exponents below, at and above N
            3 => (1u32 << 31).wrapping_add((at as u32).wrapping_sub(6) << 22),
            _ => rng.next_u32(),
        }));
    }
    out
}

pub fn generator(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}
