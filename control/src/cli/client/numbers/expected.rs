//! What the client expects of a result, from its own plan of the operation, in a file beside the result. Numbers that
//! others will see get noise of this strength (`decrypt --share`), because the record in a result is the node's word.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use client::ckks::container::{self, Form};
use client::ckks::operation::{self, Operand, Operation, Request};
use client::ckks::plaintexts::Plaintexts;
use client::ckks::{Ciphertext, Noise, Params, Tail, evaluation_key_parts};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cli::files::{self, FileReaders};

/// Largest size of the file in bytes.
const BYTES_MAX: usize = 1 << 12;

/// What a client expects of one ciphertext.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    /// SHA-256 of the ciphertext's file, in hexadecimal digits.
    ciphertext_sha256: String,
    level: usize,
    scale: f64,
    value_bound: f64,
    variance: f64,
    mixed: bool,
}

/// The file beside a ciphertext's file: its name, then `.plan.json`.
pub fn beside(ciphertext: &Path) -> PathBuf {
    let mut name = ciphertext.as_os_str().to_owned();
    name.push(".plan.json");
    name.into()
}

/// Writes the file beside a result.
pub fn write(result: &Path, bytes: &[u8], expected: &Operand, force: bool) -> anyhow::Result<()> {
    let Operand { level, scale, noise: Noise { value_bound, variance, tail, .. } } = *expected;
    let mixed = tail == Tail::Mixed;
    let expected = Expected { ciphertext_sha256: digest(bytes), level, scale, value_bound, variance, mixed };
    files::write(&beside(result), &serde_json::to_vec_pretty(&expected)?, FileReaders::Shared, force)
}

/// Reads a file of this form. `bytes` is the ciphertext that the file must be about.
pub fn read(file: &Path, bytes: &[u8]) -> anyhow::Result<Operand> {
    let text = files::read(file, BYTES_MAX)?;
    let expected: Expected = serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a plan that `ango client numbers run` wrote", file.display()))?;
    let Expected { ciphertext_sha256, level, scale, value_bound, variance, mixed } = expected;
    if ciphertext_sha256 != digest(bytes) {
        bail!("{} is the plan of another ciphertext", file.display());
    }
    if ![scale, value_bound, variance].iter().all(|x| x.is_finite() && *x >= 0.0) {
        bail!("{} has a number that is negative or not finite", file.display());
    }
    let tail = if mixed { Tail::Mixed } else { Tail::AsSent };
    Ok(Operand { level, scale, noise: Noise { tail, ..Noise::new(value_bound, variance) } })
}

/// What the client knows of an operand without the node: a seeded ciphertext is a fresh encryption, and any other
/// ciphertext is a result with a file beside it. `None` if nothing is known.
pub fn of_operand(file: Option<&Path>, bytes: &[u8]) -> anyhow::Result<Option<Operand>> {
    let (params, Ciphertext { level, scale, noise, .. }) = open(bytes)?;
    if container::ciphertext_bytes(&params, level, Form::Seeded) == bytes.len() {
        let fresh = Noise::encrypt_secret(noise.value_bound).encoded(params.n(), scale);
        return Ok(Some(Operand {
            level,
            scale,
            noise: Noise { variance: noise.variance.max(fresh.variance), ..noise },
        }));
    }
    match file.map(beside).filter(|plan| plan.exists()) {
        Some(plan) => read(&plan, bytes).map(Some),
        None => Ok(None),
    }
}

/// The arguments of an operation besides its ciphertexts.
pub struct Arguments<'a> {
    pub plain: Option<&'a [f64]>,
    pub coefficients: Option<&'a [f64]>,
    pub steps: Option<i64>,
    pub scale_stable: bool,
    pub result_bound: Option<f64>,
}

/// Plans the operation as a node with the keys of this client would. `result` is the node's result.
///
/// # Errors
/// When the operation cannot be planned, or the result has another level or scale than the plan.
pub fn of_result(name: &str, operands: &[Operand], more: &Arguments<'_>, result: &[u8]) -> anyhow::Result<Operand> {
    let (params, Ciphertext { level, scale, .. }) = open(result)?;
    let operation = Operation::from_name(name).context("an operation of the specification")?;
    let &Arguments { plain, coefficients, steps, scale_stable, result_bound } = more;
    let parts = &evaluation_key_parts(&params);
    let request = Request { operation, operands, plain, coefficients, steps, scale_stable, parts };
    let plan = operation::plan(&Plaintexts::without_words(&params), &params, &request)?;
    let output = plan.outputs().next().context("a plan has a result")?;
    let expected = Operand { level: output.level, scale: output.scale, noise: output.noise };
    if expected.level != level || !client::ckks::same_scale(expected.scale, scale) {
        bail!("the node's result has another level or scale than the operation gives");
    }
    // a promised error is not used: the noise that hides a shared result's error must not depend on a promise
    let noise = expected.noise.promised(params.n(), expected.scale, result_bound, None);
    Ok(Operand { noise, ..expected })
}

fn open(bytes: &[u8]) -> anyhow::Result<(Params, Ciphertext)> {
    let params = Params::new(container::read_literal(bytes)?)?;
    let fingerprint = bytes.get(8..16).context("a frame has a fingerprint")?.try_into()?;
    let ciphertext = container::read_ciphertext(bytes, &params, fingerprint)?;
    Ok((params, ciphertext))
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
