//! Errors of each stage: the difference of a phase from its exact value, in units of 2^-32 of a turn.

use std::ops::Add;

use client::SecretKey;
use kernels::cpu::Cpu;
use kernels::tfhe::lwe::EIGHTH;
use kernels::tfhe::torus::to_torus;
use kernels::tfhe::{Gates, Lwe, MODULUS, ModSwitch, ParamsLiteral, Preset, Stems, noise};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tests_compute::naive::gates::mod_switch;

use crate::keys::Key;
use crate::sums::{COUNT, Sum};

/// Number of coefficients of all rotations under a key together. Each coefficient is a sample.
const COEFFICIENTS: usize = 16 << 10;
/// Of this many samples, only one is also key-switched, because key switches take most of the time.
const EVERY: usize = 2;
/// Number of fresh ciphertexts, and number of modulus switches, under a key.
const CIPHERTEXTS: usize = 16 << 10;

/// Errors of a stage under one key.
pub struct OfKey {
    pub errors: Vec<i32>,
    /// The model's variance for this key in squared turns, without the constant.
    pub model: f64,
    /// The variance, over keys, of the constant that all errors of a key share.
    pub constant: f64,
}

/// Errors of a stage, key by key.
pub struct Stage {
    pub name: &'static str,
    pub of_keys: Vec<OfKey>,
}

/// Fresh encryptions by the client, which draws its own randomness.
pub fn fresh(preset: Preset) -> Stage {
    let secret = SecretKey::generate(preset);
    let encrypted = (0..4 * CIPHERTEXTS).map(|at| {
        let bit = at % 2 == 0;
        secret.phase(&secret.encrypt(bit)).wrapping_sub(Lwe::trivial_body(bit)) as i32
    });
    let model = preset.params().lwe_noise_std.powi(2);
    Stage { name: "fresh", of_keys: vec![OfKey { errors: encrypted.collect(), model, constant: 0.0 }] }
}

/// The stages: `ms` is the modulus switch, `ms1` the modulus switch of keys of container version 1, `br` the blind
/// rotation with all its coefficients, `ks` the key switch alone, `out` a rotation and a key switch together, `mux` two
/// rotations and a key switch, which the last bootstrap of a MUX reads. Then follows a stage for each of the sums that bootstraps read. The last stage, `pair`,
/// is the difference of the two samples of one rotation, which the model treats as independent.
pub fn samples(keys: impl Iterator<Item = (u64, Key)>, sums: &'static [Sum]) -> Vec<Stage> {
    let pair = (!sums.is_empty()).then_some("pair");
    let names = ["ms", "ms1", "br", "ks", "out", "mux"].into_iter().chain(sums.iter().map(|sum| sum.name)).chain(pair);
    let mut stages: Vec<Stage> = names.map(|name| Stage { name, of_keys: Vec::new() }).collect();
    for (seed, key) in keys {
        let (p, secret, constant) = (&key.drawn, key.of_secret, noise::key_constant(&key.drawn));
        let Rotated { br, ks, out, mux, of_sums, pair } = rotated(&key, seed, sums);
        let version_1 = ParamsLiteral { mod_switch: ModSwitch::Nearest, ..*p };
        let of_key = [
            (switched_moduli(&key, p, seed), noise::mod_switch(p, secret), 0.0),
            (switched_moduli(&key, &version_1, seed), noise::mod_switch(&version_1, secret), 0.0),
            (br, noise::blind_rotate(p, secret), 0.0),
            (ks, noise::lwe_key_switch(p, secret) - constant, constant),
            (out, noise::gate_output(p, secret) - constant, constant),
            (mux, noise::mux_sum(p, secret) - constant, constant),
        ];
        let of_sums = sums.iter().zip(of_sums).map(|(sum, errors)| (errors, sum.model(p, secret) - constant, constant));
        // the difference of two independent samples has twice the variance of one sample
        let of_pair = (pair, 2.0 * noise::blind_rotate(p, secret), 0.0);
        let of_key = of_key.into_iter().chain(of_sums).chain([of_pair]);
        for (stage, (errors, model, constant)) in stages.iter_mut().zip(of_key) {
            stage.of_keys.push(OfKey { errors, model, constant });
        }
    }
    stages
}

