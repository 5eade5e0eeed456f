//! A client of an engine with its threads. Tests do not sleep: channels hold back the calls that must happen later.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use engine::{
    AccountId, Circuit, Config, Done, Engine, Error, Failed, GateList, LweList, OnDone, OperationId, Plan, SessionId,
    Task,
};
use kernels::tfhe::circuit::split;

use crate::dice::Dice;
use crate::toy::{self, Script, Toy};

pub type Outcome = Result<Done, Error>;

/// Settings under which the engine collects no batches, gives a device one level at a time and frees empty memory at
/// once.
pub fn prompt() -> Config {
    Config { wait_us_max: 0, window_us_max: 0, arena_idle_ms: 0, ..Config::default() }
}

/// An engine with the settings of [`prompt`] and eight bootstraps a batch.
pub fn start() -> (Engine, Arc<Script>) {
    start_with(prompt())
}

pub fn start_with(config: Config) -> (Engine, Arc<Script>) {
    let (toy, script) = Toy::new(8);
    (Engine::with_backend(config, toy).expect("the toy starts"), script)
}

/// Opens a session of weight 1. All sessions belong to one account.
pub fn open(engine: &Engine) -> Result<SessionId, Error> {
    engine.open(Arc::new(toy::key()), AccountId(1), 1)
}

/// A callback, and the receiver of the operation's end.
pub fn callback() -> (OnDone, Receiver<Outcome>) {
    let (say, outcome) = channel();
    (Box::new(move |result| say.send(result.map_err(|failed| failed.error)).expect("the test listens")), outcome)
}

pub fn submit(engine: &Engine, session: SessionId, rows: GateList) -> Receiver<Outcome> {
    submit_named(engine, session, rows).1
}

pub fn submit_named(engine: &Engine, session: SessionId, rows: GateList) -> (OperationId, Receiver<Outcome>) {
    let (done, outcome) = callback();
    (engine.submit(session, rows, None, done).expect("the engine has room"), outcome)
}

/// Waits for a message that must come. The time limit turns a hang into a failure.
pub fn soon<T>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(Duration::from_secs(60)).expect("a message comes")
}

/// Waits until a condition holds. The wait fails after a time limit.
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what} never comes");
        std::thread::yield_now();
    }
}

pub fn bits(outcome: Outcome) -> Vec<bool> {
    toy::decrypt(&outcome.expect("the operation succeeds").results)
}

pub fn close(engine: &Engine, session: SessionId) -> Receiver<()> {
    let (say, erased) = channel();
    engine.close(session, Box::new(move || say.send(()).expect("the test listens")));
    erased
}

/// A circuit, its plan, its inputs and its expected outputs.
pub struct Sum {
    pub plan: Arc<Plan>,
    pub inputs: Vec<bool>,
    pub outputs: Vec<bool>,
}

impl Sum {
    /// Random gates over `inputs` bits. One operand of each gate is among the last `reach` wires, the other operand is
    /// any wire.
    pub fn random(dice: &mut Dice, inputs: usize, gates: usize, reach: usize) -> Sum {
        let outputs = 1 + dice.below(gates.min(5) as u64) as usize;
        let mut text = format!("{gates} {}\n1 {inputs}\n1 {outputs}\n\n", inputs + gates);
        for out in inputs..inputs + gates {
            let near = out - 1 - dice.below(reach.min(out) as u64) as usize;
            let any = dice.below(out as u64);
            text += &match dice.below(10) {
                0 => format!("1 1 {near} {out} INV\n"),
                1..5 => format!("2 1 {near} {any} {out} AND\n"),
                _ => format!("2 1 {near} {any} {out} XOR\n"),
            };
        }
        let circuit = Circuit::parse(&text).expect("a circuit");
        let inputs: Vec<bool> = (0..inputs).map(|_| dice.percent(50)).collect();
        let outputs = circuit.evaluate(std::slice::from_ref(&inputs)).concat();
        Sum { plan: Arc::new(Plan::new(&circuit)), inputs, outputs }
    }

    /// A chain of `gates` XORs.
    pub fn chain(gates: usize) -> Sum {
        Sum::of(&format!(
            "{gates} {}\n1 2\n1 1\n\n{}",
            gates + 2,
            (0..gates).map(|at| format!("2 1 {at} {} {} XOR\n", at + 1, at + 2)).collect::<String>()
        ))
    }

    /// `levels` levels of `width` XORs of neighbours.
    pub fn block(levels: usize, width: usize) -> Sum {
        let gates = levels * width;
        let mut text = format!("{gates} {}\n1 {width}\n1 {width}\n\n", gates + width);
        for out in width..width + gates {
            let (row, column) = (out / width - 1, out % width);
            let next = row * width + (column + 1) % width;
            text += &format!("2 1 {} {next} {out} XOR\n", row * width + column);
        }
        Sum::of(&text)
    }

    /// The circuit of a netlist, with every third input bit set.
    pub fn of(text: &str) -> Sum {
        let circuit = Circuit::parse(text).expect("a circuit");
        let inputs: Vec<bool> = (0..circuit.input_widths().iter().sum()).map(|bit| bit % 3 == 0).collect();
        let outputs = circuit.evaluate(&split(&inputs, circuit.input_widths())).concat();
        Sum { plan: Arc::new(Plan::new(&circuit)), inputs, outputs }
    }

    pub fn submit(&self, engine: &Engine, session: SessionId) -> Receiver<Result<Done, Failed>> {
        self.submit_until(engine, session, None).expect("the engine has room").1
    }

    pub fn submit_until(
        &self,
        engine: &Engine,
        session: SessionId,
        deadline: Option<Instant>,
    ) -> Result<(OperationId, Receiver<Result<Done, Failed>>), Error> {
        let (say, outcome) = channel();
        let mut inputs = LweList::with_capacity(toy::LWE_DIMENSION, self.inputs.len());
        self.inputs.iter().for_each(|&bit| inputs.push(toy::encrypt(bit).words()));
        let done = Box::new(move |result| say.send(result).expect("the test listens"));
        let task = Task::circuit(self.plan.clone(), inputs);
        Ok((engine.submit(session, task, deadline, done)?, outcome))
    }

    /// Waits for the end and checks the results.
    pub fn check(&self, outcome: &Receiver<Result<Done, Failed>>) {
        let done = soon(outcome).expect("the operation succeeds");
        assert_eq!(toy::decrypt(&done.results), self.outputs);
        assert_eq!(done.units, self.plan.bootstraps());
        assert!(outcome.recv().is_err(), "said once, then dropped");
    }
}
