//! `ango devices`: lists the devices that would compute here, and why other backends would not.

use clap::Args;

use crate::config::Flags;
use crate::data_dir::DataDir;
use crate::work::{Detected, detect};

/// List the devices on which a node with these settings would compute, and why the node would not use the others.
#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Flags,
}

/// Looks for devices and prints them.
///
/// # Errors
/// When settings are refused. A machine without a GPU is not an error.
pub fn run(args: DevicesArgs) -> anyhow::Result<()> {
    let config = args.settings.config()?;
    let choice = config.compute.backend;
    // if a node's data folder exists, use the compiled kernels in it; otherwise write no files
    let kernel_cache =
        if config.data_dir.is_dir() { Some(DataDir::open(&config.data_dir)?.kernel_cache()) } else { None };
    let found = detect(&config.compute, kernel_cache.as_deref());
    if args.json {
        println!("{}", json(choice.name(), &found))
    } else {
        print!("{}", table(&found))
    }
    Ok(())
}

fn table(found: &Detected) -> String {
    let mut text = String::from("devices\n");
    for (device, schemes) in &found.devices {
        let gigabytes = device.memory_bytes as f64 / f64::from(1 << 30);
        let (backend, name, rows, schemes) = (&device.backend, &device.name, device.rows_max, schemes.join(", "));
        text += &format!("  {backend:<14}{name}, {gigabytes:.1} GB, batches of {rows}, computes {schemes}\n");
    }
    if !found.passed_over.is_empty() {
        text += "passed over\n";
    }
    for passed in &found.passed_over {
        text += &format!("  {:<14}{}\n", passed.backend, passed.reason);
    }
    text
}

fn json(choice: &str, found: &Detected) -> serde_json::Value {
    let devices = found.devices.iter().map(|(device, schemes)| {
        serde_json::json!({
            "backend": device.backend,
            "name": device.name,
            "memory_bytes": device.memory_bytes,
            "rows_max": device.rows_max,
            "schemes": schemes,
        })
    });
    let passed_over =
        found.passed_over.iter().map(|passed| serde_json::json!({"backend": passed.backend, "reason": passed.reason}));
    serde_json::json!({
        "choice": choice,
        "devices": devices.collect::<Vec<_>>(),
        "passed_over": passed_over.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::BackendChoice;

    #[test]
    fn the_processor_is_shown_with_its_memory() {
        let mut config = Flags::default().config().unwrap().compute;
        config.backend = BackendChoice::Cpu;
        let found = detect(&config, None);
        let shown = json("cpu", &found);
        assert_eq!((&shown["choice"], &shown["passed_over"]), (&"cpu".into(), &serde_json::json!([])));
        assert!(shown["devices"][0]["backend"].as_str().unwrap().starts_with("cpu-"));
        assert!(shown["devices"][0]["memory_bytes"].as_u64().unwrap() > 0);
        assert_eq!(shown["devices"][0]["schemes"], serde_json::json!(["tfhe", "ckks"]));
        let text = table(&found);
        assert!(text.contains(", computes tfhe, ckks\n"), "{text}");
        assert!(text.starts_with("devices\n  cpu-") && !text.contains("passed over"), "{text}");
    }
}
