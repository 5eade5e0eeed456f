//! The service: the platform's HTTP interface over the engine, with accounts, sessions and prices. One binary, `ango`.
//!
//! A request passes `listener` and `edge` (id, deadline, log, error object), finds its route in `router`, its caller
//! in `auth`, and ends in a handler of `platform`, which asks `compute` for work and `billing` for its price.

pub mod admin;
pub mod app;
pub mod auth;
pub mod billing;
pub mod cache_store;
pub mod cli;
pub mod clock;
pub mod compute;
pub mod config;
pub mod limits;
pub mod openapi;
pub mod peer;
pub mod secrets;

mod base64_text;
mod blobs;
mod body;
mod budget;
mod cors;
mod data_dir;
mod database;
mod docs;
mod edge;
mod envelope;
mod error;
mod fail_point;
mod held_keys;
mod idempotency;
mod ids;
mod in_flight;
mod json;
mod key_upload;
mod lease;
mod listener;
mod octets;
mod offload;
mod operations;
mod pagination;
mod path;
mod platform;
mod probe;
mod router;
mod sealing;
mod seeds;
mod sessions;
mod telemetry;
mod tls;
mod workbench;
