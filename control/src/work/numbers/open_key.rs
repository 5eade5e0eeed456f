//! Open keys for encrypted numbers: plans, work and results under a key.

use std::sync::Arc;
use std::time::Instant;

use api::{CiphertextId, OperationId};
use engine::ckks::{Params, PartKind};

use super::planning::{Asked, NumbersShape, ResultFacts, StoredOperand, result_bytes};
use crate::web::error::ApiError;
use crate::work::here::{Here, KeyShape};
use crate::work::key::{KeyName, Operand, Share};
use crate::work::named::NamedResult;
use crate::work::question::{NumbersQuestion, Question, Work};

/// A key for encrypted numbers, with everything but its rows. Work under the key opens it again, if it was closed.
pub struct OpenNumbersKey {
    name: KeyName,
    weight: u32,
    shape: Arc<NumbersShape>,
}

/// A request that was checked and planned.
pub struct PlannedOperation {
    question: NumbersQuestion,
    /// The properties of the result that are known before the computation.
    pub result: ResultFacts,
}

impl OpenNumbersKey {
    /// Makes the key of this shape.
    pub(in crate::work) fn of(name: KeyName, share: Share, shape: Arc<NumbersShape>) -> OpenNumbersKey {
        OpenNumbersKey { name, weight: share.weight, shape }
    }

    /// Returns the key's parameters.
    pub fn params(&self) -> &Params {
        &self.shape.key.params
    }

    /// Returns whether the evaluation key has the parts with which ciphertexts are bootstrapped.
    pub fn bootstraps(&self) -> bool {
        let has = |wanted| self.shape.key.parts.iter().any(|&(kind, _)| kind == wanted);
        has(PartKind::ToSparse) && has(PartKind::FromSparse)
    }

    /// Returns the size in bytes of the words of a ciphertext at the highest level.
    pub fn ciphertext_words_bytes(&self) -> u64 {
        let params = self.params();
        (8 * params.level(params.level_max()).primes.len() * params.n()) as u64
    }

    /// Returns the shape of a result's words: `[2 * primes of the level][N]`.
    pub fn result_shape(&self, facts: &ResultFacts) -> [usize; 2] {
        let params = self.params();
        [2 * params.level(facts.level).primes.len(), params.n()]
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
    pub fn plan(&self, asked: Asked, operands: Vec<StoredOperand>) -> Result<PlannedOperation, ApiError> {
        let (task, result) = self.shape.plan(&asked, &operands)?;
        let question = NumbersQuestion { asked, operands, planned: Some(task) };
        Ok(PlannedOperation { question, result })
    }

    /// Makes the plan of work again that [`OpenNumbersKey::work`] made. Returns the work with the plan, and the properties of its
    /// result.
    ///
    /// # Errors
    /// When the work is not of this key.
    pub fn plan_again(&self, work: Work) -> Result<(Work, ResultFacts), ApiError> {
        let Question::Numbers(question) = work.question else { return Err(ApiError::internal("work of another kind")) };
        let PlannedOperation { question, result } = self.plan(question.asked, question.operands)?;
        Ok((Work { question: Question::Numbers(question), ..work }, result))
    }

    /// Makes the work of a planned operation.
    pub fn work(&self, id: OperationId, planned: PlannedOperation, deadline: Instant) -> Work {
        let (question, results) = (Question::Numbers(planned.question), Vec::new());
        Work { id, key: self.name, weight: self.weight, question, deadline, results }
    }

    /// Names the result of an operation: the id that its ciphertext will have.
    pub fn named(&self, facts: &ResultFacts, id: &CiphertextId) -> NamedResult {
        let [rows, _] = self.result_shape(facts);
        NamedResult { rows, operand: Operand::Object(id.clone()), numbers: Some(facts.head()) }
    }

    /// Writes a result's container. Takes milliseconds of CPU time, so call this outside the async threads.
    pub fn write(&self, facts: &ResultFacts, words: Vec<u32>) -> Vec<u8> {
        self.shape.write(&facts.head(), words)
    }
}

impl Here {
    /// Opens a stored key, so that operations can run under it, or finds it open. Takes tenths of a second of CPU time
    /// for large parameters.
    ///
    /// # Errors
    /// When no such key is stored, when its records cannot be read, and 503 when the engine has no room for another
    /// key.
    pub async fn open_numbers(&self, name: KeyName, share: Share) -> Result<OpenNumbersKey, ApiError> {
        let opened = self.opened(name, share.weight).await?;
        let KeyShape::Numbers(shape) = &opened.shape else { return Err(ApiError::internal("a key for gates")) };
        Ok(OpenNumbersKey::of(name, share, shape.clone()))
    }
}
