//! `ango client numbers`: keys, encryption, operations and decryption of vectors of numbers.

mod encrypt;
mod expected;
mod keys;
mod run;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use client::ckks::{EncryptError, SecretKey, VALUE_BOUND, container};

/// Make keys, encrypt, decrypt, and compute on vectors of numbers.
#[derive(Debug, Args)]
pub struct NumbersArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Keygen(keys::KeygenArgs),
    Key(keys::KeyArgs),
    Encrypt(encrypt::EncryptArgs),
    Decrypt(encrypt::DecryptArgs),
    Run(Box<run::RunArgs>),
}

pub async fn numbers(args: NumbersArgs) -> anyhow::Result<()> {
    match args.command {
        Command::Keygen(args) => keys::keygen(args),
        Command::Key(args) => keys::key(args).await,
        Command::Encrypt(args) => encrypt::encrypt(args),
        Command::Decrypt(args) => encrypt::decrypt(args),
        Command::Run(args) => run::run(*args).await,
    }
}

/// The option for the bound on the numbers that are encrypted.
#[derive(Debug, Args)]
struct BoundArgs {
    /// Bound on the magnitude of the numbers that are encrypted. The node sees the bound: choose it from what the
    /// numbers may be, not from what they are. A smaller bound gives results with more precision.
    #[arg(long, value_name = "NUMBER", default_value_t = VALUE_BOUND)]
    bound: f64,
}

impl BoundArgs {
    /// Encrypts the numbers, with zeros up to the number of slots, into a container.
    fn encrypt(&self, key: &SecretKey, numbers: Vec<f64>) -> anyhow::Result<Vec<u8>> {
        if let Some(at) = numbers.iter().position(|number| number.abs() > self.bound) {
            bail!("number {} has a magnitude above the bound {}: give a larger bound with --bound", at + 1, self.bound);
        }
        let ciphertext = match key.encrypt(&padded(numbers, key.params().slots())?, self.bound) {
            Err(EncryptError::Room(_)) => bail!("--bound {} is not positive, or too large for these keys", self.bound),
            encrypted => encrypted?,
        };
        Ok(container::write_seeded_ciphertext(&ciphertext, key.params(), key.fingerprint()))
    }
}

/// Parses numbers that are separated by commas, tabs, spaces or line ends. Lines are the rows of a table, and commas or
/// tabs separate its cells, so an empty row or cell between numbers is an error. A byte order mark at the start, and
/// white space at the end, are skipped.
fn parse_numbers(text: &str) -> anyhow::Result<Vec<f64>> {
    let mut numbers = Vec::new();
    for row in text.trim_start_matches('\u{feff}').trim_end().split('\n') {
        for cell in row.split(if row.contains(',') { ',' } else { '\t' }) {
            let mut words = cell.split_whitespace().peekable();
            if words.peek().is_none() {
                bail!("number {} is empty", numbers.len() + 1);
            }
            for word in words {
                match word.parse::<f64>() {
                    Ok(number) if number.is_finite() => numbers.push(number),
                    _ => bail!("number {}, `{word}`, is not a number", numbers.len() + 1),
                }
            }
        }
    }
    Ok(numbers)
}

/// Fills the numbers up with zeros to the number of slots.
fn padded(mut numbers: Vec<f64>, slots: usize) -> anyhow::Result<Vec<f64>> {
    if numbers.len() > slots {
        bail!("there are {} numbers, but a ciphertext holds at most {slots}", numbers.len());
    }
    numbers.resize(slots, 0.0);
    Ok(numbers)
}

/// Formats the first `count` decrypted numbers, each with the decimals that `error_bound` leaves correct. Without a
/// count, numbers at the end that may be 0 are left out.
fn show(values: &[f64], error_bound: f64, count: Option<usize>) -> Vec<String> {
    let is_not_zero = |value: &f64| value.abs() > error_bound;
    let whole = values.iter().rposition(is_not_zero).map_or(1, |last| last + 1);
    let decimals = (-error_bound.log10()).floor().clamp(0.0, 15.0) as usize;
    let rounded = |value: &f64| {
        let text = format!("{value:.decimals$}");
        // show 0 without a minus sign
        if text.trim_start_matches('-').chars().all(|digit| digit == '0' || digit == '.') {
            text.trim_start_matches('-').to_owned()
        } else {
            text
        }
    };
    values[..count.unwrap_or(whole).min(values.len())].iter().map(rounded).collect()
}

