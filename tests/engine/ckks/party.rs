//! A client with a key, and an engine that computes for the client.

use std::collections::HashMap;
use std::sync::{Arc, mpsc};

use client::ckks::{Ciphertext, Decrypted, Params, PartKind, SecretKey};
use engine::ckks::operation::{self, Operand, Operation, Refusal, Request};
use engine::ckks::plaintexts::Plaintexts;
use engine::ckks::{PartShape, Plan};
use engine::{
    AccountId, Config, Done, Engine, Failed, KeyParams, KeyPart, KeySource, Names, NumbersKey, NumbersPart,
    OperationId, PartId, SessionId, SwitchingKeyRow, Task,
};
use kernels::cpu::Cpu;

/// The parts of an evaluation key, held in memory.
struct HeldParts {
    key: Arc<NumbersKey>,
    rows: HashMap<u32, Arc<Vec<SwitchingKeyRow>>>,
}

impl KeySource for HeldParts {
    fn params(&self) -> KeyParams {
        KeyParams::Numbers(self.key.clone())
    }

    fn host_bytes(&self) -> u64 {
        0
    }

    fn fetch(&self, part: PartId) -> Result<KeyPart, String> {
        let Some(shape): Option<PartShape> = self.key.shape(part) else {
            return Ok(KeyPart::Tables(self.key.params.clone()));
        };
        Ok(KeyPart::Numbers(NumbersPart { shape, rows: self.rows[&part.0].clone() }))
    }
}

/// An engine on this machine's CPU.
pub fn engine() -> Engine {
    Engine::with_backend(Config::default(), Cpu::open()).expect("an engine")
}

/// A client and its session.
pub struct Party {
    pub secret: SecretKey,
    pub plaintexts: Plaintexts,
    pub key: Arc<NumbersKey>,
    pub engine: Engine,
    pub session: SessionId,
}

/// A ciphertext and the numbers that it must decrypt to.
#[derive(Clone)]
pub struct Encrypted {
    pub ciphertext: Ciphertext,
    pub expected: Vec<f64>,
}

/// The arguments of an operation besides its ciphertexts.
#[derive(Clone, Copy, Default)]
pub struct More<'a> {
    pub plain: Option<&'a [f64]>,
    pub coefficients: Option<&'a [f64]>,
    pub steps: Option<i64>,
    pub scale_stable: bool,
    /// The client's promises about the result: bounds on its numbers, and on their errors.
    pub promises: [Option<f64>; 2],
}

impl Party {
    /// A client with these parts of an evaluation key.
    pub fn new(engine: Engine, params: &Params, parts: &[(PartKind, usize)]) -> Party {
        let secret = SecretKey::generate(params);
        let key = Arc::new(NumbersKey { params: params.clone(), parts: parts.to_vec() });
        let rows_of = |&(kind, level): &(PartKind, usize)| {
            let rows = secret.part(kind, level);
            let rows =
                rows.map(|mut row| SwitchingKeyRow { seed: row.header.seed, body: std::mem::take(&mut row.body) });
            Arc::new(rows.collect::<Vec<_>>())
        };
        let rows = (1..).zip(parts.iter().map(rows_of)).collect();
        let held = HeldParts { key: key.clone(), rows };
        let session = engine.open(held, AccountId(1), 1).expect("the engine has room for a key");
        Party { secret, plaintexts: Plaintexts::new(params), key, engine, session }
    }

    pub fn params(&self) -> &Params {
        &self.key.params
    }

    /// Encrypts numbers between -1 and 1.
    pub fn encrypt(&self, values: &[f64]) -> Encrypted {
        let seeded = self.secret.encrypt(values, 1.0).expect("numbers within 1");
        Encrypted { ciphertext: seeded.expand(self.params()), expected: values.to_vec() }
    }

    /// The plan of an operation.
    pub fn plan(&self, operation: Operation, of: &[&Ciphertext], more: More<'_>) -> Result<Plan, Refusal> {
        let operands: Vec<Operand> = of.iter().map(|&ciphertext| ciphertext.into()).collect();
        operation::plan(&self.plaintexts, self.params(), &self.request(operation, &operands, more))
    }