fn switched_moduli(key: &Key, p: &ParamsLiteral, seed: u64) -> Vec<i32> {
    let words = random_words(CIPHERTEXTS * (p.lwe_dimension + 1), !seed);
    let ciphertexts = words.chunks_exact(p.lwe_dimension + 1);
    let phase = |words: Vec<u32>| key.secret.phase(&Lwe::new(words));
    let error = |words: &[u32]| phase(exponents(p, words)).wrapping_sub(phase(words.to_vec())) as i32;
    ciphertexts.map(error).collect()
}

/// A row's exponents as torus words, multiples of `1 / 2N`.
fn exponents(p: &ParamsLiteral, words: &[u32]) -> Vec<u32> {
    let turn = 32 - (2 * p.polynomial_size).trailing_zeros();
    mod_switch(p, words).into_iter().map(|exponent| (exponent as u32) << turn).collect()
}

#[derive(Default)]
struct Rotated {
    br: Vec<i32>,
    ks: Vec<i32>,
    out: Vec<i32>,
    mux: Vec<i32>,
    of_sums: Vec<Vec<i32>>,
    pair: Vec<i32>,
}

/// Rotates by the exponents of random ciphertexts, because the noise does not depend on the phase.
fn rotated(key: &Key, seed: u64, sums: &[Sum]) -> Rotated {
    let device = Cpu::open();
    let p = &key.drawn;
    let (n, row) = (p.polynomial_size, p.lwe_dimension + 1);
    let loaded = device.load_key(&key.evaluation).expect("a key fits");
    let inputs = random_words(COEFFICIENTS / n * row, seed);
    let accumulators = device.blind_rotate(&loaded, &inputs).expect("a rotation");
    let rotations: Vec<Rotation> = inputs
        .chunks_exact(row)
        .zip(accumulators.chunks_exact((p.glwe_dimension + 1) * n))
        .map(|(input, accumulator)| Rotation::new(n, exponent(p, &key.secret, input), accumulator))
        .collect();
    let switch = |samples: Vec<Sample>| {
        let words: Vec<u32> = samples.iter().flat_map(|sample| &sample.words).copied().collect();
        let switched = device.key_switch(&loaded, &words).expect("a key switch");
        let rows: Vec<Vec<u32>> = switched.chunks_exact(row).map(<[u32]>::to_vec).collect();
        samples.into_iter().zip(rows)
    };
    let phase = |words: Vec<u32>| key.secret.phase(&Lwe::new(words));

    let mut found = Rotated::default();
    let samples: Vec<Sample> = rotations.iter().flat_map(|rotation| (0..n).map(|at| rotation.sample(at))).collect();
    found.br.extend(samples.iter().map(|sample| sample.error(key.secret.extracted_phase(&sample.words))));
    for (sample, after) in switch(samples.into_iter().step_by(EVERY).collect()) {
        let after = phase(after);
        found.ks.push(after.wrapping_sub(key.secret.extracted_phase(&sample.words)) as i32);
        found.out.push(sample.error(after));
    }
    let both = rotations.chunks_exact(2).flat_map(|pair| (0..n).map(|at| pair[0].sample(at) + pair[1].sample(at)));
    found.mux.extend(switch(both.collect()).map(|(sum, after)| sum.error(phase(after))));
    let mut rng = ChaCha20Rng::seed_from_u64(seed.rotate_left(32));
    for sum in sums {
        let added = switch((0..COUNT).map(|_| sum.of(&rotations, &mut rng)).collect());
        found.of_sums.push(added.map(|(sum, after)| sum.error(phase(exponents(p, &after)))).collect());
    }
    let pairs = rotations.iter().flat_map(|rotation| {
        (0..n / 2).map(|at| {
            let mut second = rotation.sample(at + n / 2);
            rotation.add(at, -1, &mut second);
            second
        })
    });
    found.pair.extend(pairs.map(|pair| pair.error(key.secret.extracted_phase(&pair.words))));
    found
}

