//! The instructions that `gpu_check` measures: run on the emulated card, and compiled for every kind of card if
//! NVIDIA's compiler is installed.

use std::time::Duration;

use benches::rates::{Form, Pipes, Rounds, Step, measure, sources};
use client::Preset;
use kernels::Error;
use kernels::cuda::CAPABILITIES;
use kernels::cuda::nvrtc::Compiler;
use kernels::gpu::Gpu;
use tests_compute::host_cuda::HostCuda;

#[test]
fn every_rate_is_measured_on_an_emulated_card_with_clusters_and_one_without() {
    for capability in [(8, 0), (9, 0)] {
        let host = match HostCuda::open() {
            Ok(host) => host.with_properties(|properties| {
                properties.compute_capability = Some(capability);
                properties.multiprocessors = 1;
            }),
            Err(Error::Unavailable(_)) => return, // this machine has no C++ compiler with sanitizers
            Err(error) => panic!("{error}"),
        };
        let rounds = Rounds { instructions: 1, l2: 1, barriers: 1, l2_words: 4096 };
        let rates = measure(&host, 1000, rounds, Duration::ZERO).expect("the kernels run");
        let found = [rates.multiply, rates.multiply_high, rates.multiply_wide, rates.shift, rates.reduce, rates.double];
        assert!(found.into_iter().chain([rates.load_shared, rates.l2_bytes]).all(|rate| rate > 0.0), "{rates:?}");
        let forms: Vec<(Form, u32)> = rates.barriers.iter().map(|barrier| (barrier.form, barrier.rows)).collect();
        let of_clusters = [Form::ClusterAll, Form::Cluster].into_iter().filter(|_| capability == (9, 0));
        let of_clusters = of_clusters.flat_map(|form| [1, 64, 500].map(|rows| (form, rows)));
        let of_groups = [Form::Groups, Form::GroupsOnePolls].map(|form| (form, 1));
        assert_eq!(forms, of_clusters.chain(of_groups).collect::<Vec<_>>());
        assert!(rates.barriers.iter().all(|barrier| barrier.wrong == 0), "{:?}", rates.barriers);
        assert!(host.properties().multiprocessors == 1);
    }
}

#[test]
fn the_kernels_compile_for_every_kind_of_card_and_are_made_of_what_they_are_named_after() {
    let Ok(compiler) = Compiler::of_this_machine() else { return };
    for capability in CAPABILITIES {
        for source in sources(capability) {
            compiler.compile(&source, capability).unwrap_or_else(|error| panic!("{error}"));
        }
    }
    // NVIDIA's compiler does not know the compute capability 99.0, so its output is text (PTX)
    let image = compiler.compile(&sources((8, 0))[0], (99, 0)).expect("it compiles");
    let text = String::from_utf8_lossy(&image.bytes).into_owned();
    for (entry, instruction) in [
        ("rate_multiply", "mad.lo.s32"),
        ("rate_multiply_high", "mul.hi.u32"),
        ("rate_multiply_wide", "mul.lo.s64"),
        ("rate_shift", "shr.u32"),
        ("rate_reduce", "min.u32"),
        ("rate_double", "fma.rn.f64"),
        ("rate_load_shared", "ld.shared.v2.u32"),
    ] {
        let from = text.split_once(&format!(".entry {entry}(")).expect("an entry").1;
        let body = from.split(".entry ").next().expect("its text");
        let count = body.matches(instruction).count();
        assert!((128..160).contains(&count), "{entry}: {count} {instruction}");
    }
}

/// A card with the ceiling of a preset, in thousand gates a second.
struct Expected {
    capability: (u32, u32),
    multiprocessors: u32,
    clock_khz: u32,
    preset: Preset,
    kilogates: f64,
}

const H200: Expected = Expected {
    capability: (9, 0),
    multiprocessors: 132,
    clock_khz: 1_980_000,
    preset: Preset::Fast128,
    kilogates: 142.0,
};
const A100: Expected = Expected {
    capability: (8, 0),
    multiprocessors: 108,
    clock_khz: 1_410_000,
    preset: Preset::Fast128K2,
    kilogates: 89.0,
};
const RTX_4090: Expected = Expected {
    capability: (8, 9),
    multiprocessors: 128,
    clock_khz: 2_520_000,
    preset: Preset::Fast128K2,
    kilogates: 190.0,
};
const RTX_5090: Expected = Expected {
    capability: (12, 0),
    multiprocessors: 170,
    clock_khz: 2_410_000,
    preset: Preset::Fast128K2,
    kilogates: 261.0,
};

/// The figures were computed by hand from the disassembled loops of NVRTC 12.9, with the rates of the assembler. Another
/// compiler gives a few per cent more or fewer instructions.
#[test]
fn the_ceilings_of_the_compiled_kernels_are_those_computed_by_hand_within_four_per_cent() {
    let Ok(compiler) = Compiler::of_this_machine() else { return };
    let expected = [
        H200,
        Expected { preset: Preset::Fast128K2, kilogates: 174.0, ..H200 },
        Expected { preset: Preset::Conservative128, kilogates: 92.0, ..H200 },
        A100,
        RTX_4090,
        RTX_5090,
    ];
    for Expected { capability, multiprocessors, clock_khz, preset, kilogates } in expected {
        let step = Step::of(capability, &preset.params(), |source| compiler.compile(source, capability));
        let step = step.expect("it compiles").expect("the card has transforms in registers");
        let found = step.gates_a_second(&Pipes::OF_THE_ASSEMBLER, multiprocessors, clock_khz) / 1e3;
        let name = preset.name();
        println!("{capability:?} {name}: {found:.1} thousand gates/s, {step:?}");
        assert!((found / kilogates - 1.0).abs() < 0.04, "{capability:?} {name}: {found:.1}, not {kilogates}: {step:?}");
    }
    let turing = Step::of((7, 5), &Preset::Fast128.params(), |_| panic!("the plain kernel has no such loop"));
    assert!(turing.expect("nothing is compiled").is_none());
}
