//! `ango client encrypt` and `decrypt`.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use client::container::Tag;
use client::{bundle, value};

use super::keys::SecretKeyArgs;
use crate::cli::files::{self, FileReaders};

/// Largest size of a ciphertext in bytes, for any preset.
const CIPHERTEXT_BYTES_MAX: usize = 1 << 13;

/// Encrypt a number, bit by bit, into one file.
#[derive(Debug, Args)]
pub struct EncryptArgs {
    /// The number: decimal, or hexadecimal after 0x. A single `-` reads the number from standard input. Other users of
    /// the machine can see arguments, but not standard input.
    value: String,
    /// Number of bits. Not needed for 0 and 1 (one bit) and for hexadecimal numbers (four bits a digit).
    #[arg(long, value_name = "BITS")]
    width: Option<usize>,
    #[command(flatten)]
    key: SecretKeyArgs,
    /// File that gets the ciphertexts, bit 0 first.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
}

/// Decrypt files of ciphertexts and print their numbers, one number for each line.
#[derive(Debug, Args)]
pub struct DecryptArgs {
    /// Files of ciphertexts, bit 0 first.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    key: SecretKeyArgs,
    /// Print hexadecimal numbers.
    #[arg(long)]
    hex: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub fn encrypt(args: EncryptArgs) -> anyhow::Result<()> {
    let text = match args.value.as_str() {
        "-" => read_number(std::io::stdin())?,
        _ => args.value,
    };
    let width = match args.width {
        Some(width) => width,
        None => value::own_width(&text).context("--width")?,
    };
    let bits = value::parse(&text, width)?;
    let ciphertexts = bundle::encrypt_seeded(&args.key.read()?, &bits);
    files::write(&args.out, &ciphertexts, FileReaders::Shared, args.force)
}

/// Reads the text of a number. Removes spaces and line ends around the number.
fn read_number(source: impl Read) -> anyhow::Result<String> {
    let mut text = String::new();
    source.take(2 * value::WIDTH_MAX as u64).read_to_string(&mut text).context("cannot read the number")?;
    Ok(text.trim().to_owned())
}

pub fn decrypt(args: DecryptArgs) -> anyhow::Result<()> {
    let key = args.key.read()?;
    let mut values = Vec::with_capacity(args.files.len());
    for path in &args.files {
        let ciphertexts = read_ciphertexts(path)?;
        let bits = bundle::decrypt(&key, &ciphertexts).with_context(|| format!("cannot decrypt {}", path.display()))?;
        values.push((path, bits.len(), show(&bits, args.hex)));
    }
    if args.json {
        let values =
            values.iter().map(|(file, width, value)| serde_json::json!({"file": file, "width": width, "value": value}));
        println!("{}", serde_json::json!({ "values": values.collect::<Vec<_>>() }));
    } else {
        values.iter().for_each(|(_, _, value)| println!("{value}"));
    }
    Ok(())
}

/// Formats the number with these bits: in hexadecimal if `hex`, otherwise in decimal.
pub fn show(bits: &[bool], hex: bool) -> String {
    if hex { value::format_hexadecimal(bits) } else { value::format(bits) }
}

/// Reads the ciphertexts in a file, bit 0 first. The caller checks the contents of the ciphertexts.
pub fn read_ciphertexts(path: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let bytes = files::read_container(
        path,
        CIPHERTEXT_BYTES_MAX * bundle::CIPHERTEXTS_MAX,
        &[Tag::Ciphertext, Tag::SeededCiphertexts],
    )?;
    let ciphertexts = bundle::split(&bytes).with_context(|| format!("{} holds no ciphertexts", path.display()))?;
    Ok(ciphertexts.into_iter().map(<[u8]>::to_vec).collect())
}
