//! The platform's HTTP interface from outside, folded like `control/src/platform`. Tests are named after the rows of the
//! readings that they check.

mod api_keys;
mod auth;
mod bad_input;
mod cache_store;
mod circuits;
mod circuits_bad_input;
mod client;
mod clock_jumps;
mod conventions;
mod cors;
mod devices;
mod docs;
mod errors;
mod external_issuer;
mod faults;
mod folding;
mod gate_handles;
mod gates;
mod health;
mod hostile;
mod idempotency;
mod imported_keys;
mod kept_circuits;
mod lifecycle;
mod limits;
mod lockouts;
mod nodes;
mod onboarding;
mod operate;
mod pagination;
mod seeded;
mod session_tokens;
mod sessions;
mod sign_in;
mod user_keys;
