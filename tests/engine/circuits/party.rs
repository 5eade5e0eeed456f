//! A client's key of a preset or of any shape, and a CPU backend that holds its evaluation key.

use client::SecretKey;
use kernels::cpu::Cpu;
use kernels::tfhe::circuit::run_plan;
use kernels::tfhe::cpu::Key;
use kernels::tfhe::{Gates, Lwe, LweList, ModSwitch, Params, ParamsLiteral, Plan, Preset};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tests_compute::small_key::SmallKey;

/// The largest allowed distance of a phase from its exact value: half of the distance at which decryption fails.
const TOLERANCE: i32 = 1 << 28;

/// A shape that has so little noise after a rotation that the mapper may use every cell.
pub const QUIET: ParamsLiteral = ParamsLiteral {
    lwe_dimension: 12,
    glwe_dimension: 2,
    polynomial_size: 64,
    bootstrap_base_log: 8,
    bootstrap_level_count: 2,
    key_switch_base: 4,
    key_switch_level_count: 6,
    lwe_noise_std: 1.0 / (1 << 24) as f64,
    glwe_noise_std: 1.0 / (1 << 29) as f64,
    mod_switch: ModSwitch::Centred,
};

enum Client {
    OfPreset(SecretKey),
    Small(SmallKey),
}

/// A client and a device.
pub struct Party {
    pub params: Params,
    pub device: Cpu,
    pub key: Key,
    client: Client,
}

impl Party {
    pub fn of(preset: Preset) -> Party {
        let secret = SecretKey::generate(preset);
        let device = Cpu::open();
        let key = device.load_key(&secret.evaluation_key()).expect("a key fits");
        Party { params: preset.params(), device, key, client: Client::OfPreset(secret) }
    }

    pub fn small(literal: ParamsLiteral) -> Party {
        let params = Params::try_from(literal).expect("a legal shape");
        let mut rng = generator(1);
        let small = SmallKey::new(&params, &mut || rng.next_u64());
        let device = Cpu::open();
        let key = device.load_key(&small.evaluation).expect("a key fits");
        Party { params, device, key, client: Client::Small(small) }
    }

    /// A fresh ciphertext.
    pub fn encrypt(&self, bit: bool, rng: &mut ChaCha8Rng) -> Lwe {
        match &self.client {
            Client::OfPreset(secret) => secret.encrypt(bit),
            Client::Small(small) => small.encrypt(bit, &mut || rng.next_u64()),
        }
    }

    /// Encrypts bits.
    pub fn encrypt_all(&self, bits: &[bool], rng: &mut ChaCha8Rng) -> LweList {
        let mut list = LweList::with_capacity(self.params.lwe_dimension, bits.len());
        bits.iter().for_each(|&bit| list.push(self.encrypt(bit, rng).words()));
        list
    }

    /// The bit of a ciphertext, read from the sign of its phase. The phase must be close to plus or minus `eighths`
    /// eighths of a turn.
    pub fn sign(&self, words: &[u32], eighths: i32) -> bool {
        let phase = match &self.client {
            Client::OfPreset(secret) => secret.phase(&Lwe::new(words.to_vec())),
            Client::Small(small) => small.phase(words),
        } as i32;
        let bit = phase >= 0;
        let should_be = (eighths << 29) * if bit { 1 } else { -1 };
        let off = phase.wrapping_sub(should_be).abs();
        assert!(off < TOLERANCE, "2^{:.1} of a turn off {eighths} eighths", f64::from(off).log2() - 32.0);
        bit
    }

    /// Runs a plan and returns the results and their bits.
    pub fn run(&self, plan: &Plan, inputs: &LweList) -> (LweList, Vec<bool>) {
        let mut levels = 0;
        let results =
            run_plan(&self.device, &self.key, plan, inputs, &mut |done| levels += usize::from(done == levels + 1))
                .expect("a processor does not fail");
        assert_eq!(levels, plan.levels().len(), "every level is reported");
        let bits = results.iter().map(|words| self.sign(words, 1)).collect();
        (results, bits)
    }
}

pub fn generator(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}
