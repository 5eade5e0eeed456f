//! Operations on encrypted numbers (CKKS) in the engine: opens keys, plans requests, writes results as containers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::Code;
use engine::ckks::container::{self, KeyHead};
use engine::ckks::noise::{NoiseBudget, Tail};
use engine::ckks::operation::{self, Operand, Refusal, Request};
use engine::ckks::plaintexts::Plaintexts;
use engine::ckks::sources::Sources;
use engine::ckks::{Ciphertext, Noise, Params, PartKind, PartShape, Plan};
use engine::{KeyParams, KeyPart, KeySource, NumbersKey, NumbersPart, PartId, SwitchingKeyRow, Task};
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use super::{CiphertextFacts, precision_told, tenths};
use crate::compute::engine::{Engine, EngineOperation, RunError, Share, refused};
use crate::web::error::ApiError;

pub use engine::ckks::operation::Operation;

/// Precision in bits that a bootstrap promises. A result with fewer bits is marked as degraded (specification, Compute,
/// rule 3).
const BOOTSTRAP_PRECISION_MIN: f64 = 12.0;

/// Reads the container of a row, given the row's index in the key. The engine calls this function on one of its
/// threads, which waits until the row is read.
pub type ReadRow = Box<dyn Fn(i64) -> Result<Zeroizing<Vec<u8>>, String> + Send + Sync>;

/// A row of a stored key, from its record.
pub struct StoredRow {
    /// The name of the part's kind.
    pub kind: String,
    /// Galois element of the part.
    pub element: u32,
    /// Level of the part.
    pub level: usize,
    /// Index of the row in the key.
    pub row_index: i64,
}

/// A stored key: its parts, and a function that reads their rows.
pub struct StoredNumbersKey {
    head: KeyHead,
    key: Arc<NumbersKey>,
    /// The row indices of each part, by digit.
    rows: Vec<Vec<i64>>,
    read: ReadRow,
}

impl StoredNumbersKey {
    /// Makes a key of these rows, which are in the key's order: the rows of one part follow one another.
    ///
    /// # Errors
    /// When a record has an unknown kind of part.
    pub fn of_rows(
        params: &Params,
        fingerprint: [u8; 8],
        stored: Vec<StoredRow>,
        read: ReadRow,
    ) -> Result<StoredNumbersKey, ApiError> {
        let head = KeyHead { params: params.clone(), fingerprint, rows: stored.len() as u32, bytes: 0 };
        let mut parts: Vec<(PartKind, usize)> = Vec::new();
        let mut rows: Vec<Vec<i64>> = Vec::new();
        for StoredRow { kind, element, level, row_index } in stored {
            let part = (part_kind(&kind, element)?, level);
            match rows.last_mut() {
                Some(of_part) if parts.last() == Some(&part) => of_part.push(row_index),
                _ => {
                    parts.push(part);
                    rows.push(vec![row_index]);
                }
            }
        }
        Ok(StoredNumbersKey { head, key: Arc::new(NumbersKey { params: params.clone(), parts }), rows, read })
    }

    fn row(&self, row_index: i64) -> Result<SwitchingKeyRow, String> {
        let bytes = (self.read)(row_index)?;
        let mut row = container::read_row(&self.head, &bytes).map_err(|error| error.to_string())?;
        Ok(SwitchingKeyRow { seed: row.header.seed, body: std::mem::take(&mut row.body) })
    }
}

impl KeySource for StoredNumbersKey {
    fn params(&self) -> KeyParams {
        KeyParams::Numbers(self.key.clone())
    }

    fn host_bytes(&self) -> u64 {
        // 0, because the vault limits its memory itself
        0
    }

    fn fetch(&self, part: PartId) -> Result<KeyPart, String> {
        let Some(shape) = self.key.shape(part) else { return Ok(KeyPart::Tables(self.key.params.clone())) };
        let rows = &self.rows[part.0 as usize - 1];
        let rows = rows.iter().map(|&row| self.row(row)).collect::<Result<Vec<_>, _>>()?;
        let PartShape { kind, level, .. } = shape;
        if rows.len() != self.key.params.digits(kind, level).len() {
            return Err("rows of a key part are missing".into());
        }
        Ok(KeyPart::Numbers(NumbersPart { shape, rows: Arc::new(rows) }))
    }
}

/// Writes the head of a stored key, which stands before its rows.
///
/// # Errors
/// When a record has an unknown kind of part.
pub fn key_head(params: &Params, fingerprint: [u8; 8], stored: &[StoredRow]) -> Result<Vec<u8>, ApiError> {
    Ok(container::write_key_head(params, fingerprint, &parts_of(stored)?))
}

