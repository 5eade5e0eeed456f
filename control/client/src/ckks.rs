//! The client's side of arithmetic on encrypted numbers: keys, encryption, decryption.
//!
//! The code runs in constant time, like the rest of this crate: no branch, index or division depends on a secret, on
//! noise or on a number. The one exception is a branch on whether the numbers may be encrypted.

mod context;
mod key_rows;
mod levels;
mod parts;
mod public_key;
mod record;
mod secret_key;
mod sparse_secret;
#[cfg(test)]
mod tests;

pub use key_rows::{KeyRows, evaluation_key_parts, power_of_two_steps, rotations};
pub use levels::preparation;
pub use parts::{joint_rotation_parts, matrix_product_parts};
pub use public_key::Encryptor;
pub use record::Flooding;
pub use secret_key::{Decrypted, SecretKey};

pub use kernels::ckks::noise::Tail;
pub use kernels::ckks::plan::same_scale;
pub use kernels::ckks::{
    Ciphertext, KeyRow, Noise, Params, ParamsError, ParamsLiteral, PartKind, PublicKey, SecurityLevel,
    SeededCiphertext, container, operation, plaintexts,
};

/// The bound on numbers for a client that knows nothing about its numbers. Every ciphertext carries its bound
/// unencrypted, so a client chooses the bound from what its numbers may be, and never computes the bound from numbers.
pub const VALUE_BOUND: f64 = 16.0;

/// Why numbers cannot be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum EncryptError {
    /// The number of values differs from the number of slots.
    #[error("expected {expected} numbers, one per slot, found {found}")]
    Count {
        /// Slots.
        expected: usize,
        /// Numbers.
        found: usize,
    },
    /// A number is not finite, or larger than the bound that was declared.
    #[error("a number is not finite or its magnitude is above {0}")]
    Value(f64),
    /// The bound is not a positive number, or is too large for the modulus of the level.
    #[error("a bound of {0} on the numbers is not positive, or too large for the ciphertext's modulus")]
    Room(f64),
}

/// Why decrypted numbers cannot be shared.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ShareError {
    /// The ciphertext is not the result that the client planned.
    #[error("the ciphertext has level {level} and a scale of {scale_bits:.3} bits, which is not what was planned")]
    Unexpected {
        /// The level of the ciphertext.
        level: usize,
        /// `log2` of the ciphertext's scale.
        scale_bits: f64,
    },
    /// The ciphertext cannot be decrypted.
    #[error(transparent)]
    Decrypt(#[from] DecryptError),
}

/// Why a ciphertext cannot be decrypted: by its record, its numbers may have wrapped around the modulus of its level.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "numbers up to {value_bound} at a scale of {scale_bits:.1} bits may have wrapped around the modulus of level {level}"
)]
pub struct DecryptError {
    /// The bound on the numbers.
    pub value_bound: f64,
    /// `log2` of the scale.
    pub scale_bits: f64,
    /// The level of the ciphertext.
    pub level: usize,
}
