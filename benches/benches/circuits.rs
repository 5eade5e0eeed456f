//! Netlists mapped to cells, compared with gate-by-gate evaluation and with the `tfhe` crate, on all cores. Prints
//! tables.
//!
//! `cargo bench --workspace --bench circuits`; with names of netlists as arguments, only these netlists run. The peer
//! evaluates the unchanged netlist level by level, with all threads for the gates of a level. The result bits of every
//! run are decrypted and compared with the netlist's results on plain bits. Another table compares the time of a gate
//! with `fast_128_k2` and with `fast_128`.

use std::time::{Duration, Instant};

use benches::{ms_each, only_once, peer as peers_own};
use client::{SecretKey, netlists, value};
use kernels::Backend;
use kernels::cpu::{Cpu, Isa};
use kernels::tfhe::bootstrap::evaluate;
use kernels::tfhe::circuit::{Signal, run_plan};
use kernels::tfhe::cpu::Key;
use kernels::tfhe::fold::Bit;
use kernels::tfhe::mapping::map;
use kernels::tfhe::noise::InputNoise;
use kernels::tfhe::{Circuit, Gate, GateRow, Gates, Lwe, LweList, Plan, Preset};
use rayon::prelude::*;
use tfhe::boolean::parameters::{BooleanParameters, DEFAULT_PARAMETERS};
use tfhe::boolean::prelude::{Ciphertext, ClientKey, ServerKey};

/// The names of the netlists, each with the number of times that every contestant runs the netlist.
const NETLISTS: [(&str, usize); 3] = [("adder64", 7), ("mult64", 1), ("aes_128", 1)];
/// Number of gates in a batch for the table of presets.
const GATES: usize = 64;
/// Number of runs of each of these batches.
const GATE_ROUNDS: usize = 15;

fn main() {
    let cpu = Cpu::open();
    let threads = rayon::current_num_threads();
    println!("Processor: {}, {threads} threads; chosen {}.\n", cpu.info().name, cpu.info().backend);
    println!("| gate, batch of {GATES}, 1 thread | ms a gate | times `fast_128` |\n|---|---|---|");
    gates();
    let parties = [Preset::Fast128K2, Preset::Fast128].map(|preset| Party::new(&cpu, preset));
    let peers = [peers_own::parameters_of_fast_128(), DEFAULT_PARAMETERS].map(|parameters| Peer::new(&parameters));
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = |name: &str| if wanted.is_empty() { true } else { wanted.iter().any(|wanted| wanted == name) };
    println!("\n| netlist | evaluated | bootstraps | levels | s | bootstraps/s | times the peer |");
    println!("|---|---|---|---|---|---|---|");
    for (name, rounds) in NETLISTS.into_iter().filter(|(name, _)| is_wanted(name)) {
        if only_once() && name != NETLISTS[0].0 {
            continue;
        }
        netlist(&cpu, &parties, &peers, name, if only_once() { 1 } else { rounds });
    }
}

/// Compares gates of `fast_128_k2` with gates of `fast_128`. Batches of both presets run in turns, and the fastest
/// batch of each preset counts.
fn gates() {
    // the instruction set that all threads use
    let chosen = Cpu::open().info().backend.clone();
    let mut alone = Isa::available().into_iter().map(|isa| Cpu::with(isa, 1));
    let cpu = alone.find(|cpu| cpu.info().backend == chosen).expect("a set of this processor");
    let parties = [Preset::Fast128, Preset::Fast128K2].map(|preset| Party::new(&cpu, preset));
    let rows = parties.each_ref().map(|party| {
        let row = |at: usize| GateRow {
            gate: Gate::Nand,
            operands: [at % 2, at % 3].map(|bit| party.secret.encrypt(bit == 0)).into(),
        };
        (0..GATES).map(row).collect::<Vec<_>>()
    });
    let mut fastest = [Duration::MAX; 2];
    for _ in 0..if only_once() { 1 } else { GATE_ROUNDS } {
        for ((party, rows), fastest) in parties.iter().zip(&rows).zip(&mut fastest) {
            let started = Instant::now();
            evaluate(&cpu, &party.key, &party.preset.params(), rows).expect("the CPU does not fail");
            *fastest = started.elapsed().min(*fastest);
        }
    }
    for (party, time) in parties.iter().zip(fastest) {
        let ratio = fastest[0].as_secs_f64() / time.as_secs_f64();
        println!("| `{}` | {:.3} | {ratio:.2} |", party.preset.name(), ms_each(time, GATES));
    }
}

/// One way to evaluate a netlist, with its times.
struct Row<'a> {
    name: String,
    bootstraps: u64,
    levels: usize,
    run: Box<dyn FnMut() -> Vec<bool> + 'a>,
    fastest: Duration,
}

