//! Plans of operations on encrypted numbers (CKKS): from stored ciphertexts, or from their records alone.

use std::sync::Arc;

use api::Code;
use engine::ckks::container;
use engine::ckks::noise::{NoiseBudget, Tail};
use engine::ckks::operation::{self, Refusal, Request};
use engine::ckks::plaintexts::Plaintexts;
use engine::ckks::sources::Sources;
use engine::ckks::{Ciphertext, Noise, Params, PartKind, Plan};
use engine::{NumbersKey, Task};
use zeroize::Zeroizing;

use super::shared_plaintexts::SharedPlaintexts;
use super::stored_key::{StoredNumbersKey, StoredRow, parts_of};
use super::{CiphertextFacts, precision_told, tenths};
use crate::web::error::ApiError;
use crate::work::key::Operand;
use crate::work::named::ResultHead;

pub use engine::ckks::operation::Operation;

/// Precision in bits that a bootstrap promises. A result with fewer bits is marked as degraded (specification, Compute,
/// rule 3).
const BOOTSTRAP_PRECISION_MIN: f64 = 12.0;

/// Everything of a key but its rows: with it, questions are planned and results are written.
pub(in crate::work) struct NumbersShape {
    pub(in crate::work) key: Arc<NumbersKey>,
    pub(in crate::work) fingerprint: [u8; 8],
    plaintexts: Arc<Plaintexts>,
    shared: Arc<SharedPlaintexts>,
}

/// A request without its ciphertexts.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The operation.
    pub operation: Operation,
    /// Numbers that are not encrypted.
    pub plain: Option<Vec<f64>>,
    /// Coefficients of a polynomial, from the constant on.
    pub coefficients: Option<Vec<f64>>,
    /// Steps of a rotation.
    pub steps: Option<i64>,
    /// Whether the product of a multiplication is rescaled at once.
    pub scale_stable: bool,
    /// Bound on the absolute values of the result, as the client promises.
    pub result_bound: Option<f64>,
    /// Bound on the error of each number of the result, as the client promises.
    pub result_error_bound: Option<f64>,
}

/// The properties of a result that are known before the computation.
#[derive(Clone, Copy, Debug)]
pub struct ResultFacts {
    /// Level of the result.
    pub level: usize,
    /// Number of multiplications in a row that the result still allows. Each rescale that a product owes takes one.
    pub levels_remaining: usize,
    /// Exact scale of the result.
    pub scale: f64,
    /// Bound on the absolute values in the slots.
    pub value_bound: f64,
    /// Variance of the noise.
    pub variance: f64,
    /// The slots that `matmul` takes for zeros.
    pub tail: Tail,
    /// The fresh encryptions from which the result is computed.
    pub sources: Sources,
    /// `noise_budget_remaining`: percent, to one decimal (readings C11).
    pub budget_percent: f64,
    /// Number of bits after the binary point that are correct in every slot, to one decimal.
    pub precision_bits: f64,
    /// Bound on the error in every slot.
    pub error_bound: f64,
    /// Whether the precision of a bootstrap's result is below the promised precision (`BOOTSTRAP_PRECISION_MIN`).
    pub degraded: bool,
}

impl ResultFacts {
    /// Returns the properties that the result's container tells.
    pub(in crate::work) fn head(&self) -> ResultHead {
        let &ResultFacts { level, scale, value_bound, variance, tail, .. } = self;
        ResultHead { level, scale, value_bound, variance, tail }
    }
}

impl NumbersShape {
    /// Makes the shape of a stored key. Takes tenths of a second of CPU time for the first key of large parameters.
    pub(in crate::work) fn of(stored: &StoredNumbersKey, shared: Arc<SharedPlaintexts>) -> NumbersShape {
        let (key, fingerprint) = (stored.key.clone(), stored.head.fingerprint);
        let plaintexts = shared.of(&key.params);
        NumbersShape { key, fingerprint, plaintexts, shared }
    }

    /// Reads the containers and makes the plan.
    pub(in crate::work) fn plan(
        &self,
        asked: &Asked,
        containers: &[StoredOperand],
    ) -> Result<(Task, ResultFacts), ApiError> {
        let mut ciphertexts: Vec<(operation::Operand, Arc<Vec<u32>>)> = Vec::with_capacity(containers.len());
        for (at, StoredOperand { bytes, sources, .. }) in containers.iter().enumerate() {
            // both operands of an operation may be the same ciphertext: read it only once
            if let Some(same) = containers[..at].iter().position(|before| Arc::ptr_eq(&before.bytes, bytes)) {
                ciphertexts.push(ciphertexts[same].clone());
                continue;
            }
            let read = container::read_ciphertext(bytes, &self.key.params, self.fingerprint);
            let Ciphertext { level, scale, noise, words } = read.map_err(ApiError::internal)?;
            let noise = Noise { sources: *sources, ..noise };
            ciphertexts.push((operation::Operand { level, scale, noise }, Arc::new(words)));
        }
        let (operands, words): (Vec<operation::Operand>, Vec<_>) = ciphertexts.into_iter().unzip();
        let (plan, result) = planned(&self.plaintexts, &self.key.params, &self.key.parts, asked, &operands)?;
        if asked.operation == Operation::Bootstrap {
            self.shared.bootstrapped(&self.key.params);
        }
        let task = Task::numbers(plan, words, &self.key);
        let task = task.map_err(|kind| {
            ApiError::internal(format!(
                "the checked plan needs the key part {kind:?}, which the key lacks at this level"
            ))
        })?;
        Ok((task, result))
    }

