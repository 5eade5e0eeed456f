//! The platform's HTTP interface from outside, folded like `control/src/platform`. Tests are named after the rows of the
//! readings that they check.

mod auth;
mod bad_input;
mod circuits;
mod circuits_bad_input;
mod client;
mod conventions;
mod docs;
mod gates;
mod health;
mod kept_circuits;
mod lifecycle;
mod sessions;
