//! Results on the same operands: outputs of a mapped circuit, their negations, and results of gates. Two results are
//! equal or exact opposites, so that a later gate of both folds, or they have independent errors. Else a later gate that
//! adds them up would fail far more often than the published figures.

use kernels::cpu::Cpu;
use kernels::tfhe::circuit::run_plan;
use kernels::tfhe::fold::Bit;
use kernels::tfhe::lwe::EIGHTH;
use kernels::tfhe::noise::InputNoise;
use kernels::tfhe::{Circuit, Gate, GateRow, Gates, Lwe, LweList, Plan, Preset, bootstrap, mapping};
use libtest_mimic::Failed;
use tests_extent::Extent;

use crate::keys;
use crate::samples::random_words;

const SEED: u64 = 6;
/// Number of choices of three operands. With [`FEW`], chance gives a correlation of a ninth now and then.
const FEW: usize = 128;
const MANY: usize = 1024;

/// The results of a circuit on operands a, b and c. Each result is a gate on earlier ones; a number below 3 is an
/// operand, and others count from the first result.
const CIRCUIT: [(&str, &[usize]); 16] = [
    ("XOR", &[0, 1]),
    ("AND", &[0, 1]),
    ("OR", &[0, 1]),
    ("NOT", &[0]),
    ("AND", &[6, 1]),
    ("NAND", &[0, 1]),
    ("MUX", &[0, 1, 2]),
    ("MUX", &[0, 2, 1]),
    ("XOR", &[3, 2]),
    ("AND", &[3, 2]),
    ("OR", &[4, 10]),
    ("NOT", &[3]),
    ("NOT", &[4]),
    ("NOT", &[5]),
    ("NOT", &[11]),
    ("NOT", &[13]),
];

/// Gates on the same operands, and MUX gates that share a selector and an operand.
const GATES: [(Gate, &[usize]); 10] = [
    (Gate::Nand, &[0, 1]),
    (Gate::And, &[0, 1]),
    (Gate::Or, &[0, 1]),
    (Gate::Nor, &[0, 1]),
    (Gate::Xor, &[0, 1]),
    (Gate::Xnor, &[0, 1]),
    (Gate::And, &[2, 0]),
    (Gate::Mux, &[0, 1, 2]),
    (Gate::Mux, &[0, 2, 1]),
    (Gate::Mux, &[0, 0, 2]),
];

/// Checks all pairs of results under a key of the preset. Operands are random words, because the error of a bootstrap
/// does not depend on the phase that it reads.
pub fn check(preset: Preset) -> Result<(), Failed> {
    let (count, limit) = if Extent::named() == Extent::Soak { (MANY, 0.13) } else { (FEW, 0.36) };
    let key = keys::ours(preset, SEED);
    let (params, device) = (preset.params(), Cpu::open());
    let loaded = device.load_key(&key.evaluation)?;
    let words = random_words(3 * count * (params.lwe_dimension + 1), SEED);
    let operands = LweList::from_words(params.lwe_dimension, words);

    let circuit = Circuit::parse(&netlist(count))?;
    let names: Vec<Bit> = (0..3 * count as u32).map(Bit::value).collect();
    let network = mapping::map(&circuit, &names, &params, InputNoise::Fresh);
    let plan = Plan::mapped(&network, 3 * count, &params);
    let of_circuit = run_plan(&device, &loaded, &plan, &operands, &mut |_| {})?.to_lwes();
    let rows: Vec<GateRow> = (0..count)
        .flat_map(|at| GATES.iter().map(move |(gate, of)| (*gate, of.iter().map(move |operand| 3 * at + operand))))
        .map(|(gate, of)| GateRow { gate, operands: of.map(|at| Lwe::new(operands.row(at).to_vec())).collect() })
        .collect();
    let of_gates = bootstrap::evaluate(&device, &loaded, &params, &rows)?;

    let of_circuit = of_circuit.chunks_exact(CIRCUIT.len());
    let results: Vec<Vec<&Lwe>> = of_circuit
        .zip(of_gates.chunks_exact(GATES.len()))
        .map(|(of, gates)| of.iter().chain(gates).collect())
        .collect();
    let errors: Vec<Vec<f64>> = results
        .iter()
        .map(|results| results.iter().map(|result| error(key.secret.phase(result))).collect::<Vec<_>>())
        .collect();
    let (mut worst, mut bad) = ((0.0, String::new()), Vec::new());
    for second in 1..results[0].len() {
        for first in 0..second {
            if results.iter().all(|of| folds(of[first], of[second])) {
                continue;
            }
            let correlation = correlation(errors.iter().map(|of| [of[first], of[second]]));
            let line = format!("{} and {}: {correlation:.3}", name(first), name(second));
            if correlation.abs() > worst.0 {
                worst = (correlation.abs(), line.clone());
            }
            if correlation.abs() > limit {
                bad.push(line);
            }
        }
    }
    println!("{}: {count} choices, largest correlation of two results: {}", preset.name(), worst.1);
    if bad.is_empty() { Ok(()) } else { Err(bad.join("\n").into()) }
}

/// The circuit for each of `count` choices of operands. Outputs are the last wires, so each result is copied there.
fn netlist(count: usize) -> String {
    let (inputs, results) = (3 * count, CIRCUIT.len() * count);
    let mut text = format!("{} {}\n1 {inputs}\n1 {results}\n", 2 * results, inputs + 2 * results);
    for choice in 0..count {
        let wire = |of: usize| match of.checked_sub(3) {
            None => 3 * choice + of,
            Some(result) => inputs + CIRCUIT.len() * choice + result,
        };
        for (at, (gate, of)) in CIRCUIT.iter().enumerate() {
            let of: String = of.iter().map(|&of| format!("{} ", wire(of))).collect();
            text += &format!("{} 1 {of}{} {gate}\n", of.split_whitespace().count(), wire(3 + at));
        }
    }
    for result in inputs..inputs + results {
        text += &format!("1 1 {result} {} EQW\n", result + results);
    }
    text
}

/// Whether a gate of both folds: their words are equal or opposite.
fn folds(first: &Lwe, second: &Lwe) -> bool {
    let pairs = || first.words().iter().zip(second.words());
    pairs().all(|(x, y)| x == y) || pairs().all(|(x, y)| x.wrapping_neg() == *y)
}

/// The distance of a result's phase from the nearer one of +-1/8, in turns.
fn error(phase: u32) -> f64 {
    let bit = if (phase as i32) < 0 { EIGHTH.wrapping_neg() } else { EIGHTH };
    f64::from(phase.wrapping_sub(bit) as i32) * (-32f64).exp2()
}

/// The correlation of two errors. Their means are subtracted, because all results under a key share a constant.
fn correlation(pairs: impl Iterator<Item = [f64; 2]> + Clone) -> f64 {
    let count = pairs.clone().count() as f64;
    let mean = [0, 1].map(|at| pairs.clone().map(|pair| pair[at]).sum::<f64>() / count);
    let product = |x: usize, y: usize| -> f64 { pairs.clone().map(|of| (of[x] - mean[x]) * (of[y] - mean[y])).sum() };
    product(0, 1) / (product(0, 0) * product(1, 1)).sqrt()
}

fn name(result: usize) -> String {
    match result.checked_sub(CIRCUIT.len()) {
        None => format!("output {result} ({})", CIRCUIT[result].0),
        Some(at) => format!("gate {} {:?}", GATES[at].0.name(), GATES[at].1),
    }
}
