//! Every CUDA kernel of every preset, compiled for every kind of supported card, within its budget of registers, memory and
//! instructions.
//!
//! The suite needs no card, but it needs NVIDIA's run-time compiler on the path of the dynamic linker (`.ci/run`
//! installs the Python wheel and puts its folder into `LD_LIBRARY_PATH`). Without the compiler the trials are ignored,
//! never passed; with `REQUIRE_BACKENDS=nvrtc` they fail. The suite `backends` checks on the host that the kernels
//! compute the right words.

mod budget;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use kernels::Card;
use kernels::ckks::params::POLY_DEGREES;
use kernels::cuda::cubin::{self, Count, Cubin, Use};
use kernels::cuda::nvrtc::Compiler;
use kernels::cuda::{CAPABILITIES, Paper, architecture};
use kernels::gpu::Source;
use kernels::stems::entries;
use kernels::tfhe::{Gates, Preset};
use libtest_mimic::{Arguments, Failed, Trial, run};

/// For each compiled entry and architecture, the largest amount of each resource that the entry takes.
type Table = Arc<Mutex<BTreeMap<(String, String), Use>>>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let required = std::env::var("REQUIRE_BACKENDS").unwrap_or_default().split(',').any(|name| name == "nvrtc");
    let missing = Compiler::of_this_machine().err();
    let ignored = missing.is_some() && !required;
    let trial = |name: String, check: Box<dyn FnOnce() -> Result<(), Failed> + Send>| {
        Trial::test(name, check).with_ignored_flag(ignored)
    };
    let table = Table::default();
    let mut trials = Vec::new();
    for capability in CAPABILITIES {
        let mut seen = BTreeSet::new();
        let of_presets = Preset::ALL.map(|preset| {
            let paper = Paper::new(capability);
            Card::new(paper.clone()).prepare(&preset.params()).expect("a card without memory accepts everything");
            (preset.name().to_owned(), paper)
        });
        // the degrees below are for tests, and a warp has a multiprocessor's registers to itself there
        let of_degrees = POLY_DEGREES.into_iter().filter(|&degree| degree >= 4096).map(|degree| {
            let paper = Paper::new(capability);
            Card::new(paper.clone()).prepare_degree(degree).expect("a card without memory accepts everything");
            (format!("N{degree}"), paper)
        });
        for (name, paper) in of_presets.into_iter().chain(of_degrees) {
            for source in paper.sources() {
                // several presets may have the same source, which is compiled once
                if !seen.insert(source.text.clone()) {
                    continue;
                }
                let name = format!("{}/{}/{}", source.stem, name, architecture(capability));
                let table = table.clone();
                trials.push(trial(name, Box::new(move || within_budget(&source, capability, &table))));
            }
        }
    }
    trials.push(trial("reader/agrees_with_the_assembler".into(), Box::new(the_reader_agrees_with_the_assembler)));
    trials.push(trial("budget/catches_what_spills".into(), Box::new(what_spills_is_caught)));
    trials.push(trial("compiler/says_what_is_wrong".into(), Box::new(a_broken_kernel_is_named)));
    trials.push(trial("compiler/compiles_for_newer_cards".into(), Box::new(newer_cards_get_text_for_their_driver)));
    trials.push(trial("barriers/of_newer_and_older_compilers".into(), Box::new(both_forms_of_a_barrier_compile)));
    let all = arguments.filter.is_none() && !ignored;
    let conclusion = run(&arguments, trials);
    print_table(&table);
    let compiled: BTreeSet<String> =
        table.lock().expect("no trial panicked").keys().map(|(name, _)| name.clone()).collect();
    let missing: Vec<&str> =
        entries().map(|entry| entry.name).filter(|name| all && !compiled.contains(*name)).collect();
    if !missing.is_empty() {
        println!("kernels::stems: {} was not compiled", missing.join(", "));
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

fn compile(source: &Source, capability: (u32, u32)) -> Result<Cubin, Failed> {
    Ok(cubin::read(&Compiler::of_this_machine()?.compile(source, capability)?.bytes))
}

fn within_budget(source: &Source, capability: (u32, u32), table: &Table) -> Result<(), Failed> {
    let Cubin { entries, subroutines } = compile(source, capability)?;
    let mut wrong: Vec<String> = subroutines.into_iter().map(|name| format!("{name} is called, not inlined")).collect();
    for (entry, used) in entries {
        wrong.extend(budget::verdict(&entry, capability, used).err());
        let mut table = table.lock().expect("a trial does not panic here");
        let most = table.entry((entry, architecture(capability))).or_default();
        // all counts are from the longest text, because counts from different texts cannot be combined
        if used.text_bytes > most.text_bytes {
            (most.text_bytes, most.count, most.turn) = (used.text_bytes, used.count, used.turn);
        }
        most.registers = most.registers.max(used.registers);
        most.stack_bytes = most.stack_bytes.max(used.stack_bytes);
        most.shared_bytes = most.shared_bytes.max(used.shared_bytes);
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

fn print_table(table: &Table) {
    let table = table.lock().expect("no trial panicked");
    if table.is_empty() {
        return;
    }
    println!(
        "| entry | architecture | registers | stack bytes | shared bytes | text bytes | IMAD | IMAD.HI | IMAD.WIDE | IADD3 | \
         VIADDMNMX | VIMNMX | LOP3 | LDG | LDS | ALU | in the longest loop: IMAD | IMAD.HI | IMAD.WIDE | ALU | all |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for ((entry, architecture), used) in &*table {
        let Use { registers, stack_bytes, shared_bytes, text_bytes, count, turn } = used;
        let Count {
            multiply,
            multiply_high,
            multiply_wide,
            add,
            add_min,
            min,
            logic,
            load_global,
            load_shared,
            alu,
            ..
        } = count;
        println!(
            "| {entry} | {architecture} | {registers} | {stack_bytes} | {shared_bytes} | {text_bytes} | {multiply} | \
             {multiply_high} | {multiply_wide} | {add} | {add_min} | {min} | {logic} | {load_global} | {load_shared} | {alu} | \
             {} | {} | {} | {} | {} |",
            turn.multiply, turn.multiply_high, turn.multiply_wide, turn.alu, turn.issued
        );
    }
}

fn source(stem: &'static str, text: &str) -> Source {
    Source { stem, text: text.into() }
}

/// `spills` needs 128 words at the same time, but each of its thousand threads has only 64 registers.
const SPILLS: &str = r#"
extern "C" __global__ void __launch_bounds__(1024) spills(unsigned* a) {
    __shared__ unsigned s[1024];
    unsigned v[128];
#pragma unroll
    for (int i = 0; i < 128; i++) v[i] = a[threadIdx.x + 1024 * i];
    s[threadIdx.x] = v[3];
    __syncthreads();
    for (int k = 0; k < 100; k++) {
#pragma unroll
        for (int i = 0; i < 128; i++) v[i] = v[i] * v[(i + 7) % 128] + s[(threadIdx.x + i) % 1024];
    }
#pragma unroll
    for (int i = 0; i < 128; i++) a[threadIdx.x + 1024 * i] = v[i];
}
extern "C" __global__ void modest(unsigned* a, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = __umulhi(a[i], n);
}
"#;

fn the_reader_agrees_with_the_assembler() -> Result<(), Failed> {
    for capability in CAPABILITIES {
        let Cubin { entries, .. } = compile(&source("spills", SPILLS), capability)?;
        let (spills, modest) = (entries["spills"], entries["modest"]);
        // the launch bounds of `spills` allow at most 64 registers, and its work needs at least as many
        assert_eq!((spills.registers, spills.shared_bytes), (64, 4096), "{capability:?}");
        assert!(spills.stack_bytes >= 64 * 4, "{capability:?}: {spills:?}");
        assert!((4..=16).contains(&modest.registers), "{capability:?}: {modest:?}");
        assert_eq!((modest.stack_bytes, modest.shared_bytes), (0, 0), "{capability:?}");
        // `modest` loads one word and takes the high word of one product. `spills` loads 128 words, and its loop over `k`
        // has 128 products and 128 loads from shared memory.
        assert_eq!((modest.count.load_global, modest.count.multiply_high), (1, 1), "{capability:?}: {modest:?}");
        assert_eq!(modest.count.load_shared, 0, "{capability:?}: {modest:?}");
        assert!(spills.count.multiply >= 128 && spills.count.load_global >= 128, "{capability:?}: {spills:?}");
        // the loop has none of the loads before it and of the stores after it
        let (whole, turn) = (spills.count, spills.turn);
        assert!((128..160).contains(&turn.multiply) && turn.load_global == 0, "{capability:?}: {turn:?}");
        assert!(
            turn.issued >= 256 && turn.issued + 256 <= whole.issued && turn.alu < whole.alu,
            "{capability:?}: {turn:?}"
        );
        assert_eq!((16 * whole.issued, modest.turn), (spills.text_bytes, Count::default()), "{capability:?}");
        assert!(spills.count.load_shared >= 128 && spills.text_bytes >= 16 * 400, "{capability:?}: {spills:?}");
    }
    Ok(())
}

fn what_spills_is_caught() -> Result<(), Failed> {
    let entry = entries().next().ok_or("kernels::stems is empty")?;
    let text = SPILLS.replace("spills", entry.name);
    let wrong = within_budget(&source("spills", &text), (9, 0), &Table::default()).expect_err("it spills");
    let message = wrong.message().unwrap_or_default();
    assert!(message.contains("bytes of stack") && message.contains("modest has no line"), "{message}");
    assert!(message.contains("bytes of text") && message.contains("loads of global memory"), "{message}");
    Ok(())
}

fn a_broken_kernel_is_named() -> Result<(), Failed> {
    let error =
        Compiler::of_this_machine()?.compile(&source("broken", "extern \"C\" __global__ void f() { g(); }"), (9, 0));
    let error = error.expect_err("the source calls an unknown function").to_string();
    assert!(error.contains("broken for sm_90 by nvrtc") && error.contains("identifier \"g\" is undefined"), "{error}");
    Ok(())
}

fn newer_cards_get_text_for_their_driver() -> Result<(), Failed> {
    let compiler = Compiler::of_this_machine()?;
    assert!(CAPABILITIES.iter().all(|&capability| compiler.knows(capability)), "{}", compiler.name());
    let image = compiler.compile(&source("spills", SPILLS), (99, 0))?;
    let text = String::from_utf8(image.bytes).map_err(|_| "not text")?;
    assert!(text.contains(".target sm_") && text.ends_with('\0'));
    Ok(())
}

/// The barrier of clusters has a form for compilers from CUDA 12.7 on and a form for older ones. This compiler is new, so
/// the older form is made by telling the text another version.
fn both_forms_of_a_barrier_compile() -> Result<(), Failed> {
    let compiler = Compiler::of_this_machine()?;
    let helpers = include_str!("../../../shaders/blind_rotate.async.cu");
    let kernel = r#"
extern "C" __global__ void barriers(unsigned* arrived) {
    cluster_sync();
    groups_sync(arrived, 8);
}
"#;
    let new = [helpers, kernel].concat();
    let old = new.replace("__CUDACC_VER_MAJOR__", "12").replace("__CUDACC_VER_MINOR__", "6");
    assert_ne!(new, old, "the text asks for the compiler's version");
    for (text, is_new) in [(new, true), (old, false)] {
        for capability in [(9, 0), (10, 0), (12, 0)] {
            compile(&source("barriers", &text), capability)?;
        }
        // PTX of the newest architecture
        let image = compiler.compile(&source("barriers", &text), (99, 0))?;
        let ptx = String::from_utf8(image.bytes).map_err(|_| "not text")?;
        let forms = ["fence.release.sync_restrict::shared::cta", "barrier.cluster.arrive.release"];
        assert_eq!(forms.map(|form| ptx.contains(form)), [is_new, !is_new], "{ptx}");
    }
    Ok(())
}
