//! `ango client run`: a circuit or a gate on encrypted bits.

use std::path::PathBuf;

use anyhow::{Context, bail};
use api::circuits::CircuitMapping;
use api::{MilliYen, SessionId};
use clap::{ArgGroup, Args};
use client::evaluate::{self, Evaluation, Target, evaluate};
use client::http::{self, from_base64, to_base64};
use client::{Gate, Netlist, Preset, SecretKey, bundle, value};

use super::encrypt::{read_ciphertexts, show};
use super::keys::SecretKeyArgs;
use super::node::{self, NodeArgs, parse_session};
use crate::cli::arguments::{load_netlist, parse_mapping};
use crate::cli::files::{self, FileReaders};
use crate::cli::progress::{GateProgress, bootstraps};

/// Run a circuit or one gate on a node.
///
/// Numbers are encrypted here and results are decrypted here, with the secret key. The secret key is not needed if all
/// inputs are ciphertext files and --out names a file for each result.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args(["circuit", "gate"]))]
pub struct RunArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// A netlist in Bristol Fashion: a file, or one that comes with ango: adder64, mult64, aes_128, or a name like
    /// builtin:add64, builtin:mul32_fast, builtin:sort8x16.
    #[arg(long, value_name = "FILE")]
    circuit: Option<String>,
    /// How the node runs the circuit: cells (compiled to few bootstraps) or none (gate by gate). When omitted, the
    /// node's default.
    #[arg(long, conflicts_with = "gate", value_parser = parse_mapping)]
    mapping: Option<CircuitMapping>,
    /// A gate: NAND, AND, OR, XOR, NOR, XNOR, NOT or MUX. Inputs in the order a, b, sel.
    #[arg(long, value_parser = parse_gate)]
    gate: Option<Gate>,
    /// An input: a number (decimal, or hexadecimal after 0x), or @FILE of ciphertexts. Repeat it for each input.
    #[arg(long = "input", value_name = "NUMBER|@FILE", required = true)]
    inputs: Vec<String>,
    /// Write the ciphertexts of an output to this file instead of decrypting them. Repeat it for each output.
    #[arg(long, value_name = "FILE")]
    out: Vec<PathBuf>,
    #[command(flatten)]
    key: SecretKeyArgs,
    /// File of the evaluation key. The command opens a session with it and closes the session at the end.
    #[arg(long, value_name = "FILE", default_value = "ango-keys/evaluation.key")]
    evaluation_key: PathBuf,
    /// Id of an open session to use instead of a new one. The session stays open.
    #[arg(long, env = "ANGO_SESSION", hide_env_values = true, value_parser = parse_session)]
    session: Option<SessionId>,
    /// Replace output files that exist.
    #[arg(long)]
    force: bool,
    /// Print hexadecimal numbers.
    #[arg(long)]
    hex: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn parse_gate(text: &str) -> Result<Gate, String> {
    let names = Gate::ALL.map(Gate::name).join(", ");
    Gate::from_name(text).ok_or_else(|| format!("not one of {names}"))
}

/// The circuit or gate that the command runs on the node.
enum CircuitOrGate {
    Circuit(Netlist),
    Gate(Gate),
}

impl CircuitOrGate {
    fn input_widths(&self) -> Vec<usize> {
        match self {
            CircuitOrGate::Circuit(netlist) => netlist.circuit().input_widths().to_vec(),
            CircuitOrGate::Gate(gate) => vec![1; gate.arity()],
        }
    }

    fn outputs(&self) -> usize {
        match self {
            CircuitOrGate::Circuit(netlist) => netlist.circuit().output_widths().len(),
            CircuitOrGate::Gate(_) => 1,
        }
    }
}

pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    let work = match (&args.circuit, args.gate) {
        (Some(circuit), _) => CircuitOrGate::Circuit(load_netlist(circuit)?),
        (None, Some(gate)) => CircuitOrGate::Gate(gate),
        (None, None) => bail!("name a --circuit or a --gate"),
    };
    if !args.out.is_empty() && args.out.len() != work.outputs() {
        bail!("{} output files are named, but there are {} outputs", args.out.len(), work.outputs());
    }
    let plain = args.out.is_empty() || args.inputs.iter().any(|input| !input.starts_with('@'));
    let key = if plain { Some(args.key.read()?) } else { None };
    let inputs = read_inputs(&args.inputs, &work.input_widths(), key.as_ref())?;

    let client = args.node.client()?;
    let evaluation = match &args.session {
        Some(session) => {
            let preset = preset(&client.session(session).await?.preset)?;
            let target = Target { session, preset, mapping: args.mapping };
            evaluate_work(&client, target, &work, &inputs).await?
        }
        None => {
            let session = node::open(&client, &args.evaluation_key).await?;
            let evaluation = async {
                let preset = preset(&session.preset)?;
                let target = Target { session: &session.session_id, preset, mapping: args.mapping };
                evaluate_work(&client, target, &work, &inputs).await
            };
            let evaluation = evaluation.await;
            // close the session even after an error, because the node's copy of the key is no longer needed
            let closed = client.close(&session.session_id).await;
            let evaluation = evaluation?;
            closed.context("the session could not be closed")?;
            evaluation
        }
    };
    print(&args, key.as_ref(), &evaluation)
}

