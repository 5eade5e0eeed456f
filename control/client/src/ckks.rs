//! The client's side of arithmetic on encrypted numbers: keys, encryption, decryption.
//!
//! The code runs in constant time, like the rest of this crate: no branch, index or division depends on a secret, on
//! noise or on a number. The one exception is a branch on whether the numbers may be encrypted.

mod context;
mod key_rows;
mod parts;
mod public_key;
mod record;
mod secret_key;
mod sparse_secret;
#[cfg(test)]
mod tests;

pub use key_rows::{KeyRows, evaluation_key_parts, power_of_two_steps, rotations};
pub use parts::matrix_product_parts;
pub use public_key::Encryptor;
pub use record::Flooding;
pub use secret_key::{Decrypted, SecretKey};

pub use kernels::ckks::{
    Ciphertext, KeyRow, Noise, Params, ParamsError, ParamsLiteral, PartKind, PublicKey, SecurityLevel,
    SeededCiphertext, container,
};

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
