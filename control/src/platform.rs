//! The platform's endpoints, one file per section of its specification. A handler says who, what, one call, answer.

pub mod api_keys;
pub mod circuits;
pub mod gates;
pub mod health;
pub mod models;
pub mod onboarding;
pub mod params;
pub mod sign_in;
pub mod user;
