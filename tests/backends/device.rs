//! The backends that the suite knows, present or not.

use kernels::cpu::{Cpu, Isa};

/// A backend by its name in `DeviceInfo::backend`.
#[derive(Clone, Copy)]
pub struct Device {
    pub name: &'static str,
    /// The instruction set, if this machine has it.
    pub isa: Option<Isa>,
}

impl Device {
    /// All backends of this build.
    pub fn all() -> Vec<Device> {
        let available = Isa::available();
        let named = |name: &'static str| {
            let isa = available.iter().copied().find(|isa| name.strip_prefix("cpu-") == Some(isa.name()));
            Device { name, isa }
        };
        ["cpu-avx512", "cpu-avx2", "cpu-portable"].map(named).to_vec()
    }

    /// The instruction set of a backend that is here.
    pub fn isa(&self) -> Isa {
        self.isa.expect("trials run where the backend is")
    }

    /// The backend with this many threads.
    pub fn open(&self, threads: usize) -> Cpu {
        Cpu::with(self.isa(), threads)
    }
}