/// Lists the parts of a stored key, each with its level.
fn parts_of(stored: &[StoredRow]) -> Result<Vec<(PartKind, usize)>, ApiError> {
    let mut parts: Vec<(PartKind, usize)> = Vec::new();
    for row in stored {
        let part = (part_kind(&row.kind, row.element)?, row.level);
        if parts.last() != Some(&part) {
            parts.push(part);
        }
    }
    Ok(parts)
}

/// A key for encrypted numbers that is open in the engine. Closed on drop.
pub struct OpenNumbersKey {
    engine: Engine,
    session: engine::SessionId,
    key: Arc<NumbersKey>,
    fingerprint: [u8; 8],
    plaintexts: Plaintexts,
}

impl Drop for OpenNumbersKey {
    fn drop(&mut self) {
        self.engine.inner.close(self.session, Box::new(|| {}));
    }
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
}

/// A request that was checked and planned for the engine.
pub struct PlannedOperation {
    task: Task,
    /// The properties of the result that are known before the computation.
    pub result: ResultFacts,
}

/// The properties of a result that are known before the computation.
#[derive(Clone, Copy, Debug)]
pub struct ResultFacts {
    /// Level of the result.
    pub level: usize,
    /// How many multiplications in a row the result still allows: the level, less those that products owe.
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

/// How an operation on encrypted numbers ended.
pub enum NumbersEnd {
    /// The operation is completed.
    Completed {
        /// The words of the result's ciphertext, in the order `[2][primes of the level][N]`.
        words: Vec<u32>,
        /// Wall time of the computation.
        compute: Duration,
    },
    /// The operation was cancelled by [`Engine::cancel`].
    Cancelled,
    /// The operation failed without a result.
    Failed(RunError),
}

impl OpenNumbersKey {
    /// Returns the key's parameters.
    pub fn params(&self) -> &Params {
        &self.key.params
    }

    /// Returns whether the evaluation key has the parts with which ciphertexts are bootstrapped.
    pub fn bootstraps(&self) -> bool {
        let has = |wanted| self.key.parts.iter().any(|&(kind, _)| kind == wanted);
        has(PartKind::ToSparse) && has(PartKind::FromSparse)
    }

    /// Returns the size in bytes of the words of a ciphertext at the highest level.
    pub fn ciphertext_words_bytes(&self) -> u64 {
        let params = self.params();
        (8 * params.level(params.level_max()).primes.len() * params.n()) as u64
    }

    /// Returns the size in bytes of a result's container.
    pub fn result_bytes(&self, facts: &ResultFacts) -> u64 {
        result_bytes(self.params(), facts)
    }

    /// Checks a request against the containers of its ciphertexts and makes its plan (readings C5 to C14). Takes
    /// milliseconds of CPU time, so call this outside the async threads.
    ///
    /// # Errors
    /// The fault of the request. Nothing was computed.
    pub fn plan(&self, asked: &Asked, containers: &[StoredOperand]) -> Result<PlannedOperation, ApiError> {
        let mut ciphertexts: Vec<(Operand, Arc<Vec<u32>>)> = Vec::with_capacity(containers.len());
        for (at, StoredOperand { bytes, sources }) in containers.iter().enumerate() {
            // both operands of an operation may be the same ciphertext: read it only once
            if let Some(same) = containers[..at].iter().position(|before| Arc::ptr_eq(&before.bytes, bytes)) {
                ciphertexts.push(ciphertexts[same].clone());
                continue;
            }
            let read = container::read_ciphertext(bytes, self.params(), self.fingerprint);
            let Ciphertext { level, scale, noise, words } = read.map_err(ApiError::internal)?;
            let noise = Noise { sources: *sources, ..noise };
            ciphertexts.push((Operand { level, scale, noise }, Arc::new(words)));
        }
        let (operands, words): (Vec<Operand>, Vec<_>) = ciphertexts.into_iter().unzip();
        let (plan, result) = planned(&self.plaintexts, self.params(), &self.key.parts, asked, &operands)?;
        let task = Task::numbers(plan, words, &self.key);
        let task = task.map_err(|kind| {
            ApiError::internal(format!(
                "the checked plan needs the key part {kind:?}, which the key lacks at this level"
            ))
        })?;
        Ok(PlannedOperation { task, result })
    }