    /// The request for an operation.
    pub fn request<'a>(&'a self, operation: Operation, operands: &'a [Operand], more: More<'a>) -> Request<'a> {
        let More { plain, coefficients, steps, scale_stable, .. } = more;
        Request { operation, operands, plain, coefficients, steps, scale_stable, parts: &self.key.parts }
    }

    /// Starts a plan on the engine.
    pub fn begin(&self, plan: Plan, of: &[&Ciphertext]) -> (OperationId, mpsc::Receiver<Result<Done, Failed>>) {
        self.begin_named(plan, of, Names::default())
    }

    /// Like [`Party::begin`], for ciphertexts with names.
    pub fn begin_named(
        &self,
        plan: Plan,
        of: &[&Ciphertext],
        names: Names,
    ) -> (OperationId, mpsc::Receiver<Result<Done, Failed>>) {
        let inputs = of.iter().map(|ciphertext| Arc::new(ciphertext.words.clone())).collect();
        let task = Task::numbers(plan, inputs, &self.key).expect("the key has the parts that the plan names");
        let task = task.with_names(names);
        let (tell, hears) = mpsc::channel();
        let told = move |outcome| drop(tell.send(outcome));
        (
            self.engine.submit(self.session, task, None, Box::new(told)).expect("the engine has room for an operation"),
            hears,
        )
    }

    /// Runs an operation and returns its result with the noise that the plan predicts.
    pub fn run(&self, operation: Operation, of: &[&Ciphertext], more: More<'_>) -> Result<Ciphertext, Refusal> {
        self.run_named(operation, of, more, Names::default())
    }

    /// Like [`Party::run`], for ciphertexts with names.
    pub fn run_named(
        &self,
        operation: Operation,
        of: &[&Ciphertext],
        more: More<'_>,
        names: Names,
    ) -> Result<Ciphertext, Refusal> {
        let plan = self.plan(operation, of, more)?;
        let output = plan.outputs().next().expect("a result").clone();
        let (_, end) = self.begin_named(plan, of, names);
        let done = end.recv().expect("an end").expect("a result");
        let (words, [value_bound, error_bound]) = (done.results.words, more.promises);
        let noise = output.noise.promised(self.params().n(), output.scale, value_bound, error_bound);
        Ok(Ciphertext { level: output.level, scale: output.scale, noise, words })
    }

    /// Runs an operation that must succeed, and checks its result. `expected` is computed with plain arithmetic.
    #[track_caller]
    pub fn check(&self, operation: Operation, of: &[&Encrypted], more: More<'_>, expected: Vec<f64>) -> Encrypted {
        let ciphertexts: Vec<&Ciphertext> = of.iter().map(|encrypted| &encrypted.ciphertext).collect();
        let ciphertext = self.run(operation, &ciphertexts, more).unwrap_or_else(|why| panic!("{operation:?}: {why}"));
        let result = Encrypted { ciphertext, expected };
        self.check_precision(&result, operation.name());
        result
    }

    /// Checks that the error of every slot is below the prediction, and that the largest error is less than
    /// [`CAREFUL_BITS`] bits below the prediction.
    #[track_caller]
    pub fn check_precision(&self, encrypted: &Encrypted, what: &str) {
        let Decrypted { values, error_bound, .. } = self.secret.decrypt(&encrypted.ciphertext).expect("room");
        let errors = values.iter().zip(&encrypted.expected).map(|(found, expected)| (found - expected).abs());
        let error = errors.fold(0.0, f64::max);
        let n = self.params().n();
        assert!(error < error_bound, "{what} at {n}: an error of {error}, predicted {error_bound}");
        let careful = (error_bound / error).log2();
        assert!(careful < CAREFUL_BITS, "{what} at {n}: the prediction is {careful:.1} bits too careful");
    }
}

/// Largest number of bits by which a prediction may exceed the largest error. A prediction is larger than most errors,
/// because it takes 22 standard deviations, treats errors of operands as dependent, and assumes numbers as large as
/// their bound.
const CAREFUL_BITS: f64 = 16.0;

/// Numbers between -1 and 1 that look random.
pub fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}
