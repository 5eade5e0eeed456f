//! The resources of a card that every entry takes, compared with the bounds in `kernels::stems`.

use kernels::cuda::cubin::Use;
use kernels::stems::entries;

/// An entry whose speed depends on one instruction that adds and takes the minimum, and the capability of the cards on
/// which this is checked: at least nine of ten reductions must be that single instruction, not two instructions.
const REDUCES_AT_ONCE: (&str, (u32, u32)) = ("blind_rotate_warp", (9, 0));

/// The faults of an entry on cards of a capability, if any.
pub fn verdict(entry: &str, capability: (u32, u32), used: Use) -> Result<(), String> {
    let Some(known) = entries().find(|known| known.name == entry) else {
        return Err(format!("{entry} has no line in kernels::stems"));
    };
    let most = &known.budget;
    let mut wrong = Vec::new();
    let count = used.count;
    let bounds = [
        ("registers", used.registers, most.registers),
        ("bytes of shared memory", used.shared_bytes, most.shared_bytes),
        ("bytes of text", used.text_bytes, most.text_bytes),
        ("products of high or wide words", count.multiply_high + count.multiply_wide, most.wide_products),
        ("loads of global memory", count.load_global, most.global_loads),
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
