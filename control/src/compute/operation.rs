//! The life of an operation, the same for circuits and for operations on numbers.
//!
//! A request is checked by its own kind. Then the operation enters the list of what this process computes ([`running`]),
//! its price is reserved, and the worker is asked ([`life`]). A client that does not wait gets the operation's record at
//! once, and reads or cancels it later ([`record`]). At the end the result, the charge and the record are one unit of the
//! database. An operation without a result gives its reservation back. In a fleet, operations for which no client waits wait
//! in the database until an API node releases them to the workers ([`life::line`]).

pub mod checkpoints;
pub mod life;
pub mod record;
pub mod running;
