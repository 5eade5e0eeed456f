//! Every kernel (stem) on every backend, compared word for word with its definition (`tests_compute::naive`) and with
//! the other backends.
//!
//! Each trial is one stem, case and backend. The trials of a backend that this machine lacks are reported as ignored,
//! never as passed. If the backend is in the list `REQUIRE_BACKENDS` (such as `cpu-avx512,cuda-host`), they fail
//! instead. `KERNEL_CACHE` is the folder of compiled kernels for real CUDA cards, which need no compiler for kernels in
//! the folder. With `PRECOMPILE`, the suite fills such a folder instead of running trials.

mod agreement;
mod any_backend;
mod arena;
mod broken;
mod broken_numbers;
mod broken_wgsl;
mod cells;
mod device;
mod emulator;
mod fast_paths;
mod fixtures;
mod junk;
mod launches;
mod lwe_key_switch;
mod ntt;
mod numbers;
mod precompile;
mod replays;
mod stems;
mod tfhe_bootstrap;
mod together;
mod wgpu;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial, run};

use kernels::stems::STEMS;

use device::Device;
use stems::StemCase;

/// A check for the devices that `on` accepts. Expected words that take long to compute are computed once, for the first
/// device, and kept.
struct Case {
    /// `stem/case`.
    name: String,
    on: fn(&Device) -> bool,
    check: Box<dyn Fn(&Device) + Send + Sync>,
}

impl Case {
    /// A case for every device.
    fn small(name: impl Into<String>, check: impl Fn(&Device) + Send + Sync + 'static) -> Case {
        Case { name: name.into(), on: |device| !device.fast_paths_only, check: Box::new(check) }
    }

    /// A case for devices that are not emulated.
    fn large(name: impl Into<String>, check: impl Fn(&Device) + Send + Sync + 'static) -> Case {
        Case { on: |device| !device.small_only, ..Case::small(name, check) }
    }

    /// A case for real cards, and for emulated devices that stand for a kind of card.
    fn fast_path(name: impl Into<String>, check: impl Fn(&Device) + Send + Sync + 'static) -> Case {
        let on = |device: &Device| device.fast_paths_only || (device.is_gpu() && !device.small_only);
        Case { on, ..Case::small(name, check) }
    }
}

fn stems() -> impl Iterator<Item = Case> {
    let junk = Case {
        on: Device::is_gpu,
        ..Case::small("scratch/no kernel reads unwritten memory", |device: &Device| {
            device.check_stem(&StemCase::junk());
        })
    };
    let alone = StemCase::all().map(|(name, case)| Case {
        on: |device| device.is_gpu() && !device.fast_paths_only,
        ..Case::small(name, move |device: &Device| device.check_stem(&case))
    });
    alone.chain([junk])
}

fn main() -> ExitCode {
    let required = std::env::var("REQUIRE_BACKENDS").unwrap_or_default();
    let required: Vec<&str> = required.split(',').filter(|name| !name.is_empty()).collect();
    let devices: Vec<Arc<Device>> = Device::all().into_iter().map(Arc::new).collect();
    for name in &required {
        // `nvrtc` is no device: the word stands for the compiler that another suite needs
        let known = *name == "nvrtc" || devices.iter().any(|device| device.name == *name);
        assert!(known, "REQUIRE_BACKENDS: unknown backend {name}");
    }
    let cases = ntt::cases()
        .chain(numbers::cases())
        .chain(tfhe_bootstrap::cases())
        .chain(lwe_key_switch::cases())
        .chain(cells::cases())
        .chain(arena::cases())
        .chain(together::cases())
        .chain(agreement::cases())
        .chain(fast_paths::cases())
        .chain(stems())
        .chain(replays::cases())
        .chain(emulator::cases())
        .chain(broken::cases())
        .chain(broken_wgsl::cases())
        .chain(broken_numbers::cases())
        .chain(wgpu::cases())
        .map(Arc::new);
    let cases: Vec<Arc<Case>> = cases.collect();
    for stem in STEMS {
        let is_of_stem = |case: &Arc<Case>| case.name.trim_start_matches("stems/").split('/').next() == Some(stem.name);
        assert!(cases.iter().any(is_of_stem), "no case of the stem {}", stem.name);
    }
    if let Some(folder) = std::env::var_os("PRECOMPILE") {
        return precompile::precompile(folder.as_ref(), &cases);
    }
    let trials = cases.into_iter().flat_map(|case| {
        let devices = devices.iter().filter(|device| (case.on)(device));
        let trial = |device: &Arc<Device>| trial(case.clone(), device.clone(), required.contains(&device.name));
        devices.map(trial).collect::<Vec<Trial>>()
    });
    run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn trial(case: Arc<Case>, device: Arc<Device>, required: bool) -> Trial {
    let missing = device.missing.is_some();
    let name = format!("{}/{}", case.name, device.name);
    let check = move || {
        if let Some(reason) = &device.missing {
            return Err(Failed::from(format!("this machine lacks the backend: {reason}")));
        }
        (case.check)(&device);
        Ok(())
    };
    Trial::test(name, check).with_ignored_flag(missing && !required)
}
