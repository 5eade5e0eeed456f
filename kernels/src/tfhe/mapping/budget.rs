//! The noise budget: which sums a bootstrap may read without failing more often than an ordinary gate.

use crate::tfhe::cells::Amplitude;
use crate::tfhe::network::{Margin, Term, load};
use crate::tfhe::noise::{InputNoise, Load, Secret, SumNoise, beyond, failure_log2, mod_switch};
use crate::tfhe::params::ParamsLiteral;

/// Limits of one parameter set, precomputed so that a check takes a few multiplications.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// `None` if the noise of the keys is unknown.
    noise: Option<SumNoise>,
    /// Largest variance at margin 1/8. At margin 1/4, four times this variance is allowed.
    limit: f64,
}

impl Budget {
    /// The limits of a parameter set.
    ///
    /// If the noise of the keys is unknown (imported keys), a sum must be at most as noisy as an ordinary gate's sum,
    /// whatever the noise of the keys is. So a sum has at most two samples at margin 1/8 and at most eight at margin
    /// 1/4.
    pub fn of(p: &ParamsLiteral, inputs: InputNoise) -> Budget {
        if p.lwe_noise_std == 0.0 || p.glwe_noise_std == 0.0 {
            return Budget { noise: None, limit: 2.0 };
        }
        let gate = failure_log2(p).gate;
        // the failure probability depends only on margin^2 / variance and falls when that ratio grows, so a bisection
        // finds the largest allowed variance
        let (mut below, mut above) = (mod_switch(p, Secret::OURS), 1.0);
        for _ in 0..100 {
            let middle = (below + above) / 2.0;
            if beyond(1.0 / 8.0, middle) <= gate { below = middle } else { above = middle }
        }
        Budget { noise: Some(SumNoise::of(p, inputs)), limit: below * (1.0 + 1e-9) }
    }

    /// Whether a bootstrap may read a sum of this load at this margin.
    pub fn allows(&self, load: &Load, margin: Margin) -> bool {
        let limit = if margin == Margin::Quarter { 4.0 * self.limit } else { self.limit };
        match &self.noise {
            Some(noise) => noise.read(load) <= limit,
            None => f64::from(load.samples) + 2.0 * f64::from(load.inputs) <= limit,
        }
    }

    /// Whether a bootstrap may read this sum of different sources: the sum is within the limit, or it is the sum of an
    /// ordinary gate of two operands, which is always allowed.
    pub fn allows_sum(&self, terms: &[Term], margin: Margin) -> bool {
        let most = if margin == Margin::Quarter { 2 } else { 1 };
        let ordinary = terms.len() <= 2 && terms.iter().all(|term| term.factor.unsigned_abs() <= most);
        ordinary || self.allows(&load(terms), margin)
    }
}

/// The absolute value of the factor with which a parity adds a bit of this amplitude.
pub fn parity_factor(amplitude: Amplitude) -> i8 {
    match amplitude {
        Amplitude::Eighth => 2,
        Amplitude::Quarter => 1,
    }
}
