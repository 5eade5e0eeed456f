//! What every entry may take of a card. A kernel that grows beyond its line here is a decision, made in this file.

use crate::cubin::Use;

/// The most over all presets and architectures. No entry has a stack: what finds no register goes there, through memory that
/// is a thousand times slower.
struct Line {
    entry: &'static str,
    /// Registers of a thread.
    registers: u32,
    /// Shared memory of a group, where the source says its size.
    shared_bytes: u32,
    /// Bytes of instructions. A multiprocessor's instruction cache holds some 128 KiB, a scheduler's some 32 KiB.
    text_bytes: u32,
    /// IMAD.HI and IMAD.WIDE, which others measured at half the rate of other instructions.
    wide_products: u32,
    /// LDG. Roots that are constants, and arrays in registers, are none.
    global_loads: u32,
}

const fn line(
    entry: &'static str,
    registers: u32,
    shared_bytes: u32,
    text_bytes: u32,
    wide_products: u32,
    global_loads: u32,
) -> Line {
    Line { entry, registers, shared_bytes, text_bytes, wide_products, global_loads }
}

const BUDGET: [Line; 18] = [
    line("ntt_forward", 48, 4096, 9216, 50, 28),
    line("ntt_inverse", 48, 4096, 9216, 50, 28),
    line("ntt_key", 48, 4096, 9216, 56, 28),
    line("mul_add", 24, 0, 1280, 6, 6),
    line("linear", 40, 0, 3584, 8, 22),
    line("negate", 32, 0, 2560, 2, 12),
    line("wire_sum", 56, 0, 5120, 12, 72),
    line("input_sum", 48, 0, 6144, 12, 72),
    line("mark_quarter", 24, 0, 1024, 2, 4),
    line("mod_switch", 24, 256, 2816, 2, 8),
    line("blind_rotate_start", 56, 0, 3584, 2, 2),
    // 64: a multiprocessor holds 1024 threads of it
    line("blind_rotate", 64, 4096, 20480, 112, 72),
    // 168: six warps of three rows; where eight rows share a step's key, `__launch_bounds__` holds it to 128
    line("blind_rotate_warp", 168, 0, 98304, 740, 9),
    line("blind_rotate_warp_key", 64, 0, 26624, 200, 34),
    // few threads, that wait for each other and not for their turn: registers are there to be had
    line("blind_rotate_cluster", 240, 16896, 24576, 184, 82),
    line("sample_extract", 40, 0, 7168, 36, 30),
    line("extract_wires", 40, 0, 3584, 12, 20),
    line("lwe_key_switch", 64, 16384, 10240, 20, 26),
];

/// The entry whose speed hangs on one instruction that adds and takes the smaller: on cards of this capability at least nine
/// of ten reductions are one, where it would take two.
const REDUCES_AT_ONCE: (&str, (u32, u32)) = ("blind_rotate_warp", (9, 0));

/// What is wrong with an entry for cards of a capability, if anything.
pub fn verdict(entry: &str, capability: (u32, u32), used: Use) -> Result<(), String> {
    let Some(line) = BUDGET.iter().find(|line| line.entry == entry) else {
        return Err(format!("{entry} has no line in the budget"));
    };
    let mut wrong = Vec::new();
    let count = used.count;
    let bounds = [
        ("registers", used.registers, line.registers),
        ("bytes of shared memory", used.shared_bytes, line.shared_bytes),
        ("bytes of text", used.text_bytes, line.text_bytes),
        ("products of high or wide words", count.multiply_high + count.multiply_wide, line.wide_products),
        ("loads of global memory", count.load_global, line.global_loads),
    ];
    for (what, found, most) in bounds {
        if found > most {
            wrong.push(format!("{found} {what} of {most}"));
        }
    }
    if used.stack_bytes > 0 {
        wrong.push(format!("{} bytes of stack: registers spill, or an array is indexed at run time", used.stack_bytes));
    }
    if (entry, capability) == REDUCES_AT_ONCE && count.add_min < 9 * count.min {
        wrong.push(format!("{} reductions by two instructions, {} by one", count.min, count.add_min));
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{entry} takes {}", wrong.join("; "))) }
}

/// Entries that the budget has a line for.
pub fn entries() -> impl Iterator<Item = &'static str> {
    BUDGET.iter().map(|line| line.entry)
}
