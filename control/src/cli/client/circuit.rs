//! `ango client circuit`: lists circuits, shows their netlists, and forecasts a node's work for a circuit. Needs no
//! node.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};

use clap::{Args, Subcommand};
use client::circuits::families;
use client::forecast::{Forecast, Inputs};
use client::{Circuit, Preset, netlists};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;

use crate::cli::arguments::{load_netlist, parse_preset};
use crate::cli::progress::probability;

/// List circuits, show a netlist, or forecast a node's work for a circuit. Needs no node.
#[derive(Debug, Args)]
pub struct CircuitArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the circuits that come with ango.
    List {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print the netlist of a circuit, in Bristol Fashion.
    Show {
        /// A name or a file.
        #[arg(value_name = "NAME")]
        circuit: String,
    },
    Stats(StatsArgs),
}

/// Show how many bootstraps a node will run for a circuit, in how many levels, and how likely a wrong bit is.
///
/// The forecast is for every preset, gate by gate and compiled to cells, which is the node's default. Inputs are
/// `fresh` if they were encrypted for the circuit, and `results` if they are earlier results of the node. The failure
/// is the probability that the whole circuit has a wrong bit, by the noise model, for keys that this client makes.
#[derive(Debug, Args)]
struct StatsArgs {
    /// A netlist in Bristol Fashion: a file, or one that comes with ango: adder64, mult64, aes_128, or a name like
    /// builtin:add64, builtin:mul32_fast, builtin:sort8x16.
    #[arg(value_name = "FILE|NAME")]
    circuit: String,
    /// Only this preset.
    #[arg(long, value_parser = parse_preset)]
    preset: Option<Preset>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub fn circuit(args: CircuitArgs) -> anyhow::Result<()> {
    match args.command {
        Command::List { json } => list(json),
        Command::Show { circuit } => show(&circuit),
        Command::Stats(args) => stats(&args),
    }
}

/// Writes to stdout. A reader that closes the pipe early is not an error.
fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

fn list(as_json: bool) -> anyhow::Result<()> {
    let public = netlists::PUBLIC.map(|public| (public.name.to_owned(), String::new(), public.meaning.to_owned()));
    let builtin = families().map(|family| {
        let meaning = format!("{} (bits: {} -> {})", family.meaning, family.inputs, family.outputs);
        (family.name, family.endings.join(" "), meaning)
    });
    let all = public.into_iter().chain(builtin);
    if as_json {
        let circuit = |(name, endings, meaning): (String, String, String)| {
            let endings: Vec<&str> = endings.split_whitespace().collect();
            json!({ "name": name, "endings": endings, "meaning": meaning })
        };
        return print(&format!("{}\n", json!({ "circuits": all.map(circuit).collect::<Vec<_>>() })));
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["name", "may end in", "what it computes"]);
    all.for_each(|(name, endings, meaning)| {
        table.add_row([name, endings, meaning]);
    });
    let (widths, lengths) = (client::circuits::WIDTHS, client::circuits::LENGTHS);
    let sizes = format!(
        "<w>: bits of a number, {} to {}. <n>: numbers of a list, {} to {}. Endings follow in the order _signed, _full, _fast: \
         builtin:lt32_signed_fast.",
        widths.start(),
        widths.end(),
        lengths.start(),
        lengths.end()
    );
    print(&format!("{table}\n\n{sizes}\n"))
}

fn show(name: &str) -> anyhow::Result<()> {
    let netlist = load_netlist(name)?;
    if netlists::PUBLIC.iter().any(|public| public.text == netlist.text()) {
        eprintln!("the licence of this netlist: ango demo --licence");
    }
    print(netlist.text())
}

/// The forecast of a node's work for one preset, mapping and kind of inputs.
struct Run {
    preset: Preset,
    /// `none` or `cells`, as in a request.
    mapping: &'static str,
    inputs: Inputs,
    forecast: Forecast,
}

fn stats(args: &StatsArgs) -> anyhow::Result<()> {
    let netlist = load_netlist(&args.circuit)?;
    let presets = args.preset.map_or(Preset::ALL.to_vec(), |preset| vec![preset]);
    let runs = runs(netlist.circuit(), &presets);
    print(&if args.json {
        format!("{}\n", as_json(&args.circuit, netlist.circuit(), &runs))
    } else {
        as_table(&args.circuit, netlist.circuit(), &runs)
    })
}

/// Forecasts a node's work for each of these presets and each kind of inputs: first for the circuit gate by gate, then
/// for the circuit compiled to cells. One thread computes each preset.
fn runs(circuit: &Circuit, presets: &[Preset]) -> Vec<Run> {
    let of_preset = |preset: Preset| {
        let of_inputs = |inputs| {
            [
                Run { preset, mapping: "none", inputs, forecast: Forecast::of_gates(circuit, preset, inputs) },
                Run { preset, mapping: "cells", inputs, forecast: Forecast::of_cells(circuit, preset, inputs) },
            ]
        };
        Inputs::ALL.map(of_inputs)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = presets.iter().map(|&preset| scope.spawn(move || of_preset(preset))).collect();
        let runs = threads.into_iter().map(|thread| thread.join().expect("a forecast does not panic"));
        runs.flatten().flatten().collect()
    })
}

