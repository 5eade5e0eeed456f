//! The stems of `shaders/`: what the suites must know of each, said once. `shaders/README.md` says what they compute.

use crate::error::Result;
use crate::gpu::mul_add::MulAdd;
use crate::gpu::{Compiler, Gpu};

/// An algorithm that all devices have, with the same numbered steps in the CPU's text, in `shaders/<name>.cu` and in
/// `shaders/<name>.wgsl`.
pub struct StemInfo {
    /// Name of its files.
    pub name: &'static str,
    /// Folder of the CPU's text in `kernels/src`.
    pub cpu: &'static str,
    /// What a launch may name.
    pub entries: &'static [Entry],
}

/// A function of a stem's text that a launch names.
pub struct Entry {
    /// Its name in both languages.
    pub name: &'static str,
    /// `shaders/<stem>.<variant>.cu` has the entry, for CUDA alone. None: the stem's own texts have it.
    pub variant: Option<&'static str>,
    /// What the entry may take of a CUDA card.
    pub budget: Budget,
}

/// The most that an entry takes over all presets and architectures. A kernel that grows beyond it is a decision, made in this
/// file. No entry has a stack: what finds no register goes there, through memory that is a thousand times slower.
pub struct Budget {
    /// Registers of a thread.
    pub registers: u32,
    /// Shared memory of a group, where the source says its size.
    pub shared_bytes: u32,
    /// Bytes of instructions. A multiprocessor's instruction cache holds some 128 KiB, a scheduler's some 32 KiB.
    pub text_bytes: u32,
    /// IMAD.HI and IMAD.WIDE, which others measured at half the rate of other instructions.
    pub wide_products: u32,
    /// LDG. Roots that are constants, and arrays in registers, are none.
    pub global_loads: u32,
}

/// An entry with its budget, in the order of [`Budget`]'s fields.
const fn entry(name: &'static str, budget: [u32; 5]) -> Entry {
    let [registers, shared_bytes, text_bytes, wide_products, global_loads] = budget;
    let budget = Budget { registers, shared_bytes, text_bytes, wide_products, global_loads };
    Entry { name, variant: None, budget }
}

impl Entry {
    const fn of(self, variant: &'static str) -> Entry {
        Entry { variant: Some(variant), ..self }
    }
}

/// Every stem, in the catalogue's order.
pub const STEMS: &[StemInfo] = &[
    StemInfo {
        name: "ntt",
        cpu: "cpu",
        entries: &[
            entry("ntt_forward", [48, 4096, 9216, 50, 28]),
            entry("ntt_inverse", [48, 4096, 9216, 50, 28]),
            entry("ntt_key", [48, 4096, 9216, 56, 28]),
        ],
    },
    StemInfo { name: "mul_add", cpu: "cpu", entries: &[entry("mul_add", [24, 0, 1280, 6, 6])] },
    StemInfo {
        name: "linear",
        cpu: "tfhe/cpu",
        entries: &[entry("linear", [40, 0, 3584, 8, 22]), entry("negate", [32, 0, 2560, 2, 12])],
    },
    StemInfo {
        name: "cells",
        cpu: "tfhe/cpu",
        entries: &[
            entry("wire_sum", [56, 0, 5120, 12, 72]),
            entry("input_sum", [48, 0, 6144, 12, 72]),
            entry("mark_quarter", [24, 0, 1024, 2, 4]),
        ],
    },
    StemInfo { name: "mod_switch", cpu: "tfhe/cpu", entries: &[entry("mod_switch", [24, 256, 2816, 2, 8])] },
    StemInfo {
        name: "blind_rotate",
        cpu: "tfhe/cpu",
        entries: &[
            entry("blind_rotate_start", [56, 0, 3584, 2, 2]),
            // 64: a multiprocessor holds 1024 threads of it
            entry("blind_rotate", [64, 4096, 20480, 112, 72]),
            // 168: six warps of three rows; where eight rows share a step's key, `__launch_bounds__` holds it to 128
            entry("blind_rotate_warp", [168, 0, 98304, 740, 9]).of("warp"),
            entry("blind_rotate_warp_key", [64, 0, 26624, 200, 34]).of("warp"),
            // few threads, that wait for each other and not for their turn: registers are there to be had
            entry("blind_rotate_cluster", [240, 16896, 24576, 184, 82]).of("cluster"),
        ],
    },
    StemInfo {
        name: "sample_extract",
        cpu: "tfhe/cpu",
        entries: &[entry("sample_extract", [40, 0, 7168, 36, 30]), entry("extract_wires", [40, 0, 3584, 12, 20])],
    },
    StemInfo {
        name: "lwe_key_switch",
        cpu: "tfhe/cpu",
        entries: &[entry("lwe_key_switch", [64, 16384, 10240, 20, 26])],
    },
];

/// Every entry of every stem.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    STEMS.iter().flat_map(|stem| stem.entries)
}

/// Degree of the largest ring of any scheme.
const POLYNOMIAL_SIZE_MAX: usize = 1 << 15;

/// Compiles the stems that no scheme's evaluator has compiled yet, for the largest ring.
///
/// # Errors
/// The card's own.
pub fn compile_of_rings<G: Gpu>(gpu: &G) -> Result<()> {
    MulAdd::new(gpu, &Compiler::default(), POLYNOMIAL_SIZE_MAX).map(drop)
}

#[cfg(test)]
mod tests;
