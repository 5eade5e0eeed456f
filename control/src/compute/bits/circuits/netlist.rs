//! Reads netlists of circuits up to a largest size.

use api::Code;
use api::circuits::CIRCUIT_VALUES_MAX;

use crate::caller::Role;
use crate::compute::bits::CircuitsConfig;
use crate::web::error::ApiError;
use crate::work::Netlist;

/// Largest size of a circuit: its gates, and the bits of its inputs or outputs.
#[derive(Clone, Copy)]
pub struct NetlistBounds {
    gates_max: u64,
    bits_max: usize,
}

impl NetlistBounds {
    /// Returns the bounds on the circuits of callers with this role.
    pub fn of(config: &CircuitsConfig, role: Role) -> NetlistBounds {
        let gates_max = if role == Role::Trial { config.gates_max_trial } else { config.gates_max };
        NetlistBounds { gates_max, bits_max: config.bits_max }
    }
}

/// Reads a netlist, and refuses a netlist that exceeds these bounds. `member`: the member of the request that holds the
/// netlist. A large netlist takes much CPU time, so call this outside the async threads.
pub fn read_netlist(text: &str, bounds: &NetlistBounds, member: &str) -> Result<Netlist, ApiError> {
    let refused = |message: String| ApiError::new(Code::InvalidParams, message.clone()).at(member, message);
    let netlist = Netlist::read(text, bounds.gates_max);
    let netlist = netlist.map_err(|error| refused(format!("the netlist is refused: {error}")))?;
    for (widths, what) in [(netlist.input_widths(), "takes"), (netlist.output_widths(), "gives")] {
        let (values, bits) = (widths.len(), widths.iter().sum::<usize>());
        if values > CIRCUIT_VALUES_MAX {
            return Err(refused(format!("the circuit {what} {values} values, more than {CIRCUIT_VALUES_MAX}")));
        }
        if bits > bounds.bits_max {
            return Err(refused(format!("the circuit {what} {bits} bits, more than {}", bounds.bits_max)));
        }
    }
    Ok(netlist)
}