fn as_json(name: &str, circuit: &Circuit, runs: &[Run]) -> serde_json::Value {
    let gates: BTreeMap<_, _> = circuit.gate_counts().into_iter().map(|(gate, count)| (gate.name(), count)).collect();
    let run = |run: &Run| {
        json!({
            "preset": run.preset.name(),
            "mapping": run.mapping,
            "inputs": run.inputs.name(),
            "bootstraps": run.forecast.bootstraps,
            "bootstrap_levels": run.forecast.levels,
            // null if no bootstrap can fail
            "failure_log2": Some(run.forecast.failure_log2).filter(|log2| log2.is_finite()),
        })
    };
    json!({
        "circuit": name,
        "gates": gates,
        "gates_total": circuit.gates().len(),
        "levels": circuit.levels().len(),
        "input_widths": circuit.input_widths(),
        "output_widths": circuit.output_widths(),
        "runs": runs.iter().map(run).collect::<Vec<_>>(),
    })
}

fn as_table(name: &str, circuit: &Circuit, runs: &[Run]) -> String {
    let counts = circuit.gate_counts().into_iter().filter(|&(_, count)| count > 0);
    let counts: Vec<String> = counts.map(|(gate, count)| format!("{count} {}", gate.name())).collect();
    let of = if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
    let head = format!("{name}: {} gates{of} in {} levels\n\n", circuit.gates().len(), circuit.levels().len());
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["", "", "gate by gate:", "", "", "cells:", "", ""]);
    table.add_row(["preset", "inputs", "bootstraps", "levels", "failure", "bootstraps", "levels", "failure"]);
    for pair in runs.chunks_exact(2) {
        let facts = pair.iter().flat_map(|Run { forecast, .. }| {
            [forecast.bootstraps.to_string(), forecast.levels.to_string(), probability(forecast.failure_log2)]
        });
        let names = [pair[0].preset.name(), pair[0].inputs.name()].map(str::to_owned);
        table.add_row(names.into_iter().chain(facts));
    }
    table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    format!("{head}{table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_adder_takes_a_third_of_its_gates_as_bootstraps() {
        let netlist = load_netlist("adder64").unwrap();
        let runs = runs(netlist.circuit(), &[Preset::Fast128K2]);
        let facts = as_json("adder64", netlist.circuit(), &runs);
        assert_eq!((&facts["gates_total"], &facts["levels"]), (&376.into(), &netlist.circuit().levels().len().into()));
        let of = |mapping: &str, inputs: &str| {
            let mut found = facts["runs"].as_array().unwrap().iter();
            found.find(|run| run["mapping"] == mapping && run["inputs"] == inputs).unwrap().clone()
        };
        let cells = of("cells", "fresh");
        assert_eq!((&cells["bootstraps"], &cells["bootstrap_levels"]), (&127.into(), &64.into()));
        let failure = |run: serde_json::Value| run["failure_log2"].as_f64().unwrap();
        assert!(failure(of("none", "results")) > failure(of("none", "fresh")));
        let text = as_table("adder64", netlist.circuit(), &runs);
        for part in ["adder64: 376 gates", "gate by gate:", "fast_128_k2  fresh", "fast_128_k2  results", "127", " 2^-"]
        {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
    }

    #[test]
    fn a_circuit_that_needs_no_bootstrap_cannot_fail() {
        let circuit = Circuit::parse("1 3\n1 2\n1 1\n\n1 1 1 2 EQ\n").unwrap();
        let runs = runs(&circuit, &[Preset::Fast128]);
        let text = as_table("constant", &circuit, &runs);
        assert!(text.starts_with("constant: 0 gates in 0 levels\n"), "{text}");
        assert_eq!(as_json("constant", &circuit, &runs)["runs"][0]["failure_log2"], serde_json::Value::Null);
    }
}