impl<'a> Row<'a> {
    fn new(name: String, bootstraps: u64, levels: usize, run: impl FnMut() -> Vec<bool> + 'a) -> Row<'a> {
        Row { name, bootstraps, levels, run: Box::new(run), fastest: Duration::MAX }
    }
}

/// Runs a netlist with all contestants in turns and prints the fastest run of each contestant.
fn netlist(cpu: &Cpu, parties: &[Party; 2], peers: &[Peer; 2], name: &str, rounds: usize) {
    let text = netlists::by_name(name).expect("a netlist").expect("a netlist");
    let circuit = Circuit::parse(&text).expect("a netlist");
    let inputs: Vec<Vec<bool>> = circuit.input_widths().iter().map(|&width| value::random(width)).collect();
    let (bits, expected) = (inputs.concat(), circuit.evaluate(&inputs).concat());
    let [_, of_fast] = parties;
    let mut rows: Vec<Row> = Vec::new();
    for party in parties {
        let plan = party.mapped(&circuit);
        let levels = plan.levels().filter(|rows| rows.clone().any(|row| plan.bootstraps_of(row) > 0)).count();
        let name = format!("ours, `{}`, mapped", party.preset.name());
        rows.push(Row::new(name, plan.bootstraps(), levels, party.runs(cpu, plan, &bits)));
    }
    let plan = Plan::new(&circuit);
    let (bootstraps, levels) = (plan.bootstraps(), plan.levels().len());
    let evaluated = format!("ours, `{}`, gate by gate", of_fast.preset.name());
    rows.push(Row::new(evaluated, bootstraps, levels, of_fast.runs(cpu, plan, &bits)));
    let bootstraps = circuit.gates().iter().map(|gate| gate.gate().bootstraps() as u64).sum();
    for (peer, parameters) in peers.iter().zip(["of `fast_128`'s dimensions", "by default"]) {
        let (levels, name) = (circuit.levels(), format!("peer, {parameters}"));
        let operands: Vec<Ciphertext> = bits.iter().map(|&bit| peer.client.encrypt(bit)).collect();
        let circuit = &circuit;
        rows.push(Row::new(name, bootstraps, levels.len(), move || peer.run(circuit, &levels, &operands)));
    }
    for _ in 0..rounds {
        for row in &mut rows {
            let started = Instant::now();
            let found = (row.run)();
            row.fastest = started.elapsed().min(row.fastest);
            assert_eq!(found, expected, "{name}: {}", row.name);
        }
    }
    let seconds = |row: &Row| row.fastest.as_secs_f64();
    let peer = seconds(&rows[rows.len() - peers.len()]);
    for row in &rows {
        let (s, Row { name: evaluated, bootstraps, levels, .. }) = (seconds(row), row);
        let (rate, ratio) = (*bootstraps as f64 / s, peer / s);
        println!("| {name} | {evaluated} | {bootstraps} | {levels} | {s:.3} | {rate:.0} | {ratio:.2} |");
    }
}

/// A client of Ango and its keys.
struct Party {
    preset: Preset,
    secret: SecretKey,
    key: Key,
}

impl Party {
    fn new(cpu: &Cpu, preset: Preset) -> Party {
        let secret = SecretKey::generate(preset);
        let key = cpu.load_key(&secret.evaluation_key()).expect("there is room");
        Party { preset, secret, key }
    }

    /// Maps a netlist to cells, for inputs that are fresh ciphertexts, and returns the plan.
    fn mapped(&self, circuit: &Circuit) -> Plan {
        let inputs = circuit.input_widths().iter().sum::<usize>();
        let names: Vec<Bit> = (0..inputs as u32).map(Bit::value).collect();
        let params = self.preset.params();
        Plan::mapped(&map(circuit, &names, &params, InputNoise::Fresh), inputs, &params)
    }

    /// Runs a plan on these bits. The measured time includes decryption, like the time of the peer.
    fn runs<'a>(&'a self, cpu: &'a Cpu, plan: Plan, bits: &[bool]) -> impl FnMut() -> Vec<bool> + 'a {
        let mut inputs = LweList::with_capacity(self.preset.params().lwe_dimension, bits.len());
        bits.iter().for_each(|&bit| inputs.push(self.secret.encrypt(bit).words()));
        move || {
            let found = run_plan(cpu, &self.key, &plan, &inputs, &mut |_| ()).expect("the CPU does not fail");
            found.iter().map(|words| self.secret.decrypt(&Lwe::new(words.to_vec()))).collect()
        }
    }
}

/// A client of the peer and its keys.
struct Peer {
    client: ClientKey,
    server: ServerKey,
}

impl Peer {
    fn new(parameters: &BooleanParameters) -> Peer {
        let client = ClientKey::new(parameters);
        let server = ServerKey::new(&client);
        Peer { client, server }
    }

    /// Evaluates the gates of a netlist, level by level.
    fn run(&self, circuit: &Circuit, levels: &[Vec<usize>], inputs: &[Ciphertext]) -> Vec<bool> {
        let mut results: Vec<Option<Ciphertext>> = vec![None; circuit.gates().len()];
        let constants = [false, true].map(|bit| self.server.trivial_encrypt(bit));
        for level in levels {
            let of = |signal: Signal| match signal {
                Signal::Input(bit) => &inputs[bit as usize],
                Signal::Gate(index) => results[index as usize].as_ref().expect("an earlier level's"),
                Signal::Constant(bit) => &constants[usize::from(bit)],
            };
            let evaluated = level.par_iter().map(|&index| {
                let gate = &circuit.gates()[index];
                let operands = gate.operands();
                let b = operands.get(1).unwrap_or(&operands[0]);
                let operands = [of(operands[0]), of(*b), of(*b)];
                peers_own::gate(&self.server, gate.gate(), operands)
            });
            let evaluated: Vec<Ciphertext> = evaluated.collect();
            level.iter().zip(evaluated).for_each(|(&index, result)| results[index] = Some(result));
        }
        let decrypted = circuit.outputs().iter().map(|&signal| match signal {
            Signal::Input(bit) => self.client.decrypt(&inputs[bit as usize]),
            Signal::Gate(index) => self.client.decrypt(results[index as usize].as_ref().expect("a gate")),
            Signal::Constant(bit) => bit,
        });
        decrypted.collect()
    }
}
