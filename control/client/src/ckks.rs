//! The client's side of arithmetic on encrypted numbers: keys, encryption, decryption.
//!
//! Constant time as the rest of this crate: no branch, index or division depends on a secret, on noise or on a number, but for one
//! branch on whether numbers may be encrypted at all.

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

/// Why numbers are not encrypted.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum EncryptError {
    /// Not one number a slot.
    #[error("{expected} numbers belong here, found {found}")]
    Count {
        /// Slots.
        expected: usize,
        /// Numbers.
        found: usize,
    },
    /// A number is not finite, or larger than the bound that was declared.
    #[error("a number is not finite or its magnitude is above {0}")]
    Value(f64),
    /// The bound is no positive number, or too large for the modulus of the level.
    #[error("a bound of {0} on the numbers has no room in the ciphertext")]
    Room(f64),
}
