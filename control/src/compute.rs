//! Gates and circuits on encrypted bits, under keys of open sessions. The only area that names `engine`.

pub mod engine;

pub(crate) mod circuits;
pub(crate) mod gates;
pub(crate) mod held_keys;
pub(crate) mod key_upload;
pub(crate) mod lease;
pub(crate) mod seeds;
pub(crate) mod sessions;
pub(crate) mod workbench;
