//! The back office's HTTP interface seen from outside, with folders like `control/src/office`. Tests are named after
//! the rows of the readings that they check.

mod access;
mod audit_trail;
mod bad_input;
mod bounds;
mod corrections;
mod description;
mod documents;
mod ingest;
mod large_events;
mod lists;
mod members;
mod money;
mod profile;
mod purchases;
mod sales;
mod shop;
mod stored;
mod withholding;
