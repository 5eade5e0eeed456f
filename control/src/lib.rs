//! The service: the platform's HTTP interface over the engine, with accounts, sessions and prices. One binary, `ango`.
//!
//! A request passes `listener` and `web` (id, deadline, log, error object). `router` finds its route, `access` its
//! caller. The handler is in an area: `access`, `compute`, `billing`, `events`, `office` or `docs`.

pub mod access;
pub mod admin;
pub mod app;
pub mod billing;
pub mod cache_store;
pub mod caller;
pub mod cli;
pub mod clock;
pub mod compute;
pub mod config;
pub mod router;
pub mod secrets;
pub mod web;
pub mod work;

mod blobs;
mod data_dir;
mod database;
mod database_clock;
mod docs;
mod events;
mod fail_point;
mod ids;
mod in_flight;
mod listener;
pub mod office;
mod parsers;
mod periodic;
mod probe;
mod resource;
mod sealing;
mod telemetry;
mod tls;
