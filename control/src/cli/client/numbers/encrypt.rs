//! `ango client numbers encrypt` and `decrypt`.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use client::ckks::operation::Operand;
use client::ckks::{Ciphertext, Flooding, Noise, container};

use super::keys::{KeysArgs, read_ciphertext};
use super::{BoundArgs, expected, numbers_of, show};
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
///
/// The numbers are as secret as the key: their last digits tell the key to whoever has the ciphertext, such as the node.
/// --share adds noise that hides these digits. Its strength comes from the plan that `ango client numbers run` wrote
/// beside the result, not from the result, which the node made.
#[derive(Debug, Args)]
pub struct DecryptArgs {
    /// Files of ciphertexts.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    keys: KeysArgs,
    /// Add noise, so that the numbers may be shown to others. RESULTS is the number of results that are shared under
    /// this key in its lifetime. A thousand results cost about 25 bits of precision.
    #[arg(long, value_name = "RESULTS", num_args = 0..=1, default_missing_value = "1000",
        value_parser = clap::value_parser!(u32).range(1..))]
    share: Option<u32>,
    /// The plan of the result. When omitted, the file beside the result, with the ending .plan.json.
    #[arg(long, value_name = "FILE", requires = "share", conflicts_with = "noise")]
    plan: Option<PathBuf>,
    /// Instead of a plan: the largest error that the result of an honest node may have, such as 1e-6.
    #[arg(long, value_name = "ERROR", requires = "share")]
    noise: Option<f64>,
    /// How many numbers to print. When omitted, up to the last one that is not 0.
    #[arg(long)]
    count: Option<usize>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl DecryptArgs {
    /// What the user knows of a result whose numbers are to be shared.
    fn expected(&self, path: &Path, bytes: &[u8], ciphertext: &Ciphertext, n: usize) -> anyhow::Result<Operand> {
        let Ciphertext { level, scale, noise, .. } = *ciphertext;
        if let Some(error) = self.noise {
            if !(error.is_normal() && error > 0.0) {
                bail!("--noise is the largest error of a number, above 0, and not {error}");
            }
            let noise = Noise::new(noise.value_bound, 0.0).deviate(error * scale, n);
            return Ok(Operand { level, scale, noise });
        }
        if self.plan.is_some() && self.files.len() > 1 {
            bail!("--plan is the plan of one file: decrypt the files one by one");
        }
        let beside = self.plan.clone().unwrap_or_else(|| expected::beside(path));
        if self.plan.is_some() || beside.exists() {
            return expected::read(&beside, bytes);
        }
        expected::of_operand(None, bytes)?.with_context(|| {
            format!(
                "--share needs the plan of {}: there is no {}. Run the operation with `ango client numbers run --out`, which \
                 writes the plan, name the plan with --plan, or give the largest error of an honest result with --noise",
                path.display(),
                beside.display()
            )
        })
    }
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
        let decrypted = match args.share {
            None => key.decrypt(&ciphertext).map_err(anyhow::Error::from),
            Some(results) => {
                let expected = args.expected(path, &bytes, &ciphertext, key.params().n())?;
                let flooding = Flooding { results, ..Flooding::default() };
                key.decrypt_to_share(&ciphertext, &expected, flooding).map_err(anyhow::Error::from)
            }
        };
        let decrypted = decrypted.with_context(|| format!("cannot decrypt {}", path.display()))?;
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
