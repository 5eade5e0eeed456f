//! Noise of sums that a bootstrap reads before the key switch.
//!
//! A sum adds results of bootstraps (samples, under the extraction key) and inputs (under the small key). The samples' sum
//! is key switched once, whatever their number.

use super::super::params::ParamsLiteral;
use super::{Secret, blind_rotate, key_constant, lwe_key_switch, mod_switch, mux_output};

/// What is known of the noise of a circuit's inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InputNoise {
    /// They were freshly encrypted.
    Fresh,
    /// They may be any results of the node: up to two rotations and a key switch.
    Any,
}

/// What of a sum its variance depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Sum of the samples' squared factors.
    pub samples: u32,
    /// Sum of the inputs' squared factors.
    pub inputs: u32,
    /// Sum of the inputs' factors without their signs.
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

/// Variances of a parameter set's sums, made ready so that one sum costs a few multiplications.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SumNoise {
    rotation: f64,
    key_switch: f64,
    mod_switch: f64,
    input: f64,
    constant: f64,
}

impl SumNoise {
    /// Of a parameter set under our keys.
    pub fn of(p: &ParamsLiteral, inputs: InputNoise) -> SumNoise {
        let (input, constant) = match inputs {
            InputNoise::Fresh => (p.lwe_noise_std.powi(2), 0.0),
            InputNoise::Any => (mux_output(p, Secret::OURS), key_constant(p)),
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
    /// The constant that all key switches have in common is in each input that is a result, and in the sum's own key
    /// switch. It adds up with the factors, not with their squares.
    pub fn switched(&self, load: &Load) -> f64 {
        let own = if load.samples > 0 { 1.0 } else { 0.0 };
        let (squares, absolute) = (f64::from(load.inputs) + own, f64::from(load.inputs_absolute) + own);
        f64::from(load.samples) * self.rotation
            + own * self.key_switch
            + f64::from(load.inputs) * self.input
            + self.constant * (absolute * absolute - squares)
    }

    /// Variance of that sum as a bootstrap reads it, after the modulus switch.
    pub fn read(&self, load: &Load) -> f64 {
        self.switched(load) + self.mod_switch
    }
}
