//! `ango client numbers`: keys, encryption, operations and decryption of vectors of numbers.

mod encrypt;
mod keys;
mod run;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};

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
    Run(run::RunArgs),
}

pub async fn numbers(args: NumbersArgs) -> anyhow::Result<()> {
    match args.command {
        Command::Keygen(args) => keys::keygen(args),
        Command::Key(args) => keys::key(args).await,
        Command::Encrypt(args) => encrypt::encrypt(args),
        Command::Decrypt(args) => encrypt::decrypt(args),
        Command::Run(args) => run::run(args).await,
    }
}

/// Parses numbers that are separated by commas, spaces or line ends.
fn parse_numbers(text: &str) -> anyhow::Result<Vec<f64>> {
    let words = text.split(|separator: char| separator == ',' || separator.is_whitespace());
    let numbers: Vec<f64> = words
        .filter(|word| !word.is_empty())
        .map(|word| match word.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => bail!("`{word}` is not a number"),
        })
        .collect::<anyhow::Result<_>>()?;
    if numbers.is_empty() {
        bail!("there is no number");
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

/// Returns the bound for encrypting these numbers: the given bound, otherwise the largest magnitude of the numbers, but
/// at least 1.
fn bound(numbers: &[f64], given: Option<f64>) -> anyhow::Result<f64> {
    let largest = numbers.iter().fold(0.0f64, |largest, number| largest.max(number.abs()));
    match given {
        Some(bound) if largest > bound => bail!("the number {largest} is above the bound {bound}"),
        Some(bound) => Ok(bound),
        None => Ok(largest.max(1.0)),
    }
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
    use super::*;

    #[test]
    fn numbers_are_separated_by_commas_or_spaces() {
        assert_eq!(parse_numbers("1.5,-2, 3e-2\n4").unwrap(), [1.5, -2.0, 0.03, 4.0]);
        for wrong in ["", " , ", "1,x", "inf", "1,NaN", "1;2"] {
            assert!(parse_numbers(wrong).is_err(), "{wrong}");
        }
        assert!(padded(vec![1.0; 5], 4).is_err());
        assert_eq!(padded(vec![1.0], 3).unwrap(), [1.0, 0.0, 0.0]);
    }

    #[test]
    fn a_bound_holds_all_numbers() {
        assert_eq!(bound(&[0.1], None).unwrap(), 1.0);
        assert_eq!(bound(&[0.1, -7.0], None).unwrap(), 7.0);
        assert_eq!(bound(&[0.1, -7.0], Some(10.0)).unwrap(), 10.0);
        assert!(bound(&[0.1, -7.0], Some(5.0)).is_err());
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
