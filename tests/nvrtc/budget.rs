//! What every entry may take of a card. A kernel that grows beyond its line here is a decision, made in this file.

use crate::cubin::Use;

/// Registers a thread and shared bytes a group at most, over all presets and architectures. No entry has a stack: what
/// finds no register goes there, through memory that is a thousand times slower.
const BUDGET: [(&str, u32, u32); 13] = [
    ("ntt_forward", 48, 4096),
    ("ntt_inverse", 48, 4096),
    ("ntt_key", 48, 4096),
    ("linear", 40, 0),
    ("negate", 32, 0),
    ("mod_switch", 16, 0),
    ("blind_rotate_start", 56, 0),
    // 64: a multiprocessor holds 1024 threads of it
    ("blind_rotate", 64, 4096),
    // 168: six warps of three rows; where eight rows share a step's key, `__launch_bounds__` holds it to 128
    ("blind_rotate_warp", 168, 0),
    ("blind_rotate_warp_key", 64, 0),
    // few threads, that wait for each other and not for their turn: registers are there to be had
    ("blind_rotate_cluster", 240, 16896),
    ("sample_extract", 40, 0),
    ("lwe_key_switch", 64, 16384),
];

/// What is wrong with an entry, if anything.
pub fn verdict(entry: &str, used: Use) -> Result<(), String> {
    let Some(&(_, registers, shared_bytes)) = BUDGET.iter().find(|(name, ..)| *name == entry) else {
        return Err(format!("{entry} has no line in the budget"));
    };
    let mut wrong = Vec::new();
    if used.registers > registers {
        wrong.push(format!("{} registers of {registers}", used.registers));
    }
    if used.stack_bytes > 0 {
        wrong.push(format!("{} bytes of stack: registers spill, or an array is indexed at run time", used.stack_bytes));
    }
    if used.shared_bytes > shared_bytes {
        wrong.push(format!("{} bytes of shared memory of {shared_bytes}", used.shared_bytes));
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{entry} takes {}", wrong.join("; "))) }
}

/// Entries that the budget has a line for.
pub fn entries() -> impl Iterator<Item = &'static str> {
    BUDGET.iter().map(|(name, ..)| *name)
}
