//! Every stem on every backend, word for word against its definition (`tests::naive`) and against the other backends.
//!
//! One trial a stem, case and backend. A backend that this machine lacks is reported as ignored, never as passed; name it
//! in `REQUIRE_BACKENDS` (`cpu-avx512,cpu-avx2`) to make that a failure.

mod agreement;
mod device;
mod fixtures;
mod host_cuda;
mod lwe_key_switch;
mod ntt;
mod tfhe_bootstrap;
mod wgpu;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial, run};

use device::Device;
use kernels::gpu::Gpu;
use kernels::wgpu::Wgpu;
use tests::host_cuda::HostCuda;

/// One thing to check on every device. What is slow to expect it keeps from the first one.
struct Case {
    /// `stem/case`.
    name: String,
    check: Box<dyn Fn(&Device) + Send + Sync>,
}

impl Case {
    fn new(name: impl Into<String>, check: impl Fn(&Device) + Send + Sync + 'static) -> Case {
        Case { name: name.into(), check: Box::new(check) }
    }
}

fn main() -> ExitCode {
    let required = std::env::var("REQUIRE_BACKENDS").unwrap_or_default();
    let required: Vec<&str> = required.split(',').filter(|name| !name.is_empty()).collect();
    let devices = Device::all();
    for name in &required {
        let known = [EMULATED, SOFTWARE].contains(name) || devices.iter().any(|device| device.name == *name);
        assert!(known, "REQUIRE_BACKENDS: unknown backend {name}");
    }
    let cases = ntt::cases()
        .chain(tfhe_bootstrap::cases())
        .chain(lwe_key_switch::cases())
        .chain(agreement::cases())
        .map(Arc::new);
    let trials = cases.flat_map(|case| {
        let trial = |&device: &Device| trial(case.clone(), device, required.contains(&device.name));
        devices.iter().map(trial).collect::<Vec<Trial>>()
    });
    let trials = trials.chain(emulator_trials(required.contains(&EMULATED)));
    let trials = trials.chain(wgpu_trials(required.contains(&SOFTWARE)));
    run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// The emulated CUDA card, by its name in `DeviceInfo::backend`.
const EMULATED: &str = "cuda-host";

fn emulator_trials(required: bool) -> impl Iterator<Item = Trial> {
    let host = Arc::new(HostCuda::open());
    host_cuda::checks().map(move |(name, check)| {
        let (host, missing) = (host.clone(), host.is_err());
        let run = move || {
            let host = host.as_ref().as_ref().map_err(|error| Failed::from(error.to_string()))?;
            check(host);
            Ok(())
        };
        Trial::test(format!("emulator/{name}/{EMULATED}"), run).with_ignored_flag(missing && !required)
    })
}

/// A software Vulkan driver, by its name in `DeviceInfo::backend`.
const SOFTWARE: &str = "wgpu-software";

fn open_software() -> kernels::Result<Wgpu> {
    let cards = Wgpu::enumerate(true);
    let software = |card: &kernels::Result<Wgpu>| card.as_ref().is_ok_and(|card| card.card().info.backend == SOFTWARE);
    let missing = || Err(kernels::Error::Unavailable("no software Vulkan driver".to_owned()));
    cards.into_iter().find(software).unwrap_or_else(missing)
}

fn wgpu_trials(required: bool) -> impl Iterator<Item = Trial> {
    let missing = open_software().is_err();
    wgpu::checks().into_iter().map(move |(name, check)| {
        let run = move || {
            check(open_software().map_err(|error| Failed::from(error.to_string()))?);
            Ok(())
        };
        Trial::test(format!("card/{name}/{SOFTWARE}"), run).with_ignored_flag(missing && !required)
    })
}

fn trial(case: Arc<Case>, device: Device, required: bool) -> Trial {
    let missing = device.isa.is_none();
    let name = format!("{}/{}", case.name, device.name);
    let check = move || {
        if missing {
            return Err(Failed::from("this machine does not have the backend"));
        }
        (case.check)(&device);
        Ok(())
    };
    Trial::test(name, check).with_ignored_flag(missing && !required)
}
