//! The kernel stems of `shaders/`, with the figures that the test suites need about each stem. `shaders/README.md`
//! describes what each stem computes.

/// A kernel stem: one algorithm for all devices, with the same numbered steps in the CPU's text, in `shaders/<name>.cu`
/// and in `shaders/<name>.wgsl`, or in the helpers of these texts.
pub struct StemInfo {
    /// Base name of the stem's files.
    pub name: &'static str,
    /// Folder in `kernels/src` that contains the stem's source for the CPU. `None` if all steps of the stem are in
    /// [`HELPERS`].
    pub cpu: Option<&'static str>,
    /// The functions that launches start.
    pub entries: &'static [Entry],
}

/// A function of a stem's text that launches start.
pub struct Entry {
    /// The function's name, the same in both languages.
    pub name: &'static str,
    /// If present, only CUDA has the entry, in `shaders/<stem>.<variant>.cu`. Absent means that the stem's own files
    /// have the entry.
    pub variant: Option<&'static str>,
    /// The entry's limits on CUDA cards.
    pub budget: Budget,
}

/// The most resources that an entry may use, for any preset and architecture. If a kernel needs more, a developer must
/// raise the limit here. Entries may not use a stack, because registers spilled to a stack are in memory that is a
/// thousand times slower.
pub struct Budget {
    /// Number of registers of a thread.
    pub registers: u32,
    /// Static shared memory of a group, in bytes.
    pub shared_bytes: u32,
    /// Size of the instructions, in bytes. The instruction cache of a multiprocessor holds about 128 KiB, and a
    /// scheduler's cache holds about 32 KiB.
    pub text_bytes: u32,
    /// Number of IMAD.HI and IMAD.WIDE instructions, which run at half the rate of other instructions, according to
    /// published measurements.
    pub wide_products: u32,
    /// Number of LDG instructions. Constant roots and arrays in registers need none.
    pub global_loads: u32,
}

/// Makes an entry. `budget` has the values of [`Budget`]'s fields, in order.
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

/// A text with numbered steps that several stems share.
pub struct Helper {
    /// Base name of the text in CUDA.
    pub cuda: &'static str,
    /// Base name of the text in WGSL.
    pub wgsl: &'static str,
    /// The CPU's text, a path in `kernels/src`.
    pub cpu: &'static str,
}

/// The helpers of the stems `ntt_columns` and `ntt_rows`.
pub const HELPERS: [Helper; 3] = [
    Helper { cuda: "ntt.registers", wgsl: "limb", cpu: "cpu/ntt.rs" },
    Helper { cuda: "base_convert", wgsl: "base_convert", cpu: "cpu/base_convert.rs" },
    Helper { cuda: "gadget", wgsl: "gadget", cpu: "cpu/gadget.rs" },
];

/// Every stem, in the order of the catalogue.
pub const STEMS: &[StemInfo] = &[
    StemInfo {
        name: "ntt",
        cpu: Some("cpu"),
        entries: &[
            entry("ntt_forward", [48, 4096, 9216, 50, 28]),
            entry("ntt_inverse", [48, 4096, 9216, 50, 28]),
            entry("ntt_key", [48, 4096, 9216, 56, 28]),
        ],
    },
    StemInfo {
        name: "ntt_columns",
        cpu: None,
        entries: &[
            entry("ntt_columns", [56, 8192, 10240, 72, 36]),
            entry("ntt_columns_inverse", [64, 8192, 10240, 84, 66]),
            entry("ntt_columns_weights", [56, 8192, 12288, 72, 48]),
        ],
    },
    StemInfo {
        name: "ntt_rows",
        cpu: None,
        entries: &[
            entry("ntt_rows", [64, 8448, 20480, 120, 72]),
            entry("ntt_rows_inverse", [64, 8448, 20480, 120, 66]),
            // two sums of 64 bits for each of 16 words; with 168 registers a thread, a multiprocessor holds three groups
            entry("ntt_rows_gadget", [168, 8448, 38912, 320, 168]),
            entry("ntt_rows_combine", [64, 8448, 26624, 144, 88]),
        ],
    },
    StemInfo {
        name: "pointwise",
        cpu: Some("cpu"),
        entries: &[
            entry("sums", [24, 0, 2048, 6, 14]),
            entry("products", [40, 0, 5120, 24, 26]),
            entry("weighted_sum", [40, 0, 5120, 20, 28]),
        ],
    },
    StemInfo { name: "automorphism", cpu: Some("cpu"), entries: &[entry("gather", [40, 0, 8192, 24, 56])] },
    StemInfo {
        name: "cells",
        cpu: Some("tfhe/cpu"),
        entries: &[entry("add_terms", [48, 0, 5120, 24, 26]), entry("mark_quarter", [24, 0, 1024, 2, 4])],
    },
    StemInfo { name: "mod_switch", cpu: Some("tfhe/cpu"), entries: &[entry("mod_switch", [24, 256, 2816, 2, 8])] },
    StemInfo {
        name: "blind_rotate",
        cpu: Some("tfhe/cpu"),
        entries: &[
            entry("blind_rotate_start", [56, 0, 3584, 2, 2]),
            // with 64 registers a thread, a multiprocessor holds 1024 threads
            entry("blind_rotate", [64, 4096, 20480, 112, 72]),
            // the variants of at most 256 threads use up to 241 registers, because one group fills a multiprocessor. In
            // the variant with eight rows, `__launch_bounds__` limits the kernel to 128 registers. The last two loads read
            // the table again
            entry("blind_rotate_warp", [248, 0, 98304, 740, 10]).of("warp"),
            entry("blind_rotate_warp_key", [64, 0, 26624, 200, 34]).of("warp"),
            // this kernel has few threads, which wait for each other, so it may use many registers
            entry("blind_rotate_cluster", [240, 16896, 24576, 184, 82]).of("cluster"),
        ],
    },
    StemInfo {
        name: "sample_extract",
        cpu: Some("tfhe/cpu"),
        entries: &[entry("sample_extract", [48, 0, 7168, 36, 30]), entry("extract_wires", [40, 0, 3584, 12, 20])],
    },
    StemInfo {
        name: "lwe_key_switch",
        cpu: Some("tfhe/cpu"),
        entries: &[entry("lwe_key_switch", [64, 16384, 10240, 20, 26])],
    },
];

/// Lists every entry of every stem.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    STEMS.iter().flat_map(|stem| stem.entries)
}

#[cfg(test)]
mod tests;
