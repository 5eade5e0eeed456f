//! Units of work as data: effects that become durable together, all or none.
//!
//! A unit is plain data without functions, so that many units run as one statement for each kind of step, in a commit
//! that they share with the units of other callers ([`Store::submit`]). Rarer work, whose later steps depend on the
//! results of earlier ones, has a separate transaction ([`Store::write`]).

use crate::arithmetic_usage::{self, ArithmeticUsage};
use crate::ciphertexts::{self, NewCiphertext};
use crate::database::Tx;
use crate::gate_sessions::{GateUsage, charge_all};
use crate::kept_answers::{KeptAnswer, keep_all};
use crate::ledger::{Posting, post_all};
use crate::operation_counts::{OperationCounts, count_all};
use crate::operations::{NewOperation, OperationEnd, begin_all, end_all};
use crate::outbox::{NewEvent, emit_all};
use crate::session_values::{self, NewSessionValue};
use crate::waiting_line::{self, NewWaiting};
use crate::work::Work;
use crate::{Result, Store};

/// The steps of a unit of work. Each step is optional.
#[derive(Clone, Debug, Default)]
pub struct Unit {
    /// Records an operation, unless the operation is already recorded.
    pub operation: Option<NewOperation>,
    /// Enters an operation in the waiting line of a fleet. As many operations as may wait ([`crate::Error::TooManyWait`]) and a
    /// reservation that is not open fail the unit.
    pub waiting: Option<NewWaiting>,
    /// Records the end of an operation. An operation that has already ended fails the unit
    /// ([`crate::Error::OperationEnded`]).
    pub operation_end: Option<OperationEnd>,
    /// Stores a ciphertext and evicts others. A deleted key ([`crate::Error::KeyGone`]) and a lack of room
    /// ([`crate::Error::NoRoom`]) fail the unit.
    pub ciphertext: Option<NewCiphertext>,
    /// Writes the usage row of an operation and counts the operation with its key. An existing usage row with the same
    /// id fails the unit.
    pub arithmetic_charge: Option<ArithmeticUsage>,
    /// Adds to a session's totals and writes the usage row. A session that has ended since the work began is charged
    /// too, because the work was completed (readings P24). A missing session, or an existing usage row with the same
    /// id, fails the unit.
    pub charge: Option<GateUsage>,
    /// Keeps values in sessions of a fleet. A session that has ended ([`crate::Error::SessionEnded`]) and a lack of room
    /// ([`crate::Error::ValuesFull`]) fail the unit.
    pub values: Vec<NewSessionValue>,
    /// Posts the transfer that pays for the work. A transfer that is not open fails the unit
    /// ([`crate::Error::ReservationLost`]).
    pub posting: Option<Posting>,
    /// Adds to the numbers of operations that an account completed in a month.
    pub counts: Option<OperationCounts>,
    /// Writes an event, with a delivery for each webhook that subscribes to the event's type.
    pub event: Option<NewEvent>,
    /// Replaces a claim by its answer. A lost claim fails the unit ([`crate::Error::ClaimLost`]).
    pub keep: Option<KeptAnswer>,
}

impl Store {
    /// Writes a unit. The unit is durable when this returns. If the caller stops waiting, the unit is written all the
    /// same.
    ///
    /// # Errors
    /// The error tells why nothing of the unit was written.
    pub async fn submit(&self, unit: Unit) -> Result<()> {
        let emits = unit.event.is_some();
        self.writers.submit(unit).await?;
        if emits {
            self.emitted.notify_one();
        }
        Ok(())
    }
}

impl Work for Unit {
    type Answer = ();

    fn shard(&self) -> &[u8] {
        match self {
            Unit { posting: Some(posting), .. } => posting.account_id.as_bytes(),
            Unit { charge: Some(charge), .. } => charge.account_id.as_bytes(),
            Unit { arithmetic_charge: Some(charge), .. } => charge.account_id.as_bytes(),
            Unit { operation: Some(operation), .. } => operation.account_id.as_bytes(),
            Unit { ciphertext: Some(ciphertext), .. } => ciphertext.account_id.as_bytes(),
            Unit { keep: Some(kept), .. } => &kept.digest,
            _ => &[],
        }
    }

    async fn run(tx: &mut Tx, units: &[&Self]) -> Result<Vec<()>> {
        // lock order: ledgers, operations, the waiting line, caches of ciphertexts and their keys, sessions, counts, deliveries, stored
        // answers
        post_all(tx, units.iter().filter_map(|unit| unit.posting.as_ref()).collect()).await?;
        begin_all(tx, units.iter().filter_map(|unit| unit.operation.as_ref())).await?;
        waiting_line::enter_all(tx, units.iter().filter_map(|unit| unit.waiting.as_ref())).await?;
        end_all(tx, units.iter().filter_map(|unit| unit.operation_end.as_ref())).await?;
        ciphertexts::insert_all(tx, units.iter().filter_map(|unit| unit.ciphertext.as_ref()).collect()).await?;
        let charges = units.iter().filter_map(|unit| unit.arithmetic_charge.as_ref()).collect();
        arithmetic_usage::charge_all(tx, charges).await?;
        charge_all(tx, units.iter().filter_map(|unit| unit.charge.as_ref()).collect()).await?;
        session_values::keep_all(tx, units.iter().flat_map(|unit| &unit.values)).await?;
        count_all(tx, units.iter().filter_map(|unit| unit.counts.as_ref())).await?;
        emit_all(tx, units.iter().filter_map(|unit| unit.event.as_ref())).await?;
        keep_all(tx, units.iter().filter_map(|unit| unit.keep.as_ref()).collect()).await?;
        Ok(vec![(); units.len()])
    }
}
