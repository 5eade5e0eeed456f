//! Noise of sums that a bootstrap reads before the key switch.
//!
//! A sum adds results of bootstraps (samples, under the extraction key) and inputs (under the small key). The sum of
//! all samples is key-switched once.

use super::super::params::ParamsLiteral;
use super::{Secret, blind_rotate, gate_output, key_constant, lwe_key_switch, mod_switch};

/// The assumption about the noise of a circuit's inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InputNoise {
    /// The inputs were freshly encrypted.
    Fresh,
    /// The inputs may be any results of the node: of gates and of circuits.
    Any,
}

/// The factors of a sum, reduced to what the sum's variance depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Sum of the samples' squared factors.
    pub samples: u32,
    /// Sum of the inputs' squared factors.
    pub inputs: u32,
    /// Sum of the inputs' absolute factors.
    pub inputs_absolute: u32,
}

impl Load {
    /// Adds a sample with this factor.
    pub fn add_sample(&mut self, factor: i8) {
        self.samples += u32::from(factor.unsigned_abs()).pow(2);
    }

    /// Adds an input with this factor.
    pub fn add_input(&mut self, factor: i8) {
        self.inputs += u32::from(factor.unsigned_abs()).pow(2);
        self.inputs_absolute += u32::from(factor.unsigned_abs());
    }
}

/// Variances of a parameter set, precomputed so that a sum costs a few multiplications.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SumNoise {
    rotation: f64,
    key_switch: f64,
    mod_switch: f64,
    input: f64,
    constant: f64,
}

impl SumNoise {
    /// The variances of a parameter set under Ango's keys.
    pub fn of(p: &ParamsLiteral, inputs: InputNoise) -> SumNoise {
        let (input, constant) = match inputs {
            InputNoise::Fresh => (p.lwe_noise_std.powi(2), 0.0),
            InputNoise::Any => (gate_output(p, Secret::OURS), key_constant(p)),
        };
        SumNoise {
            rotation: blind_rotate(p, Secret::OURS),
            key_switch: lwe_key_switch(p, Secret::OURS),
            mod_switch: mod_switch(p, Secret::OURS),
            input,
            constant,
        }
    }

    /// Variance of a sum of different sources after the key switch.
    ///
    /// All key switches under a key share a constant error. Each input that is a result contains this error, and so
    /// does the sum's own key switch. Equal errors add up with their factors, not with the squares of the factors.
    pub fn switched(&self, load: &Load) -> f64 {
        let own = if load.samples > 0 { 1.0 } else { 0.0 };
        let (squares, absolute) = (f64::from(load.inputs) + own, f64::from(load.inputs_absolute) + own);
        f64::from(load.samples) * self.rotation
            + own * self.key_switch
            + f64::from(load.inputs) * self.input
            + self.constant * (absolute * absolute - squares)
    }

    /// Variance of a sum as a bootstrap reads it, after the mod switch.
    pub fn read(&self, load: &Load) -> f64 {
        self.switched(load) + self.mod_switch
    }
}
