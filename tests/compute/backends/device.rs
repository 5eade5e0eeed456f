//! The backends that the suite knows, including backends that this machine lacks.

use std::path::PathBuf;

use kernels::cpu::{Cpu, Isa};
use kernels::cuda::{Cuda, shared_bytes_max};
use kernels::gpu::Gpu;
use kernels::{Card, Error, Result};
use tests_compute::host_cuda::HostCuda;
use tests_extent::Extent;

use crate::any_backend::{AnyBackend, any};
use crate::numbers::NumbersCase;
use crate::stems::StemCase;
use crate::wgpu;

/// Opens a backend with a number of threads.
type Open = Box<dyn Fn(usize) -> Result<Box<AnyBackend>> + Send + Sync>;
/// Runs operations on encrypted numbers.
type CheckNumbers = Box<dyn Fn(&NumbersCase) + Send + Sync>;
/// Launches the kernel of one stem alone.
type CheckStem = Box<dyn Fn(&StemCase) + Send + Sync>;

/// An emulated card with this compute capability, and with as much shared memory as real cards of the capability have.
/// So batches take the fast paths: the cluster's path for few rows, the warp's path for more rows.
pub fn emulated(capability: (u32, u32), multiprocessors: u32) -> Result<HostCuda> {
    Ok(HostCuda::open()?.with_properties(|properties| {
        properties.compute_capability = Some(capability);
        properties.shared_bytes_max = shared_bytes_max(capability);
        properties.multiprocessors = multiprocessors;
    }))
}

/// A backend that the suite knows; `name` is its name in `DeviceInfo::backend`.
pub struct Device {
    pub name: &'static str,
    /// The reason why this machine lacks the backend, if it does.
    pub missing: Option<Error>,
    /// The numbers of threads for which the backend behaves differently.
    pub threads: &'static [usize],
    /// Whether the backend takes small cases only, because it computes slowly on the host.
    pub small_only: bool,
    /// Whether the device runs only the cases of fast paths. Then another device of this kind of card runs all other
    /// cases.
    pub fast_paths_only: bool,
    /// The instruction set of a CPU.
    pub isa: Option<Isa>,
    open: Open,
    numbers: CheckNumbers,
    /// Launches the kernel of one stem alone and checks its words. CPUs have no launches, so they have no such check.
    stem: Option<CheckStem>,
}

/// The first NVIDIA card.
fn first_cuda() -> Result<Cuda> {
    let cache = std::env::var_os("KERNEL_CACHE").map(PathBuf::from);
    Cuda::enumerate(cache.as_deref()).into_iter().next().expect("a card, or the reason why it is missing")
}

impl Device {
    /// All backends of this build, in a short run without the emulated kinds of cards. To add a GPU, add a line.
    pub fn all() -> Vec<Device> {
        let mut devices = vec![
            Device::cpu("cpu-avx512"),
            Device::cpu("cpu-avx2"),
            Device::cpu("cpu-portable"),
            Device::gpu("cuda-host", true, HostCuda::open),
            Device::gpu("wgpu-software", true, wgpu::open_software),
            Device::gpu("wgpu", false, wgpu::open_card),
            Device::gpu("cuda", false, first_cuda),
        ];
        if Extent::named().is_full() {
            devices.extend([
                Device::gpu("wgpu-software-narrow", true, wgpu::open_software_narrow),
                Device::gpu("cuda-host-sm80", true, || emulated((8, 0), 8)).fast_paths_only(),
                Device::gpu("cuda-host-sm89", true, || emulated((8, 9), 2)).fast_paths_only(),
                Device::gpu("cuda-host-sm90", true, || emulated((9, 0), 1)).fast_paths_only(),
            ]);
        }
        devices
    }

    fn cpu(name: &'static str) -> Device {
        let isa = Isa::available().into_iter().find(|isa| name.strip_prefix("cpu-") == Some(isa.name()));
        let missing = || Error::Unavailable("this processor lacks the instruction set".into());
        Device {
            name,
            missing: isa.is_none().then(missing),
            threads: &[1, 2, 3],
            small_only: false,
            fast_paths_only: false,
            isa,
            open: Box::new(move |threads| {
                let isa = isa.ok_or_else(missing)?;
                Ok(any(Cpu::with(isa, threads)))
            }),
            numbers: Box::new(move |case| {
                let isa = isa.expect("trials run only on machines with the backend");
                [1, 2].into_iter().for_each(|threads| case.check(&Cpu::with(isa, threads)));
            }),
            stem: None,
        }
    }

    /// A card, which `open` opens anew for every case.
    pub fn gpu<G: Gpu>(
        name: &'static str,
        small_only: bool,
        open: impl Fn() -> Result<G> + Clone + Send + Sync + 'static,
    ) -> Device {
        let (opened, of_numbers) = (open.clone(), open.clone());
        Device {
            name,
            missing: open().err(),
            threads: &[1],
            small_only,
            fast_paths_only: false,
            isa: None,
            open: Box::new(move |_| Ok(any(Card::new(opened()?)))),
            numbers: Box::new(move |case| {
                case.check(&Card::new(of_numbers().expect("trials run only on machines with the backend")));
            }),
            stem: Some(Box::new(move |case| case.check(open().expect("trials run only on machines with the backend")))),
        }
    }

    fn fast_paths_only(self) -> Device {
        Device { fast_paths_only: true, ..self }
    }

    /// Opens the backend. A backend that uses threads gets this many of them.
    pub fn open(&self, threads: usize) -> Box<AnyBackend> {
        (self.open)(threads).expect("trials run only on machines with the backend")
    }

    /// Runs operations on encrypted numbers and checks their words.
    pub fn check_numbers(&self, case: &NumbersCase) {
        (self.numbers)(case);
    }

    /// Whether the device is a card, whose kernels can be launched one by one.
    pub fn is_gpu(&self) -> bool {
        self.stem.is_some()
    }

    /// Launches the kernel of one stem alone.
    pub fn check_stem(&self, case: &StemCase) {
        self.stem.as_ref().expect("only cards are asked")(case);
    }
}
