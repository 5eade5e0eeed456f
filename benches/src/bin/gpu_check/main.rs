//! Measures a device: gates a second, latency, single kernels, the share of the limit that its arithmetic sets, and
//! operations on numbers.
//!
//! The program runs without other files on a machine with a card (`scripts/gpu-check` packs it), and with
//! `--backend cpu` on any machine.

mod figures;
mod measure;
mod numbers;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use benches::rates::{self, Rounds, Step};
use clap::Parser;
use client::{Preset, SecretKey};
use kernels::Backend;
use kernels::cuda::nvrtc::Compiler;
use kernels::cuda::{CAPABILITIES, Cache, architecture};
use kernels::detect::{AnyDevice, Choice, detect, untried};
use kernels::gpu::Gpu;
use kernels::tfhe::{EvaluationKey, Gates};

use figures::Figures;
use measure::NandGates;
use numbers::Measured;

const BATCHES: &str = "1,16,64,132,198,199,264,265,528,529,792,793,1024,1056,1057,2112,16384";
/// Largest number of sessions of one gate each; a key takes about 40 MB.
const SESSIONS_MAX: usize = 64;

#[derive(Parser)]
struct Arguments {
    /// auto, cuda, wgpu or cpu
    #[arg(long, default_value = "auto")]
    backend: Choice,
    /// fast_128, standard_128, conservative_128, fast_128_k2 or standard_128_k2
    #[arg(long, default_value = "fast_128", value_parser = preset)]
    preset: Preset,
    /// Folder of compiled kernels
    #[arg(long)]
    kernels: Option<PathBuf>,
    /// Folder for the compiled kernels of the measurements, for every architecture; with this option nothing is
    /// measured
    #[arg(long)]
    precompile: Option<PathBuf>,
    /// Sizes of batches, in gates; the default has a size on each side of every size at which a card of 132
    /// multiprocessors changes to another kernel
    #[arg(long, value_delimiter = ',', default_value = BATCHES, value_parser = clap::value_parser!(u32).range(1..))]
    batches: Vec<u32>,
    /// Operations on numbers to measure
    #[arg(long, value_delimiter = ',', default_value = "product,bootstrap")]
    numbers: Vec<Measured>,
    /// Seconds for each figure
    #[arg(long, default_value = "3")]
    seconds: u64,
    /// Date printed with the figures
    #[arg(long, default_value = "")]
    date: String,
    /// File for the figures as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

fn preset(name: &str) -> Result<Preset, String> {
    Preset::from_name(name).ok_or_else(|| format!("not one of {}", Preset::ALL.map(Preset::name).join(", ")))
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(folder) = &arguments.precompile {
        return precompile(folder);
    }
    let found = detect(arguments.backend, arguments.kernels.as_deref(), &untried);
    for passed in &found.passed_over {
        eprintln!("passed over: {}: {}", passed.backend, passed.reason);
    }
    if found.devices.iter().any(|device| !asked_for(arguments.backend, device)) {
        return Err(format!("no device of backend {} computes here", arguments.backend.name()).into());
    }
    let secret = SecretKey::generate(arguments.preset);
    let key = secret.evaluation_key();
    let time = Duration::from_secs(arguments.seconds);
    let mut all = Vec::new();
    for device in &found.devices {
        let figures = match device {
            AnyDevice::Cpu(cpu) => {
                let mut figures = Figures::new(cpu.info(), arguments.preset.name(), &arguments.date);
                gates(&mut figures, arguments, cpu, &key, &secret)?;
                measure::processor(&mut figures, cpu, &key, &secret, time)?;
                numbers::measure(&mut figures, cpu, &arguments.numbers, time)?;
                figures
            }
            AnyDevice::Cuda(card) => {
                let (multiprocessors, clock_khz) = (card.gpu().properties().multiprocessors, card.gpu().clock_khz()?);
                let step = step(arguments, card.gpu())?;
                let rates = rates::measure(card.gpu(), clock_khz, Rounds::CARD, time)?;
                let mut figures = Figures::new(card.info(), arguments.preset.name(), &arguments.date);
                measure::rates(&mut figures, &rates);
                gates(&mut figures, arguments, &**card, &key, &secret)?;
                if let Some(step) = step {
                    measure::ceiling(&mut figures, multiprocessors, clock_khz, &step, &rates);
                }
                measure::stems(&mut figures, card, &key, time)?;
                numbers::measure(&mut figures, &**card, &arguments.numbers, time)?;
                figures
            }
            AnyDevice::Wgpu(card) => {
                let mut figures = Figures::new(card.info(), arguments.preset.name(), &arguments.date);
                gates(&mut figures, arguments, &**card, &key, &secret)?;
                measure::stems(&mut figures, card, &key, time)?;
                numbers::measure(&mut figures, &**card, &arguments.numbers, time)?;
                figures
            }
        };
        println!("{}", figures.table());
        all.push(figures.json());
    }
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_string_pretty(&all)? + "\n")?;
    }
    Ok(())
}

/// Counts the instructions of a step in the packed kernel, or in a newly compiled one.
fn step<G: Gpu>(arguments: &Arguments, gpu: &G) -> kernels::Result<Option<Step>> {
    let Some(capability) = gpu.properties().compute_capability else { return Ok(None) };
    let cache = arguments.kernels.as_deref().and_then(Cache::open);
    Step::of(capability, &arguments.preset.params(), |source| {
        let packed = cache.as_ref().and_then(|cache| cache.get(&architecture(capability), &source.text));
        packed.map_or_else(|| Compiler::of_this_machine()?.compile(source, capability), Ok)
    })
}

/// Compiles the kernels that [`rates::measure`] launches.
fn precompile(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let compiler = Compiler::of_this_machine()?;
    let cache = Cache::open(folder)
        .ok_or_else(|| format!("{}: the folder cannot be made, or other users may write to it", folder.display()))?;
    for capability in CAPABILITIES.into_iter().filter(|&capability| compiler.knows(capability)) {
        for source in rates::sources(capability) {
            cache.put(&architecture(capability), &source.text, &compiler.compile(&source, capability)?);
        }
    }
    Ok(())
}

/// Whether a device is of the requested kind, or any kind was requested.
fn asked_for(choice: Choice, device: &AnyDevice) -> bool {
    match device {
        _ if choice == Choice::Auto => true,
        AnyDevice::Cpu(_) => choice == Choice::Cpu,
        AnyDevice::Cuda(_) => choice == Choice::Cuda,
        AnyDevice::Wgpu(_) => choice == Choice::Wgpu,
    }
}

fn gates<B: Gates>(
    figures: &mut Figures,
    arguments: &Arguments,
    backend: &B,
    key: &EvaluationKey,
    secret: &SecretKey,
) -> kernels::Result<()> {
    let time = Duration::from_secs(arguments.seconds);
    let gates = NandGates::new(backend, key, secret)?;
    figures.add("one gate alone, there and back", gates.latency_ms(time)?, "ms");
    for &batch in &arguments.batches {
        figures.add(format!("NAND in batches of {batch}"), gates.rate(batch as usize, time)?, "gates/s");
    }
    let sessions = backend.info().keys_together_max.min(SESSIONS_MAX);
    if sessions > 1 {
        let [after, beside] = gates.sessions(key, sessions, time)?;
        figures.add(format!("{sessions} sessions of one NAND, one after another"), after, "gates/s");
        figures.add(format!("{sessions} sessions of one NAND, side by side"), beside, "gates/s");
    }
    Ok(())
}
