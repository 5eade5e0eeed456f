//! The instructions that `gpu_check` measures: run on the emulated card, and compiled for every kind of card if
//! NVIDIA's compiler is installed.

use std::time::Duration;

use benches::rates::{Form, Rounds, measure, sources};
use kernels::Error;
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
        let found = [rates.multiply, rates.multiply_high, rates.multiply_wide, rates.reduce, rates.double];
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
    for capability in [(7, 5), (8, 0), (9, 0), (10, 0), (12, 0)] {
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