/// Reads one value for each input.
fn read_inputs(texts: &[String], widths: &[usize], key: Option<&SecretKey>) -> anyhow::Result<Vec<Vec<Vec<u8>>>> {
    if texts.len() != widths.len() {
        bail!("{} inputs are given, but {} inputs of {widths:?} bits are needed", texts.len(), widths.len());
    }
    let read = |(text, &width): (&String, &usize)| match (text.strip_prefix('@'), key) {
        (Some(path), _) => {
            let ciphertexts = read_ciphertexts(path.as_ref())?;
            let found = bundle::width(&ciphertexts);
            if found != width {
                bail!("{path} has {found} ciphertexts, but the input has {width} bits");
            }
            Ok(ciphertexts)
        }
        (None, Some(key)) => Ok(vec![bundle::encrypt_seeded(key, &value::parse(text, width)?)]),
        (None, None) => bail!("the secret key is needed to encrypt a number"),
    };
    texts.iter().zip(widths).map(read).collect()
}

async fn evaluate_work(
    client: &http::Client,
    target: Target<'_>,
    work: &CircuitOrGate,
    inputs: &[Vec<Vec<u8>>],
) -> anyhow::Result<Evaluation> {
    match work {
        CircuitOrGate::Circuit(netlist) => {
            let progress = GateProgress::new(netlist.circuit().gates().len());
            let show = |now| progress.update(&now);
            let evaluation = evaluate(client, target, netlist, inputs, show, interruption()).await?;
            progress.finish();
            Ok(evaluation)
        }
        CircuitOrGate::Gate(gate) => {
            let operands = inputs.iter().map(|input| to_base64(&input[0]));
            let result = tokio::select! {
                result = client.gate(target.session, evaluate::request(*gate, operands)) => result?,
                () = interruption() => return Err(http::Error::Interrupted.into()),
            };
            Ok(Evaluation {
                outputs: vec![vec![from_base64(&result.result_b64)?]],
                gates: 1,
                bootstraps: None,
                bootstrap_levels: None,
                failure_log2: None,
                bootstrap_ops: result.bootstrap_ops,
                cost: result.cost_jpy,
                compute_ms: result.compute_ms,
            })
        }
    }
}

/// Waits for Ctrl-C. After Ctrl-C the command still closes its session before it ends.
async fn interruption() {
    // if Ctrl-C cannot be caught, it does not interrupt the run
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn preset(name: &str) -> anyhow::Result<Preset> {
    Preset::from_name(name)
        .with_context(|| format!("this version of ango does not know the node's preset {name}: install a newer one"))
}

fn print(args: &RunArgs, key: Option<&SecretKey>, evaluation: &Evaluation) -> anyhow::Result<()> {
    let outputs = if args.out.is_empty() {
        let key = key.context("the secret key is needed to decrypt results")?;
        let decrypt = |ciphertexts: &Vec<Vec<u8>>| Ok(show(&bundle::decrypt(key, ciphertexts)?, args.hex));
        let values: Vec<String> = evaluation.outputs.iter().map(decrypt).collect::<anyhow::Result<_>>()?;
        if !args.json {
            values.iter().for_each(|value| println!("{value}"));
        }
        serde_json::json!(values)
    } else {
        for (path, ciphertexts) in args.out.iter().zip(&evaluation.outputs) {
            files::write(path, &ciphertexts.concat(), FileReaders::Shared, args.force)?;
        }
        serde_json::json!(args.out)
    };
    let Evaluation { gates, bootstrap_ops, cost, compute_ms, .. } = evaluation;
    if args.json {
        let facts = serde_json::json!({
            "outputs": outputs,
            "gates": gates,
            "bootstraps": evaluation.bootstraps,
            "bootstrap_levels": evaluation.bootstrap_levels,
            "failure_log2": evaluation.failure_log2,
            "bootstrap_ops": bootstrap_ops,
            "cost_jpy": cost,
            "compute_ms": compute_ms,
        });
        println!("{facts}");
    } else {
        if let Some(ran) = bootstraps(evaluation) {
            eprintln!("{gates} gates requested, {ran}, {:.2} s", compute_ms / 1000.0);
        }
        if *cost > MilliYen(0) {
            eprintln!("gates: {gates}, bootstrap operations: {bootstrap_ops}, {cost} yen");
        }
    }
    Ok(())
}
