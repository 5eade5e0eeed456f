//! Open keys for encrypted numbers: plans, work and results under a key.

use std::sync::Arc;
use std::time::Instant;

use api::OperationId;
use engine::ckks::container;
use engine::ckks::plaintexts::Plaintexts;
use engine::ckks::{Ciphertext, Noise, Params, PartKind};

use super::planning::{Asked, NumbersShape, ResultFacts, StoredOperand, result_bytes};
use super::stored_key::StoredNumbersKey;
use crate::web::error::ApiError;
use crate::work::here::{Here, KeyShape};
use crate::work::key::{KeyName, Share};
use crate::work::question::{NumbersQuestion, Question, Work};

/// An open key for encrypted numbers. Closed on drop.
pub struct OpenNumbersKey {
    worker: Here,
    name: KeyName,
    shape: Arc<NumbersShape>,
}

impl Drop for OpenNumbersKey {
    fn drop(&mut self) {
        self.worker.close_key(self.name, Box::new(|| {}));
    }
}

/// A request that was checked and planned.
pub struct PlannedOperation {
    question: NumbersQuestion,
    /// The properties of the result that are known before the computation.
    pub result: ResultFacts,
}

impl OpenNumbersKey {
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

    /// Makes the work of a planned operation.
    pub fn work(&self, id: OperationId, planned: PlannedOperation, deadline: Instant) -> Work {
        Work { id, key: self.name, question: Question::Numbers(planned.question), deadline }
    }

    /// Writes a result's container. Takes milliseconds of CPU time, so call this outside the async threads.
    pub fn write(&self, facts: &ResultFacts, words: Vec<u32>) -> Vec<u8> {
        let noise = Noise { tail: facts.tail, ..Noise::new(facts.value_bound, facts.variance) };
        let ciphertext = Ciphertext { level: facts.level, scale: facts.scale, noise, words };
        container::write_ciphertext(&ciphertext, self.params(), self.shape.fingerprint)
    }
}

impl Here {
    /// Opens a key of an account, so that operations can run under it. Takes tenths of a second of CPU time for large
    /// parameters, so call this outside the async threads.
    ///
    /// # Errors
    /// 503 when the engine has no room for another key.
    pub fn open_numbers(&self, stored: StoredNumbersKey, share: Share) -> Result<OpenNumbersKey, ApiError> {
        let (key, fingerprint) = (stored.key.clone(), stored.head.fingerprint);
        let plaintexts = Plaintexts::new(&key.params);
        let shape = Arc::new(NumbersShape { key, fingerprint, plaintexts });
        let name = self.open_key(stored, KeyShape::Numbers(shape.clone()), share)?;
        Ok(OpenNumbersKey { worker: self.clone(), name, shape })
    }
}
