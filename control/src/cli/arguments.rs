//! Reads names on command lines: circuits, presets, mappings.

use std::path::Path;

use anyhow::Context;
use api::circuits::CircuitMapping;
use client::{Netlist, Preset, circuits, netlists};

use super::files;

/// Largest size of a netlist file in bytes.
const NETLIST_BYTES_MAX: usize = 64 << 20;

/// Reads the netlist with this name. That is the file with this name, or if no such file exists, one of the client's
/// own netlists `adder64`, `mult64` and `aes_128`. A name such as `builtin:add64` always means a circuit of
/// [`circuits`], even if a file has this name.
pub fn load_netlist(name: &str) -> anyhow::Result<Netlist> {
    let path = Path::new(name);
    match netlists::by_name(name)? {
        Some(text) if name.starts_with(circuits::PREFIX) || !path.exists() => Ok(Netlist::parse(text)?),
        _ => {
            let bytes = files::read(path, NETLIST_BYTES_MAX)?;
            let text = std::str::from_utf8(&bytes).with_context(|| format!("{name} is not text"))?;
            Netlist::parse(text).with_context(|| format!("{name} is not a netlist in Bristol Fashion"))
        }
    }
}

/// Returns the preset with this name.
pub fn parse_preset(name: &str) -> Result<Preset, String> {
    let names = Preset::ALL.map(Preset::name).join(", ");
    Preset::from_name(name).ok_or_else(|| format!("not one of {names}"))
}

/// Returns the mapping with this name.
pub fn parse_mapping(name: &str) -> Result<CircuitMapping, String> {
    let names = CircuitMapping::ALL.map(CircuitMapping::as_str).join(", ");
    CircuitMapping::from_name(name).ok_or_else(|| format!("not one of {names}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netlists_are_found_by_name_or_in_a_file() {
        for (name, gates) in [("adder64", 376), ("mult64", 13_675), ("aes_128", 36_663), ("builtin:add64", 314)] {
            assert_eq!(load_netlist(name).unwrap().circuit().gates().len(), gates, "{name}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("adder64");
        std::fs::write(&file, "1 3\n1 2\n1 1\n2 1 0 1 2 AND\n").unwrap();
        assert_eq!(load_netlist(file.to_str().unwrap()).unwrap().circuit().gates().len(), 1);
    }

    #[test]
    fn an_unknown_builtin_circuit_is_no_file_and_the_answer_lists_what_there_is() {
        let message = load_netlist("builtin:sum64").unwrap_err().to_string();
        assert!(message.contains("`builtin:sum64`") && message.contains("add, sub, lt"), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
}
