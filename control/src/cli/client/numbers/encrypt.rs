//! `ango client numbers encrypt` and `decrypt`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use client::ckks::container;

use super::keys::{KeysArgs, read_ciphertext};
use super::{BoundArgs, numbers_of, show};
use crate::cli::files::{self, FileReaders};

/// Encrypt numbers into one file.
#[derive(Debug, Args)]
pub struct EncryptArgs {
    /// The numbers, separated by commas; zeros follow up to the number of slots. A single `-` reads the numbers from
    /// standard input. Other users of the machine can see arguments, but not standard input.
    #[arg(allow_hyphen_values = true)]
    numbers: String,
    #[command(flatten)]
    keys: KeysArgs,
    #[command(flatten)]
    bound: BoundArgs,
    /// File that gets the ciphertext.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
}

/// Decrypt files of ciphertexts and print their numbers, one file for each line.
#[derive(Debug, Args)]
pub struct DecryptArgs {
    /// Files of ciphertexts.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    keys: KeysArgs,
    /// How many numbers to print. When omitted, up to the last one that is not 0.
    #[arg(long)]
    count: Option<usize>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub fn encrypt(args: EncryptArgs) -> anyhow::Result<()> {
    let numbers = numbers_of(&args.numbers)?;
    let key = args.keys.secret()?;
    files::write(&args.out, &args.bound.encrypt(&key, numbers)?, FileReaders::Shared, args.force)
}

pub fn decrypt(args: DecryptArgs) -> anyhow::Result<()> {
    let key = args.keys.secret()?;
    let mut results = Vec::with_capacity(args.files.len());
    for path in &args.files {
        let bytes = read_ciphertext(path)?;
        let ciphertext = container::read_ciphertext(&bytes, key.params(), key.fingerprint())
            .with_context(|| format!("cannot decrypt {}", path.display()))?;
        let decrypted = key.decrypt(&ciphertext).with_context(|| format!("cannot decrypt {}", path.display()))?;
        results.push((path, decrypted));
    }
    if args.json {
        let results = results.iter().map(|(path, decrypted)| {
            let count = args.count.unwrap_or(decrypted.values.len()).min(decrypted.values.len());
            let values = &decrypted.values[..count];
            serde_json::json!({"file": path, "values": values, "precision_bits": decrypted.precision_bits})
        });
        println!("{}", serde_json::json!({ "results": results.collect::<Vec<_>>() }));
    } else {
        for (path, decrypted) in &results {
            println!("{}", show(&decrypted.values, decrypted.error_bound, args.count).join(","));
            eprintln!("{}: {:.1} bits of precision", path.display(), decrypted.precision_bits);
        }
    }
    Ok(())
}