/// `b~ - <a~, s>` modulo 2N: the rotation multiplies a polynomial by `X` to minus this exponent.
fn exponent(p: &ParamsLiteral, secret: &SecretKey, input: &[u32]) -> usize {
    // the torus words are multiples of 1 / 2N, so their phase gives the exact exponent
    let turn = 32 - (2 * p.polynomial_size).trailing_zeros();
    (secret.phase(&Lwe::new(exponents(p, input))) >> turn) as usize
}

/// A rotated polynomial, from which each coefficient can be extracted.
pub struct Rotation {
    pub n: usize,
    exponent: usize,
    /// For each mask polynomial, `A[N - 1], .., A[0], -A[N - 1], .., -A[0]` on the torus.
    masks: Vec<Vec<u32>>,
    body: Vec<u32>,
}

impl Rotation {
    /// The rotation of an accumulator `[k + 1][N]` by `X^-exponent`.
    fn new(n: usize, exponent: usize, accumulator: &[u32]) -> Rotation {
        let (masks, body) = accumulator.split_at(accumulator.len() - n);
        let mask = |polynomial: &[u32]| {
            let negated = polynomial.iter().rev().map(|&x| to_torus(MODULUS.sub(0, x)));
            polynomial.iter().rev().map(|&x| to_torus(x)).chain(negated).collect()
        };
        let body = body.iter().map(|&x| to_torus(x)).collect();
        Rotation { n, exponent, masks: masks.chunks_exact(n).map(mask).collect(), body }
    }

    /// The sample of coefficient `at`, extracted as docs/wire-format.md 8 extracts coefficient 0.
    pub fn sample(&self, at: usize) -> Sample {
        let mut words = Vec::with_capacity(self.masks.len() * self.n + 1);
        self.masks.iter().for_each(|mask| words.extend_from_slice(&mask[self.n - 1 - at..][..self.n]));
        words.push(self.body[at]);
        // the rotation has multiplied a constant polynomial by `X^-exponent`; the coefficients that wrapped around are
        // negated
        let expected = if (at + self.exponent) % (2 * self.n) < self.n { EIGHTH } else { EIGHTH.wrapping_neg() };
        Sample { words, expected }
    }

    /// Adds the sample of coefficient `at`, times a factor, to the sum.
    pub fn add(&self, at: usize, factor: i32, sum: &mut Sample) {
        let Sample { words, expected } = self.sample(at);
        let factor = factor as u32;
        for (x, y) in sum.words.iter_mut().zip(words).chain([(&mut sum.expected, expected)]) {
            *x = x.wrapping_add(factor.wrapping_mul(y));
        }
    }
}

/// `[kN + 1]` words under the ring key, and their phase without noise.
pub struct Sample {
    words: Vec<u32>,
    expected: u32,
}

impl Sample {
    /// The zero sample, with as many words as the samples of this rotation.
    pub fn nothing(rotation: &Rotation) -> Sample {
        Sample { words: vec![0; rotation.masks.len() * rotation.n + 1], expected: 0 }
    }

    /// The distance of a phase from its exact value.
    fn error(&self, phase: u32) -> i32 {
        phase.wrapping_sub(self.expected) as i32
    }
}

impl Add for Sample {
    type Output = Sample;

    fn add(mut self, other: Sample) -> Sample {
        self.words.iter_mut().zip(&other.words).for_each(|(x, &y)| *x = x.wrapping_add(y));
        Sample { expected: self.expected.wrapping_add(other.expected), ..self }
    }
}

/// Random words from a seed.
pub fn random_words(count: usize, seed: u64) -> Vec<u32> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    (0..count).map(|_| rng.next_u32()).collect()
}
