//! Sums of samples of rotations, made as for the bootstraps of cells: the samples are added, key-switched once, and
//! switched to the modulus 2N.

use kernels::tfhe::noise::{InputNoise, Load, Secret, SumNoise, blind_rotate, lwe_key_switch, mod_switch};
use kernels::tfhe::{ParamsLiteral, Preset};
use libtest_mimic::Failed;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

use crate::samples::{Rotation, Sample};

/// Number of sums of each kind under each key. Four keys give twenty thousand sums, which show the variance to one
/// percent.
pub const COUNT: usize = 5 << 10;

/// A sum of samples of different rotations, all with the same factor.
pub struct Sum {
    pub name: &'static str,
    samples: usize,
    factor: i8,
}

/// The sums for XOR of three bits, for the majority of three bits, and for the parity of eight bits. Cells read that
/// parity from samples of amplitude 1/4. Here all samples have amplitude 1/8, because the noise depends neither on the
/// amplitude nor on the phase.
pub const SUMS: [Sum; 3] = [
    Sum { name: "xor3", samples: 3, factor: -2 },
    Sum { name: "maj", samples: 3, factor: 1 },
    Sum { name: "par8", samples: 8, factor: 1 },
];

impl Sum {
    /// Chooses neighbouring rotations and adds up a sample of each, extracted from a random coefficient.
    pub fn of(&self, rotations: &[Rotation], rng: &mut ChaCha20Rng) -> Sample {
        let mut below = |bound: usize| rng.next_u32() as usize % bound;
        let first = below(rotations.len());
        let mut sum = Sample::nothing(&rotations[first]);
        for at in first..first + self.samples {
            let rotation = &rotations[at % rotations.len()];
            rotation.add(below(rotation.n), self.factor.into(), &mut sum);
        }
        sum
    }

    fn load(&self) -> Load {
        let mut load = Load::default();
        (0..self.samples).for_each(|_| load.add_sample(self.factor));
        load
    }

    /// The variance by the model [`SumNoise`], for a key whose secret is known.
    pub fn model(&self, p: &ParamsLiteral, secret: Secret) -> f64 {
        f64::from(self.load().samples) * blind_rotate(p, secret) + lwe_key_switch(p, secret) + mod_switch(p, secret)
    }
}

/// Checks that noise budgets use the model that is measured here: for secrets with the expected weights, the model of a
/// key equals [`SumNoise`].
pub fn check_model() -> Result<(), Failed> {
    for preset in Preset::ALL {
        let p = preset.params();
        for sum in &SUMS {
            let (of_key, of_budgets) =
                (sum.model(&p, Secret::OURS), SumNoise::of(&p, InputNoise::Fresh).read(&sum.load()));
            if (of_key / of_budgets - 1.0).abs() > 1e-9 {
                return Err(format!("{} of {}: {of_key}, {of_budgets}", sum.name, preset.name()).into());
            }
        }
    }
    Ok(())
}