    /// Writes a result's container. Takes milliseconds of CPU time, so call this outside the async threads.
    pub fn write(&self, facts: &ResultFacts, words: Vec<u32>) -> Vec<u8> {
        let noise = Noise { tail: facts.tail, ..Noise::new(facts.value_bound, facts.variance) };
        let ciphertext = Ciphertext { level: facts.level, scale: facts.scale, noise, words };
        container::write_ciphertext(&ciphertext, self.params(), self.fingerprint)
    }
}

/// A stored ciphertext that is an operand.
pub struct StoredOperand {
    /// The container.
    pub bytes: Arc<Zeroizing<Vec<u8>>>,
    /// The fresh encryptions from which the ciphertext was computed. The container does not tell them.
    pub sources: Sources,
}

/// What an operation would give, without the operation.
pub struct Outlook {
    /// The properties of the result.
    pub result: ResultFacts,
    /// Number of key switches that the operation would take.
    pub key_switches: usize,
    /// Size in bytes of the result's container.
    pub result_bytes: u64,
}

/// Plans a request from the records of its key and ciphertexts alone, and refuses what [`OpenNumbersKey::plan`] refuses.
/// Takes up to milliseconds of CPU time, so call this outside the async threads.
pub fn outlook(
    params: &Params,
    stored: &[StoredRow],
    asked: &Asked,
    operands: &[CiphertextFacts],
) -> Result<Outlook, ApiError> {
    let operand = |facts: &CiphertextFacts| {
        let &CiphertextFacts { level, scale, value_bound, variance, tail, sources, .. } = facts;
        Operand { level, scale, noise: Noise { tail, sources, ..Noise::new(value_bound, variance) } }
    };
    let operands: Vec<Operand> = operands.iter().map(operand).collect();
    let (plan, result) = planned(&Plaintexts::without_words(params), params, &parts_of(stored)?, asked, &operands)?;
    Ok(Outlook { result, key_switches: plan.key_switches(), result_bytes: result_bytes(params, &result) })
}

fn planned(
    plaintexts: &Plaintexts,
    params: &Params,
    parts: &[(PartKind, usize)],
    asked: &Asked,
    operands: &[Operand],
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
    let value_bound = output.noise.value_bound.min(asked.result_bound.unwrap_or(f64::INFINITY));
    let noise = Noise { value_bound, ..output.noise };
    let result = facts(params, asked.operation, (output.level, output.scale, noise));
    Ok((plan, result))
}

fn result_bytes(params: &Params, facts: &ResultFacts) -> u64 {
    container::ciphertext_bytes(params, facts.level, container::Form::Whole) as u64
}

impl Engine {
    /// Opens a key of an account, so that operations can run under it. Takes tenths of a second of CPU time for large
    /// parameters, so call this outside the async threads.
    ///
    /// # Errors
    /// 503 when the engine has no room for another key.
    pub fn open_numbers(&self, stored: StoredNumbersKey, share: Share) -> Result<OpenNumbersKey, ApiError> {
        let (key, fingerprint) = (stored.key.clone(), stored.head.fingerprint);
        let plaintexts = Plaintexts::new(&key.params);
        let session = self.inner.open(stored, share.account, share.weight).map_err(refused)?;
        Ok(OpenNumbersKey { engine: self.clone(), session, key, fingerprint, plaintexts })
    }

    /// Begins an operation. The receiver gets the operation's end. An operation that is not completed at the deadline
    /// fails.
    pub fn start_numbers(
        &self,
        key: &OpenNumbersKey,
        planned: PlannedOperation,
        deadline: Instant,
    ) -> Result<(EngineOperation, oneshot::Receiver<NumbersEnd>), RunError> {
        let (tell, hears) = oneshot::channel();
        let told = move |outcome: Result<engine::Done, engine::Failed>| {
            let end = match outcome {
                Ok(done) => NumbersEnd::Completed { words: done.results.words, compute: done.compute },
                Err(engine::Failed { error: engine::Error::Cancelled, .. }) => NumbersEnd::Cancelled,
                Err(failed) => NumbersEnd::Failed(failed.error.into()),
            };
            // the receiver may have been dropped
            drop(tell.send(end));
        };
        let operation = self.inner.submit(key.session, planned.task, Some(deadline), Box::new(told))?;
        Ok((operation, hears))
    }
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

/// Returns the kind of part that `word` stands for. A row's record contains `word` and the Galois element.
fn part_kind(word: &str, element: u32) -> Result<PartKind, ApiError> {
    match word {
        "relinearization" => Ok(PartKind::Relinearization),
        "galois" => Ok(PartKind::Galois(element)),
        "to-sparse" => Ok(PartKind::ToSparse),
        "from-sparse" => Ok(PartKind::FromSparse),
        other => Err(ApiError::internal(format!("the record of a key row has the unknown kind {other}"))),
    }
}
