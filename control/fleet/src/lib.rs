//! A fleet: API nodes that take requests, and workers that compute. This crate knows which worker should compute what, and
//! how a message reaches it. The crate knows nothing of keys, ciphertexts and money: a message is bytes.
//!
//! - [`broker`]: the interface to a broker, and its two implementations: [`local`] within a process, and `nats`.
//! - [`lanes`]: which worker owns which work. A pure function of the workers that are there.
//! - [`presence`]: the workers that are there, as each member hears them.
//! - [`warming`]: which keys a worker opens before it is used. Pure.
//!
//! The rule of the whole fleet: the database says what is true, the broker says where to look, the object store has the
//! bytes. Whatever a broker forgets, doubles, delays or reorders costs time only.

pub mod asker;
pub mod asking;
pub mod broker;
pub mod lanes;
pub mod local;
pub mod member;
pub mod message;
#[cfg(feature = "nats")]
pub mod nats;
pub mod presence;
pub mod serving;
pub mod taking;
pub mod warming;
