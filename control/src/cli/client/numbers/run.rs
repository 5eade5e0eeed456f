//! `ango client numbers run`: one operation on encrypted numbers.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use api::EncryptionKeyId;
use api::compute::{ComputeOperation, ComputeRequest};
use clap::{ArgGroup, Args};
use client::ckks::operation::Operand;
use client::ckks::{SecretKey, container};
use client::http::{self, from_base64};

use super::keys::{KeysArgs, parse_key_id, read_ciphertext};
use super::{BoundArgs, expected, numbers_of, padded, parse_numbers, show};
use crate::cli::client::node::NodeArgs;
use crate::cli::files::{self, FileReaders};

/// Run one operation on a node.
///
/// Numbers are encrypted here and the result is decrypted here, with the secret key. The secret key is not needed if
/// all inputs are ciphertext files and --out names a file for the result.
///
/// Beside the file of --out, a file with the ending .plan.json says how large the result's error may be by this
/// command's own plan. `ango client numbers decrypt --share` needs the plan. If an input is a result whose plan is not
/// beside it, no plan is written.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args([
    "add", "multiply", "negate", "rescale", "rotate", "add_plain", "multiply_plain", "polynomial", "matmul", "matmul_plain",
    "bootstrap",
]))]
pub struct RunArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// The sum of two inputs.
    #[arg(long)]
    add: bool,
    /// The product of two inputs.
    #[arg(long)]
    multiply: bool,
    /// The negative of the input.
    #[arg(long)]
    negate: bool,
    /// Rescale the input: its level falls by one.
    #[arg(long)]
    rescale: bool,
    /// The numbers rotated to the left by this many slots. A negative number rotates to the right.
    #[arg(long, value_name = "STEPS", allow_hyphen_values = true)]
    rotate: Option<i64>,
    /// The sum with these numbers, which the node sees.
    #[arg(long, value_name = "NUMBERS", allow_hyphen_values = true)]
    add_plain: Option<String>,
    /// The product with these numbers, which the node sees.
    #[arg(long, value_name = "NUMBERS", allow_hyphen_values = true)]
    multiply_plain: Option<String>,
    /// A polynomial of each number, given by its coefficients, the constant first.
    #[arg(long, value_name = "COEFFICIENTS", allow_hyphen_values = true)]
    polynomial: Option<String>,
    /// A square matrix, row after row, times a vector.
    #[arg(long)]
    matmul: bool,
    /// A square matrix, row after row, which the node sees, times the input.
    #[arg(long, value_name = "NUMBERS", allow_hyphen_values = true)]
    matmul_plain: Option<String>,
    /// Bootstrap the input: the result has all levels again.
    #[arg(long)]
    bootstrap: bool,
    /// Do not rescale the result of a multiplication: its scale is the product of both scales.
    #[arg(long)]
    unscaled: bool,
    /// An input: numbers separated by commas, or @FILE of a ciphertext. Repeat it for each input.
    #[arg(long = "input", value_name = "NUMBERS|@FILE", required = true, allow_hyphen_values = true)]
    inputs: Vec<String>,
    #[command(flatten)]
    bound: BoundArgs,
    /// Promised bound: no number of the result has a larger magnitude.
    #[arg(long, value_name = "NUMBER")]
    result_bound: Option<f64>,
    /// Promised bound: no number of the result has a larger error.
    #[arg(long, value_name = "NUMBER")]
    result_error_bound: Option<f64>,
    /// Write the result's ciphertext to this file instead of decrypting it, and the plan beside it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    keys: KeysArgs,
    /// Id of a key on the node to use. When omitted, the command uploads the keys and deletes them at the end.
    #[arg(long, env = "ANGO_KEY", value_parser = parse_key_id)]
    key: Option<EncryptionKeyId>,
    /// How many numbers to print. When omitted, up to the last one that is not 0.
    #[arg(long)]
    count: Option<usize>,
    /// Replace an output file that exists.
    #[arg(long)]
    force: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl RunArgs {
    fn operation(&self) -> &'static str {
        let named = [
            (self.add, "add"),
            (self.multiply, "multiply"),
            (self.negate, "negate"),
            (self.rescale, "rescale"),
            (self.rotate.is_some(), "rotate"),
            (self.add_plain.is_some(), "add-plain"),
            (self.multiply_plain.is_some(), "multiply-plain"),
            (self.polynomial.is_some(), "poly-eval"),
            (self.matmul, "matmul"),
            (self.matmul_plain.is_some(), "matmul-plain"),
        ];
        named.into_iter().find(|(given, _)| *given).map_or("bootstrap", |(_, name)| name)
    }
}

/// An input that is ready to send.
enum Input<'a> {
    Numbers(Vec<f64>),
    Ciphertext(&'a Path, Vec<u8>),
}

/// The node's answer, with what this command expects of the result; `None` if an input is unknown.
struct Answer {
    done: ComputeOperation,
    expected: Option<Operand>,
}

pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    let inputs = args.inputs.iter().map(|text| match text.strip_prefix('@') {
        Some(path) => Ok(Input::Ciphertext(path.as_ref(), read_ciphertext(path.as_ref())?)),
        None => numbers_of(text).map(Input::Numbers),
    });
    let inputs: Vec<Input> = inputs.collect::<anyhow::Result<_>>()?;
    let needs_key = args.out.is_none() || inputs.iter().any(|input| matches!(input, Input::Numbers(_)));
    let secret = if needs_key { Some(args.keys.secret()?) } else { None };
    let mut ciphertexts = Vec::with_capacity(inputs.len());
    let mut known = Vec::with_capacity(inputs.len());
    for input in inputs {
        let (file, bytes) = match (input, &secret) {
            (Input::Ciphertext(file, bytes), _) => (Some(file), bytes),
            (Input::Numbers(numbers), Some(key)) => (None, args.bound.encrypt(key, numbers)?),
            (Input::Numbers(_), None) => bail!("the secret key is needed to encrypt the numbers"),
        };
        known.extend(if args.out.is_some() { expected::of_operand(file, &bytes)? } else { None });
        ciphertexts.push(bytes);
    }
    let client = args.node.client()?;
    let done = match &args.key {
        Some(key) => compute(&args, &client, key, ciphertexts, &known).await?,
        None => {
            let uploaded = args.keys.upload(&client).await?;
            let done = compute(&args, &client, &uploaded.key_id, ciphertexts, &known).await;
            // delete the key even after an error, because the node's copy of the key is no longer needed
            let deleted = client.delete_encryption_key(&uploaded.key_id).await;
            let done = done?;
            deleted.context("the key could not be deleted from the node")?;
            done
        }
    };
    print(&args, secret.as_ref(), &done)
}

/// Uploads the inputs, computes, and deletes the ciphertexts from the node. `known` is what this command knows of the
/// inputs without the node.
async fn compute(
    args: &RunArgs,
    client: &http::Client,
    key: &EncryptionKeyId,
    ciphertexts: Vec<Vec<u8>>,
    known: &[Operand],
) -> anyhow::Result<Answer> {
    let plain = args.add_plain.as_ref().or(args.multiply_plain.as_ref());
    let plain_operand = match (plain, &args.matmul_plain) {
        (Some(text), _) => {
            let slots = client.encryption_key(key).await?.slot_count as usize;
            Some(padded(parse_numbers(text)?, slots)?)
        }
        (None, matrix) => matrix.as_deref().map(parse_numbers).transpose()?,
    };
    let mut ids = Vec::with_capacity(ciphertexts.len());
    for ciphertext in ciphertexts {
        ids.push(client.upload_ciphertext(key, ciphertext).await?);
    }
    let request = ComputeRequest {
        operation: Some(args.operation().to_owned()),
        key_id: key.as_str().to_owned(),
        ciphertext_ids: ids.iter().map(|id| id.as_str().to_owned()).collect(),
        plain_operand,
        polynomial_coeffs: args.polynomial.as_deref().map(parse_numbers).transpose()?,
        scale_stable: Some(!args.unscaled),
        rotation_steps: args.rotate,
        result_bound: args.result_bound,
        result_error_bound: args.result_error_bound,
        return_ciphertext: None,
    };
    let done = client.compute(&request).await;
    let result = done.as_ref().ok().and_then(|done| done.result_ciphertext_id.clone());
    for id in ids.into_iter().chain(result) {
        // an error is ignored, because the node may have evicted the ciphertext
        let _ = client.delete_ciphertext(&id).await;
    }
    let done = done?;
    let mut expected = None;
    if args.out.is_some() && known.len() == request.ciphertext_ids.len() {
        let more = expected::Arguments {
            plain: request.plain_operand.as_deref(),
            coefficients: request.polynomial_coeffs.as_deref(),
            steps: request.rotation_steps,
            scale_stable: !args.unscaled,
            result_bound: request.result_bound,
        };
        expected = Some(expected::of_result(args.operation(), known, &more, &result_of(&done)?)?);
    }
    Ok(Answer { done, expected })
}

/// The result's ciphertext in an answer.
fn result_of(done: &ComputeOperation) -> anyhow::Result<Vec<u8>> {
    Ok(from_base64(done.result_ciphertext.as_deref().context("the node's answer has no result")?)?)
}

fn print(args: &RunArgs, secret: Option<&SecretKey>, answer: &Answer) -> anyhow::Result<()> {
    let Answer { done, expected } = answer;
    let bytes = result_of(done)?;
    let mut facts = serde_json::json!({
        "operation": done.operation,
        "noise_budget_remaining": done.noise_budget_remaining,
        "levels_remaining": done.levels_remaining,
        "precision_bits": done.precision_bits,
        "compute_time_ms": done.compute_time_ms,
        "cost_jpy": done.cost_jpy,
    });
    match (&args.out, secret) {
        (Some(path), _) => {
            files::write(path, &bytes, FileReaders::Shared, args.force)?;
            facts["out"] = serde_json::json!(path);
            match expected {
                Some(expected) => expected::write(path, &bytes, expected, args.force)?,
                None => eprintln!("no plan is written, because the plan of an input is not beside its file"),
            }
        }
        (None, Some(key)) => {
            let decrypted = key.decrypt(&container::read_ciphertext(&bytes, key.params(), key.fingerprint())?)?;
            let count = args.count.unwrap_or(decrypted.values.len()).min(decrypted.values.len());
            facts["values"] = serde_json::json!(decrypted.values[..count]);
            if !args.json {
                println!("{}", show(&decrypted.values, decrypted.error_bound, args.count).join(","));
            }
        }
        (None, None) => bail!("the secret key is needed to decrypt the result"),
    }
    if args.json {
        println!("{facts}");
    } else {
        eprintln!(
            "{} levels and {}% of the noise budget left, {:.1} bits of precision, {} yen",
            done.levels_remaining,
            done.noise_budget_remaining,
            done.precision_bits,
            serde_json::to_string(&done.cost_jpy)?
        );
    }
    Ok(())
}
