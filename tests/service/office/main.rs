//! The back office's HTTP interface seen from outside, with folders like `control/src/office`. Tests are named after
//! the rows of the readings that they check.

mod access;
mod bad_input;
mod description;
mod documents;
mod ingest;
mod lists;
mod money;
mod profile;
mod purchases;
mod shop;
mod stored;
mod withholding;
