//! What command lines name: circuits and presets.

use std::path::Path;

use anyhow::Context;
use client::{Netlist, Preset, netlists};

use super::files;

/// Bytes of a netlist file at most.
const NETLIST_BYTES_MAX: usize = 64 << 20;

/// The netlist of a file, or one that comes with the client: `adder64`, `aes_128`. A file of that name comes first.
pub fn load_netlist(name: &str) -> anyhow::Result<Netlist> {
    let path = Path::new(name);
    match netlists::by_name(name) {
        Some(text) if !path.exists() => Ok(Netlist::parse(text)?),
        _ => {
            let bytes = files::read(path, NETLIST_BYTES_MAX)?;
            let text = std::str::from_utf8(&bytes).with_context(|| format!("{name} is not text"))?;
            Netlist::parse(text).with_context(|| format!("{name} is not a netlist in Bristol Fashion"))
        }
    }
}

/// The preset of this name.
pub fn parse_preset(name: &str) -> Result<Preset, String> {
    let names = Preset::ALL.map(Preset::name).join(", ");
    Preset::from_name(name).ok_or_else(|| format!("not one of {names}"))
}
