//! `ango demo`: computes a circuit on encrypted bits from end to end, with node and client in one process and HTTP
//! between them.

mod numbers;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use api::MilliYen;
use clap::Args;
use client::evaluate::{Evaluation, Target, evaluate};
use client::{Netlist, Preset, SecretKey, bundle, container, http, netlists, value};

use super::arguments::{load_netlist, parse_preset};
use super::progress::{GateProgress, probability};
use crate::admin;
use crate::app::App;
use crate::caller::{Environment, Plan, Role};
use crate::config::Config;
use crate::work::BackendChoice;

/// Start a node, compute a circuit on encrypted bits or a model on encrypted numbers over HTTP, decrypt the result and
/// check it. Removes all its files at the end.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// A netlist in Bristol Fashion: a file, or one that comes with ango: adder64, mult64, aes_128, or a name like
    /// builtin:add64, builtin:mul32_fast, builtin:sort8x16.
    #[arg(long, value_name = "FILE", default_value = "adder64")]
    circuit: String,
    /// An input of the circuit: decimal, or hexadecimal after 0x. Repeat it for each input. When omitted, random numbers.
    #[arg(long = "input", value_name = "NUMBER")]
    inputs: Vec<String>,
    /// The inputs, without --input before each.
    #[arg(value_name = "NUMBER", conflicts_with = "inputs")]
    numbers: Vec<String>,
    /// Parameters of the key: fast_128, standard_128, conservative_128, fast_128_k2 or standard_128_k2.
    #[arg(long, default_value = "fast_128_k2", value_parser = parse_preset)]
    preset: Preset,
    /// The backend that computes gates: auto, cuda, wgpu or cpu.
    #[arg(long, env = "ANGO_BACKEND", default_value = "auto")]
    backend: BackendChoice,
    /// In place of a circuit, apply an encrypted model (CKKS) to a table of numbers.
    #[arg(long, conflicts_with_all = ["circuit", "inputs", "numbers", "preset"])]
    ckks: bool,
    /// With --ckks: a CSV file with the columns of the table that comes with ango: a name, temperature_c,
    /// vibration_mm_s, hours_k, load_pct.
    #[arg(long, value_name = "FILE", requires = "ckks")]
    csv: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Print only the licence of the netlists that come with ango.
    #[arg(long, exclusive = true)]
    licence: bool,
}

impl DemoArgs {
    /// Prints progress on stderr. Results go to stdout.
    fn note(&self, text: &str) {
        if !self.json {
            eprintln!("{text}");
        }
    }
}

/// Runs the demonstration.
///
/// # Errors
/// For example, when the decrypted result differs from plain evaluation, or when the session's bill differs from the
/// circuit's price.
pub async fn run(args: DemoArgs) -> anyhow::Result<()> {
    if args.licence {
        print!("{}", netlists::LICENCE);
        return Ok(());
    }
    if args.ckks {
        return run_numbers(&args).await;
    }
    let netlist = load_netlist(&args.circuit)?;
    let texts = if args.numbers.is_empty() { &args.inputs } else { &args.numbers };
    let inputs = inputs(texts, netlist.circuit().input_widths())?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;

    let report =
        with_node(folder.path(), &args, async |client| demonstrate(client, &args, &netlist, &inputs).await).await;
    folder.close().context("the temporary folder could not be removed")?;
    let report = report?;
    if args.json {
        println!("{}", report.json());
    } else {
        report.print();
    }
    report.check()
}

/// Runs the demonstration of numbers.
async fn run_numbers(args: &DemoArgs) -> anyhow::Result<()> {
    let table = numbers::PumpTable::read(args.csv.as_deref())?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let demonstrate = async |client: &http::Client| numbers::demonstrate(client, &table, |text| args.note(text)).await;
    let report = with_node(folder.path(), args, demonstrate).await;
    folder.close().context("the temporary folder could not be removed")?;
    let report = report?;
    if args.json {
        println!("{}", report.json());
    } else {
        report.print();
    }
    report.check()
}

/// Returns the bits of each input. The inputs are parsed from `texts`; if `texts` is empty, all inputs are random.
fn inputs(texts: &[String], widths: &[usize]) -> anyhow::Result<Vec<Vec<bool>>> {
    if texts.is_empty() {
        return Ok(widths.iter().map(|&width| value::random(width)).collect());
    }
    if texts.len() != widths.len() {
        bail!("{} inputs are given, but the circuit has {} inputs of {widths:?} bits", texts.len(), widths.len());
    }
    let parse = |(text, &width): (&String, &usize)| Ok(value::parse(text, width)?);
    texts.iter().zip(widths).map(parse).collect()
}

