//! What the suites share.

pub mod naive;