/// Parses the numbers in the text, or reads numbers from standard input if the text is a single `-`. Other users of the
/// machine can see arguments, but not standard input.
fn numbers_of(text: &str) -> anyhow::Result<Vec<f64>> {
    use std::io::Read;

    const BYTES_MAX: u64 = 4 << 20;
    if text != "-" {
        return parse_numbers(text);
    }
    let mut read = String::new();
    std::io::stdin().take(BYTES_MAX).read_to_string(&mut read).context("cannot read the numbers")?;
    parse_numbers(&read)
}

#[cfg(test)]
mod tests {
    use client::ckks::{Params, ParamsLiteral, SecurityLevel};

    use super::*;

    #[test]
    fn numbers_are_separated_by_commas_or_spaces() {
        for text in
            ["1.5,-2, 3e-2\n4", " 1.5 -2\t3e-2 \r\n 4\r\n", "\u{feff}1.5\n-2\n3e-2\n4\n\n", "1.5,-2\t,\t3e-2\n4"]
        {
            assert_eq!(parse_numbers(text).unwrap(), [1.5, -2.0, 0.03, 4.0], "{text:?}");
        }
        for (wrong, why) in [
            ("", "number 1 is empty"),
            (" , ", "number 1 is empty"),
            ("1,,2", "number 2 is empty"),
            (",1", "number 1 is empty"),
            ("1,2,", "number 3 is empty"),
            ("1,2,\n3,4", "number 3 is empty"),
            ("1\t\t2", "number 2 is empty"),
            ("1\n\n2", "number 2 is empty"),
            ("1\r\n\r\n2", "number 2 is empty"),
            ("1,x", "number 2, `x`, is not a number"),
            ("inf", "number 1, `inf`, is not a number"),
            ("1,NaN", "number 2, `NaN`, is not a number"),
            ("1;2", "number 1, `1;2`, is not a number"),
        ] {
            assert_eq!(parse_numbers(wrong).unwrap_err().to_string(), why, "{wrong:?}");
        }
        assert!(padded(vec![1.0; 5], 4).is_err());
        assert_eq!(padded(vec![1.0], 3).unwrap(), [1.0, 0.0, 0.0]);
    }

    #[test]
    fn what_is_sent_unencrypted_does_not_depend_on_the_numbers() {
        let security = SecurityLevel::Testing;
        let literal = ParamsLiteral { poly_degree: 64, scale_bits: 40, max_depth: 1, security, bootstrap: false };
        let key = SecretKey::generate(&Params::new(literal).unwrap());
        let encrypt = |bound: f64, numbers: &[f64]| BoundArgs { bound }.encrypt(&key, numbers.to_vec());
        // parameters, level, form and the three numbers of the record; the checksum before them depends on the mask
        const HEAD_BYTES: usize = 36;
        let head = |numbers: &[f64]| {
            let bytes = encrypt(VALUE_BOUND, numbers).unwrap();
            let end = container::CIPHERTEXT_HEAD_BYTES;
            (bytes.len(), bytes[end - HEAD_BYTES..end].to_vec())
        };
        let vectors: [&[f64]; 10] =
            [&[0.0], &[-0.0], &[1e-300], &[5e-324], &[1.0], &[2.5, 4.0], &[-7.25], &[15.999], &[-16.0], &[16.0; 32]];
        assert!(vectors.iter().all(|numbers| head(numbers) == head(&[3.0])));
        let refused = encrypt(VALUE_BOUND, &[1.0, 16.001]).unwrap_err().to_string();
        assert!(refused.starts_with("number 2") && refused.contains("--bound"), "{refused}");
        assert!(!refused.contains("16.001"), "the number stays out of messages");
        assert!(encrypt(1e6, &[51234.75]).is_ok());
        for bound in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            let refused = encrypt(bound, &[0.0]).unwrap_err().to_string();
            assert!(refused.contains("--bound"), "{bound}: {refused}");
        }
    }

    #[test]
    fn decrypted_numbers_have_the_decimals_that_are_right() {
        let values = [1.500_000_04, -0.000_000_01, 2.25, 0.000_000_02, -0.000_000_03];
        assert_eq!(show(&values, 1e-6, None), ["1.500000", "0.000000", "2.250000"]);
        assert_eq!(show(&values, 1e-6, Some(5)).len(), 5);
        assert_eq!(show(&values, 0.3, None), ["2", "0", "2"]);
        assert_eq!(show(&[0.0; 4], 1e-3, None), ["0.000"]);
    }
}
