//! The peer: the boolean gates of the `tfhe` crate.

use kernels::tfhe::{Gate, Preset};
use tfhe::boolean::parameters::{
    BooleanParameters, DecompositionBaseLog, DecompositionLevelCount, DynamicDistribution, EncryptionKeyChoice,
    GlweDimension, LweDimension, PolynomialSize, StandardDev,
};
use tfhe::boolean::prelude::{BinaryBooleanGates, Ciphertext, ServerKey};

/// The peer's parameters with the dimensions, the noise and the bootstrap decomposition of `fast_128`.
///
/// The key switches differ: base 3 in 7 levels in Ango, base 2^2 in 6 levels in the peer, whose bases are powers of
/// two.
pub fn parameters_of_fast_128() -> BooleanParameters {
    let p = Preset::Fast128.params();
    let noise = |std| DynamicDistribution::new_gaussian_from_std_dev(StandardDev(std));
    BooleanParameters::new(
        LweDimension(p.lwe_dimension),
        GlweDimension(p.glwe_dimension),
        PolynomialSize(p.polynomial_size),
        noise(p.lwe_noise_std),
        noise(p.glwe_noise_std),
        DecompositionBaseLog(p.bootstrap_base_log),
        DecompositionLevelCount(p.bootstrap_level_count),
        DecompositionBaseLog(2),
        DecompositionLevelCount(6),
        EncryptionKeyChoice::Small,
    )
}

/// A gate of the peer on a, b, sel. Operands beyond the gate's arity are ignored.
pub fn gate(key: &ServerKey, gate: Gate, [a, b, sel]: [&Ciphertext; 3]) -> Ciphertext {
    match gate {
        Gate::Nand => key.nand(a, b),
        Gate::And => key.and(a, b),
        Gate::Or => key.or(a, b),
        Gate::Xor => key.xor(a, b),
        Gate::Nor => key.nor(a, b),
        Gate::Xnor => key.xnor(a, b),
        Gate::Not => key.not(a),
        Gate::Mux => key.mux(sel, a, b),
    }
}
