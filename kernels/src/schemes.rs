//! The interface of a device for all schemes, and the cards that implement it. Apart from tests, only this file refers
//! to both schemes (`tfhe` and `ckks`).

use crate::backend::{Backend, DeviceInfo};
use crate::ckks::{self, Arithmetic, KeyedSteps, PartShape, SeededRow};
use crate::error::Result;
use crate::gpu::{self, Gpu};
use crate::tfhe::{self, EvaluationKey, Gates, KeyedGates, Params, Stems};

/// A device that the engine may open. A device that cannot compute on encrypted numbers (CKKS) reports that through
/// [`Arithmetic::tables_bytes`].
pub trait Schemes: Gates + Arithmetic {
    /// Names the schemes that the device computes: `tfhe` for gates, `ckks` for encrypted numbers.
    fn schemes(&self) -> Vec<&'static str> {
        let security = ckks::SecurityLevel::Testing;
        let smallest =
            ckks::ParamsLiteral { poly_degree: 64, scale_bits: 30, max_depth: 1, security, bootstrap: false };
        let numbers = ckks::Params::new(smallest).is_ok_and(|params| self.tables_bytes(&params).is_some());
        if numbers { vec!["tfhe", "ckks"] } else { vec!["tfhe"] }
    }
}

impl<B: Gates + Arithmetic> Schemes for B {}

/// A card as a device of all schemes.
pub struct Card<G: Gpu> {
    device: gpu::Device<G>,
    gates: tfhe::gpu::Kernels<G>,
    numbers: ckks::gpu::Kernels<G>,
}

impl<G: Gpu> Card<G> {
    /// Wraps an opened GPU.
    pub fn new(gpu: G) -> Card<G> {
        let info = tfhe::gpu::device_info(gpu.properties());
        let (gates, numbers) = Default::default();
        Card { device: gpu::Device::new(gpu, info), gates, numbers }
    }

    /// Sets the largest useful number of bootstraps in a batch ([`DeviceInfo::rows_max`]).
    pub fn set_rows_max(&mut self, rows: usize) {
        self.device.set_rows_max(rows);
    }

    /// Compiles the kernels of numbers for rows of this degree.
    ///
    /// # Errors
    /// The card's error.
    pub fn prepare_degree(&self, polynomial_size: usize) -> Result<()> {
        self.numbers.prepare(&self.device, polynomial_size)
    }

    /// The GPU.
    pub fn gpu(&self) -> &G {
        self.device.gpu()
    }
}

impl<G: Gpu> Backend for Card<G> {
    type Arena = gpu::Arena<G>;
    type Pending = gpu::Pending<G>;

    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn arena(&self, row_words: usize, slots: usize) -> Result<gpu::Arena<G>> {
        self.device.arena(row_words, slots)
    }

    fn grow(&self, arena: &mut gpu::Arena<G>, slots: usize) -> Result<()> {
        self.device.grow(arena, slots)
    }

    fn write(&self, arena: &mut gpu::Arena<G>, first: u32, words: &[u32]) -> Result<()> {
        self.device.write(arena, first, words)
    }

    fn read(&self, arena: &gpu::Arena<G>, slots: &[u32]) -> Result<gpu::Pending<G>> {
        self.device.read(arena, slots)
    }

    fn wait(&self, pending: &gpu::Pending<G>, wanted: &mut dyn FnMut() -> bool) -> Result<bool> {
        self.device.wait(pending, wanted)
    }

    fn finish(&self, pending: gpu::Pending<G>) -> Result<Vec<u32>> {
        self.device.finish(pending)
    }
}

impl<G: Gpu> Gates for Card<G> {
    type Key = tfhe::gpu::Key<G>;

    fn prepare(&self, params: &Params) -> Result<()> {
        self.gates.prepare(&self.device, params)
    }

    fn room_for_key(&self, params: &Params) -> Result<Self::Key> {
        self.gates.room_for_key(&self.device, params)
    }

    fn load_piece(&self, into: &mut Self::Key, piece: usize, key: &EvaluationKey) -> Result<bool> {
        self.gates.load_piece(&self.device, into, piece, key)
    }

    fn key_bytes(&self, params: &Params) -> u64 {
        self.gates.key_bytes(params)
    }

    fn evaluate_together(&self, batches: &mut [KeyedGates<'_, Self::Key, Self::Arena>]) -> Result<Self::Pending> {
        self.gates.evaluate_together(&self.device, batches)
    }
}

impl<G: Gpu> Stems for Card<G> {
    fn bootstrap(&self, key: &Self::Key, inputs: &[u32]) -> Result<Vec<u32>> {
        self.gates.bootstrap(&self.device, key, inputs)
    }

    fn key_switch(&self, key: &Self::Key, inputs: &[u32]) -> Result<Vec<u32>> {
        self.gates.key_switch(&self.device, key, inputs)
    }
}

impl<G: Gpu> Arithmetic for Card<G> {
    type Tables = ckks::gpu::Tables<G>;
    type Part = ckks::gpu::Part<G>;

    fn tables_bytes(&self, params: &ckks::Params) -> Option<u64> {
        Some(self.numbers.tables_bytes(params))
    }

    fn prepare_numbers(&self, params: &ckks::Params) -> Result<()> {
        self.prepare_degree(params.n())
    }

    fn make_tables(&self, params: &ckks::Params) -> Result<Self::Tables> {
        self.numbers.make_tables(&self.device, params)
    }

    fn part_bytes(&self, shape: &PartShape) -> u64 {
        self.numbers.part_bytes(shape)
    }

    fn units_of_a_gate(&self) -> u32 {
        ckks::gpu::UNITS_OF_A_GATE
    }

    fn room_for_part(&self, _tables: &Self::Tables, shape: &PartShape) -> Result<Self::Part> {
        self.numbers.room_for_part(&self.device, shape)
    }

    fn load_row(&self, tables: &Self::Tables, into: &mut Self::Part, row: &SeededRow<'_>) -> Result<()> {
        self.numbers.load_row(&self.device, tables, into, row)
    }

    fn run(&self, batches: &mut [KeyedSteps<'_, Self>]) -> Result<Self::Pending> {
        let batches = batches.iter_mut().map(|KeyedSteps { tables, parts, arena, plans }| ckks::gpu::Batch {
            tables,
            parts,
            arena,
            plans,
        });
        let batches: Vec<ckks::gpu::Batch<'_, G>> = batches.collect();
        self.numbers.run(&self.device, &batches)
    }
}