/// Starts a node with its data in this folder, runs `demonstrate`, and stops the node.
async fn with_node<T>(
    folder: &Path,
    args: &DemoArgs,
    demonstrate: impl AsyncFnOnce(&http::Client) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut config = Config::in_folder(folder.join("data"));
    config.compute.backend = args.backend;
    let node = App::start(config).await?;
    let plan = Some(Plan::Enterprise);
    let key = admin::create_key(node.config(), Role::Developer, Environment::Dev, None, plan).await?.key;
    args.note(&format!("started a node for this demonstration: {}, computing on {}", node.url(), node.device_name));
    let client = http::Client::new(&node.url(), &key)?;
    let report = tokio::select! {
        report = demonstrate(&client) => report,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    node.shutdown().await;
    report
}

/// Does the client's side of the demonstration, as a customer's program would do it.
async fn demonstrate(
    client: &http::Client,
    args: &DemoArgs,
    netlist: &Netlist,
    inputs: &[Vec<bool>],
) -> anyhow::Result<DemoReport> {
    let circuit = netlist.circuit();
    args.note("making keys ...");
    let key = SecretKey::generate(args.preset);
    let evaluation_key = container::write_evaluation_key(&key.evaluation_key());
    let evaluation_key_bytes = evaluation_key.len();
    let encrypted: Vec<Vec<Vec<u8>>> = inputs.iter().map(|bits| vec![bundle::encrypt_seeded(&key, bits)]).collect();

    let session = client.open_session(evaluation_key).await?.session_id;
    args.note(&format!("running {} gates on encrypted bits ...", circuit.gates().len()));
    let progress = GateProgress::new(circuit.gates().len());
    let start = Instant::now();
    let show = |now| progress.update(&now);
    // `evaluate` is never interrupted: Ctrl-C ends the whole demonstration, including the node
    let never = std::future::pending();
    let target = Target { session: &session, preset: args.preset, mapping: None };
    let evaluation = evaluate(client, target, netlist, &encrypted, show, never).await?;
    let elapsed = start.elapsed();
    progress.finish();

    let decrypted = evaluation.outputs.iter().map(|output| Ok(bundle::decrypt(&key, output)?));
    let report = DemoReport {
        circuit: args.circuit.clone(),
        backend: client.health().await?.fhe_engine,
        preset: args.preset,
        secret_key_bytes: key.to_bytes().len(),
        evaluation_key_bytes,
        ciphertext_bytes: evaluation.outputs[0][0].len(),
        inputs: inputs.to_vec(),
        decrypted: decrypted.collect::<anyhow::Result<_>>()?,
        expected: circuit.evaluate(inputs),
        levels: circuit.levels().len(),
        elapsed,
        session_cost: client.session(&session).await?.total_cost_jpy,
        evaluation,
    };
    client.close(&session).await?;
    Ok(report)
}

/// The measurements of the demonstration.
struct DemoReport {
    circuit: String,
    backend: String,
    preset: Preset,
    secret_key_bytes: usize,
    evaluation_key_bytes: usize,
    ciphertext_bytes: usize,
    inputs: Vec<Vec<bool>>,
    decrypted: Vec<Vec<bool>>,
    /// The outputs that evaluation without encryption gives.
    expected: Vec<Vec<bool>>,
    levels: usize,
    evaluation: Evaluation,
    /// Time from the request to the last answer.
    elapsed: Duration,
    /// The session's cost, as `GET /tfhe/session/{session_id}` shows it.
    session_cost: MilliYen,
}

impl DemoReport {
    fn gates_per_second(&self) -> f64 {
        self.evaluation.gates as f64 / self.elapsed.as_secs_f64()
    }

    fn print(&self) {
        let params = self.preset.params();
        let Evaluation { gates, bootstrap_ops, cost, .. } = &self.evaluation;
        let row = |name: &str, text: String| println!("{name:<16}{text}");
        row("backend", self.backend.clone());
        row(
            "preset",
            format!(
                "{} (n {}, k {}, N {}): {} bits of security",
                self.preset.name(),
                params.lwe_dimension,
                params.glwe_dimension,
                params.polynomial_size,
                self.preset.security_bits()
            ),
        );
        row("secret key", format!("{}, never sent", size(self.secret_key_bytes)));
        row("evaluation key", format!("{}, sent once (seeded)", size(self.evaluation_key_bytes)));
        row("ciphertext", format!("{} a bit", size(self.ciphertext_bytes)));
        row("circuit", format!("{}, {gates} gates in {} levels", self.circuit, self.levels));
        if let Some(run) = self.evaluation.bootstraps {
            let levels = self.evaluation.bootstrap_levels.map(|levels| format!(" in {levels} levels"));
            row("bootstraps", format!("{run}{}", levels.unwrap_or_default()));
        }
        if let Some(log2) = self.evaluation.failure_log2 {
            row("failure", format!("a wrong bit has probability {}, by the noise model", probability(log2)));
        }
        row("speed", format!("{:.1} gates/s ({:.2} s)", self.gates_per_second(), self.elapsed.as_secs_f64()));
        row("bill", format!("{cost} yen for {bootstrap_ops} bootstrap operations, as the API reported it"));
        self.inputs.iter().for_each(|bits| row("input", value::format(bits)));
        let result = if self.circuit == "adder64" { "sum" } else { "output" };
        self.decrypted.iter().for_each(|bits| row(result, value::format(bits)));
        if self.decrypted == self.expected {
            row("check", "equal to plain evaluation".to_owned());
        }
    }

    fn json(&self) -> serde_json::Value {
        let format = |values: &[Vec<bool>]| values.iter().map(|bits| value::format(bits)).collect::<Vec<_>>();
        serde_json::json!({
            "circuit": self.circuit,
            "backend": self.backend,
            "preset": self.preset.name(),
            "security_bits": self.preset.security_bits(),
            "secret_key_bytes": self.secret_key_bytes,
            "evaluation_key_bytes": self.evaluation_key_bytes,
            "ciphertext_bytes": self.ciphertext_bytes,
            "gates": self.evaluation.gates,
            "levels": self.levels,
            "bootstraps": self.evaluation.bootstraps,
            "bootstrap_levels": self.evaluation.bootstrap_levels,
            "failure_log2": self.evaluation.failure_log2,
            "bootstrap_ops": self.evaluation.bootstrap_ops,
            "elapsed_s": self.elapsed.as_secs_f64(),
            "gates_per_second": self.gates_per_second(),
            "cost_jpy": self.evaluation.cost,
            "inputs": format(&self.inputs),
            "outputs": format(&self.decrypted),
            "expected": format(&self.expected),
            "correct": self.decrypted == self.expected,
        })
    }

    /// Fails if the decrypted result or the bill is wrong.
    fn check(&self) -> anyhow::Result<()> {
        if self.decrypted != self.expected {
            let expected: Vec<String> = self.expected.iter().map(|bits| value::format(bits)).collect();
            bail!("the decrypted result is wrong: plain evaluation gives {}", expected.join(", "));
        }
        if self.session_cost != self.evaluation.cost {
            let (session, circuit) = (self.session_cost, self.evaluation.cost);
            bail!("the session's bill is {session} yen, but the circuit cost {circuit} yen");
        }
        Ok(())
    }
}

/// Formats a number of bytes for people. 1 MB is 1,048,576 bytes (readings X5).
fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.1} KB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MB", bytes as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> DemoReport {
        DemoReport {
            circuit: "adder64".into(),
            backend: "cpu".into(),
            preset: Preset::Fast128,
            secret_key_bytes: 1,
            evaluation_key_bytes: 1,
            ciphertext_bytes: 1,
            inputs: vec![vec![true], vec![false]],
            decrypted: vec![vec![true]],
            expected: vec![vec![true]],
            levels: 1,
            evaluation: Evaluation {
                outputs: Vec::new(),
                gates: 1,
                bootstraps: Some(1),
                bootstrap_levels: Some(1),
                failure_log2: Some(-90.0),
                bootstrap_ops: 4,
                cost: MilliYen(400),
                compute_ms: 1.0,
            },
            elapsed: Duration::from_secs(1),
            session_cost: MilliYen(400),
        }
    }

    #[test]
    fn a_wrong_result_and_a_wrong_bill_are_failures() {
        assert!(report().check().is_ok());
        let wrong = DemoReport { decrypted: vec![vec![false]], ..report() };
        assert!(wrong.check().unwrap_err().to_string().ends_with("plain evaluation gives 1"));
        assert_eq!(wrong.json()["correct"], false);
        assert_eq!((&wrong.json()["bootstraps"], &wrong.json()["failure_log2"]), (&1.into(), &(-90.0).into()));
        let overcharged = DemoReport { session_cost: MilliYen(500), ..report() };
        assert!(overcharged.check().unwrap_err().to_string().contains("0.5 yen"));
    }

    #[test]
    fn inputs_are_all_given_or_all_random() {
        assert_eq!(inputs(&["1".into(), "2".into()], &[1, 2]).unwrap(), [vec![true], vec![false, true]]);
        let random = inputs(&[], &[64, 3]).unwrap();
        assert_eq!((random[0].len(), random[1].len()), (64, 3));
        assert!(inputs(&["1".into()], &[64, 64]).is_err());
        assert!(inputs(&["2".into()], &[1]).is_err());
    }

    #[test]
    fn sizes_are_shown_in_units_of_1024() {
        assert_eq!([1023, 1024, 10_448_992].map(size), ["1023 bytes", "1.0 KB", "10.0 MB"]);
    }
}
