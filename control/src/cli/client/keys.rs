//! `ango client keygen`, and the option `--secret-key` with which other commands find the key that it made.

use std::fs::DirBuilder;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use client::container::{self, Tag};
use client::{Preset, SecretKey};
use zeroize::Zeroizing;

use crate::cli::arguments::parse_preset;
use crate::cli::files::{self, FileReaders};

/// Largest size of a secret key's file in bytes. The file of the largest preset has less than 3 KB.
const SECRET_KEY_BYTES_MAX: usize = 1 << 16;

/// Make a key pair: the secret key, which stays here, and the evaluation key, with which a node computes.
#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// Parameters of the key: fast_128, standard_128, conservative_128, fast_128_k2 or standard_128_k2.
    #[arg(long, default_value = "fast_128", value_parser = parse_preset)]
    preset: Preset,
    /// Folder that gets secret.key (mode 0600) and evaluation.key.
    #[arg(long, value_name = "DIR", default_value = "ango-keys")]
    out: PathBuf,
    /// Replace existing keys. Data encrypted under the old keys can then not be decrypted any more.
    #[arg(long)]
    force: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub fn keygen(args: KeygenArgs) -> anyhow::Result<()> {
    let (secret_path, evaluation_path) = (args.out.join("secret.key"), args.out.join("evaluation.key"));
    for path in [&secret_path, &evaluation_path] {
        if !args.force && path.exists() {
            bail!("{} exists already; --force replaces it", path.display());
        }
    }
    let mut folder = DirBuilder::new();
    folder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder.create(&args.out).with_context(|| format!("cannot make the folder {}", args.out.display()))?;

    let key = SecretKey::generate(args.preset);
    let secret = key.to_bytes();
    let evaluation = container::write_evaluation_key(&key.evaluation_key());
    files::write(&secret_path, &secret, FileReaders::Private, args.force)?;
    files::write(&evaluation_path, &evaluation, FileReaders::Shared, args.force)?;
    if args.json {
        let facts = serde_json::json!({
            "preset": args.preset.name(),
            "secret_key": secret_path,
            "secret_key_bytes": secret.len(),
            "evaluation_key": evaluation_path,
            "evaluation_key_bytes": evaluation.len(),
        });
        println!("{facts}");
    } else {
        println!(
            "secret key      {} ({} bytes): keep it private, it never leaves this machine",
            secret_path.display(),
            secret.len()
        );
        println!("evaluation key  {} ({} bytes): for nodes", evaluation_path.display(), evaluation.len());
    }
    Ok(())
}

/// The option for the secret key's file.
#[derive(Debug, Args)]
pub struct SecretKeyArgs {
    /// File of the secret key.
    #[arg(long, value_name = "FILE", default_value = "ango-keys/secret.key")]
    secret_key: PathBuf,
}

impl SecretKeyArgs {
    /// Reads the key.
    pub fn read(&self) -> anyhow::Result<SecretKey> {
        let path = &self.secret_key;
        if !path.exists() {
            bail!(
                "there is no {}: make a key pair with `ango client keygen`, or name yours with --secret-key",
                path.display()
            );
        }
        let bytes = Zeroizing::new(files::read_container(path, SECRET_KEY_BYTES_MAX, &[Tag::SecretKey])?);
        SecretKey::from_bytes(&bytes).with_context(|| format!("{} is not a usable secret key", path.display()))
    }
}
