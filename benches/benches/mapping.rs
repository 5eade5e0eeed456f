//! Time to read, map and lay out the largest netlists that a node takes, as a table.
//!
//! Run it by `cargo bench -p benches --bench mapping`. `cargo test -p benches --bench mapping` runs the same code and
//! needs no release build. No other library maps netlists, so there is no ratio. The preset is `fast_128_k2`. Each
//! netlist is mapped twice: for fresh inputs, and for inputs that may be results of any earlier gates.

use std::fmt::Write;
use std::time::{Duration, Instant};

use benches::{ms_each, only_once};
use kernels::tfhe::fold::Bit;
use kernels::tfhe::mapping::map;
use kernels::tfhe::noise::InputNoise;
use kernels::tfhe::{Circuit, Plan, Preset};

/// The number of runs of each row; the table shows the fastest.
const ROUNDS: usize = 5;
/// Number of input bits of each netlist.
const INPUTS: usize = 256;
/// Number of output bits of the netlist that has many.
const OUTPUTS_MANY: usize = 1 << 16;

/// The text of a gate (operands, output wire and operation), given the number of its output wire.
type GateOf = fn(usize, &mut dyn FnMut(usize) -> usize) -> String;

/// For each netlist: its name, its number of output bits, and the function that writes its gates.
const NETLISTS: [(&str, usize, GateOf); 4] = [
    ("random, operands from anywhere", OUTPUTS_MANY, |out, random| any_gate(out, random, out)),
    ("random, operands from the last 300 wires", 64, |out, random| any_gate(out, random, out.min(300))),
    ("chain of AND and XOR", 1, |out, _| format!("2 1 {} {} {out} {}", out - 1, out % INPUTS, ["AND", "XOR"][out % 2])),
    ("chain of XORs with random inputs", 64, |out, random| format!("2 1 {} {} {out} XOR", out - 1, random(INPUTS))),
];

/// The text of a random gate with operands from the last `window` wires. On average there are two XORs and two ANDs for
/// each INV.
fn any_gate(out: usize, random: &mut dyn FnMut(usize) -> usize, window: usize) -> String {
    let [a, b] = [0; 2].map(|_| out - 1 - random(window));
    match random(5) {
        0 => format!("1 1 {a} {out} INV"),
        1 | 2 => format!("2 1 {a} {b} {out} XOR"),
        _ => format!("2 1 {a} {b} {out} AND"),
    }
}

fn main() {
    let gates = if only_once() { 1 << 17 } else { 1 << 20 };
    println!("| netlist of {gates} gates | inputs | bootstraps | levels | read, ms | map, ms | lay out, ms |");
    println!("|---|---|---|---|---|---|---|");
    for (name, outputs, gate) in NETLISTS {
        let text = text(gates, outputs, gate);
        let circuit = Circuit::parse(&text).expect("a netlist");
        let inputs: Vec<Bit> = (0..INPUTS as u32).map(Bit::value).collect();
        let params = Preset::Fast128K2.params();
        let (_, read) = fastest(|| Circuit::parse(&text));
        for (noise, of_inputs) in [(InputNoise::Fresh, "fresh"), (InputNoise::Any, "any results")] {
            let (network, mapped) = fastest(|| map(&circuit, &inputs, &params, noise));
            let (_, laid_out) = fastest(|| Plan::mapped(&network, INPUTS, &params));
            let [read, mapped, laid_out] = [read, mapped, laid_out].map(|time| ms_each(time, 1));
            let (bootstraps, levels) = (network.bootstraps(), network.depth());
            println!("| {name} | {of_inputs} | {bootstraps} | {levels} | {read:.0} | {mapped:.0} | {laid_out:.0} |");
        }
    }
}

fn text(gates: usize, outputs: usize, gate: GateOf) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut text = format!("{gates} {}\n1 {INPUTS}\n1 {outputs}\n\n", INPUTS + gates);
    for out in INPUTS..INPUTS + gates {
        writeln!(text, "{}", gate(out, &mut random)).expect("room in memory");
    }
    text
}

fn fastest<T>(mut work: impl FnMut() -> T) -> (T, Duration) {
    let mut run = || {
        let started = Instant::now();
        let result = work();
        (result, started.elapsed())
    };
    let (result, mut fastest) = run();
    for _ in 1..if only_once() { 1 } else { ROUNDS } {
        fastest = fastest.min(run().1);
    }
    (result, fastest)
}