    /// Writes a result's container, if the key has the level and the words are as many as the level takes.
    pub(in crate::work) fn container_of(&self, head: &ResultHead, words: Vec<u32>) -> Option<Vec<u8>> {
        let params = &self.key.params;
        let fits =
            head.level <= params.level_max() && words.len() == 2 * params.level(head.level).primes.len() * params.n();
        fits.then(|| self.write(head, words))
    }

    /// Writes a result's container. Takes milliseconds of CPU time, so call this outside the async threads.
    pub(in crate::work) fn write(&self, head: &ResultHead, words: Vec<u32>) -> Vec<u8> {
        let noise = Noise { tail: head.tail, ..Noise::new(head.value_bound, head.variance) };
        let ciphertext = Ciphertext { level: head.level, scale: head.scale, noise, words };
        container::write_ciphertext(&ciphertext, &self.key.params, self.fingerprint)
    }
}

/// A stored ciphertext that is an operand.
#[derive(Clone)]
pub struct StoredOperand {
    /// The ciphertext's name.
    pub operand: Operand,
    /// The container.
    pub bytes: Arc<Zeroizing<Vec<u8>>>,
    /// The fresh encryptions from which the ciphertext was computed. The container does not tell them.
    pub sources: Sources,
}

/// The properties of an operation's result, computed without the operation.
pub struct Outlook {
    /// The properties of the result.
    pub result: ResultFacts,
    /// Number of key switches that the operation would take.
    pub key_switches: usize,
    /// Size in bytes of the result's container.
    pub result_bytes: u64,
}

/// Plans a request from the records of its key and ciphertexts alone, and refuses what [`OpenNumbersKey::plan`](super::OpenNumbersKey::plan) refuses.
/// Takes up to milliseconds of CPU time, so call this outside the async threads.
pub fn outlook(
    params: &Params,
    stored: &[StoredRow],
    asked: &Asked,
    operands: &[CiphertextFacts],
) -> Result<Outlook, ApiError> {
    let operand = |facts: &CiphertextFacts| {
        let &CiphertextFacts { level, scale, value_bound, variance, tail, sources, .. } = facts;
        operation::Operand { level, scale, noise: Noise { tail, sources, ..Noise::new(value_bound, variance) } }
    };
    let operands: Vec<operation::Operand> = operands.iter().map(operand).collect();
    let (plan, result) = planned(&Plaintexts::without_words(params), params, &parts_of(stored)?, asked, &operands)?;
    Ok(Outlook { result, key_switches: plan.key_switches(), result_bytes: result_bytes(params, &result) })
}

fn planned(
    plaintexts: &Plaintexts,
    params: &Params,
    parts: &[(PartKind, usize)],
    asked: &Asked,
    operands: &[operation::Operand],
) -> Result<(Plan, ResultFacts), ApiError> {
    let request = Request {
        operation: asked.operation,
        operands,
        plain: asked.plain.as_deref(),
        coefficients: asked.coefficients.as_deref(),
        steps: asked.steps,
        scale_stable: asked.scale_stable,
        parts,
    };
    let plan = operation::plan(plaintexts, params, &request).map_err(told)?;
    let output = plan.outputs().next().ok_or_else(|| ApiError::internal("a plan without a result"))?;
    let noise = output.noise.promised(params.n(), output.scale, asked.result_bound, asked.result_error_bound);
    let result = facts(params, asked.operation, (output.level, output.scale, noise));
    Ok((plan, result))
}

pub(in crate::work) fn result_bytes(params: &Params, facts: &ResultFacts) -> u64 {
    container::ciphertext_bytes(params, facts.level, container::Form::Whole) as u64
}

fn facts(params: &Params, operation: Operation, (level, scale, noise): (usize, f64, Noise)) -> ResultFacts {
    let NoiseBudget { percent, precision_bits, levels_remaining, .. } = noise.budget(params, level, scale);
    ResultFacts {
        level,
        levels_remaining,
        scale,
        value_bound: noise.value_bound,
        variance: noise.variance,
        tail: noise.tail,
        sources: noise.sources,
        budget_percent: tenths(percent),
        precision_bits: precision_told(precision_bits),
        error_bound: noise.error_bound(params.n(), scale),
        degraded: operation == Operation::Bootstrap && precision_bits < BOOTSTRAP_PRECISION_MIN,
    }
}

/// Makes the API error for a request that the engine refused.
fn told(refusal: Refusal) -> ApiError {
    let message = refusal.to_string();
    let code = match refusal {
        Refusal::Invalid(_) => Code::InvalidParams,
        Refusal::MissingPlain(_) => Code::MissingPlainOperand,
        Refusal::TooManyCoefficients(_) => Code::PolynomialTooLarge,
        Refusal::MismatchedLevel(_) => Code::MismatchedLevel,
        Refusal::BudgetExhausted(_) => Code::NoiseBudgetExhausted,
    };
    ApiError::new(code, message)
}
