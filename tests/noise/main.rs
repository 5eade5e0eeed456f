//! Measured noise against the model of `kernels::tfhe::noise`, stage by stage, at every preset.
//!
//! A stage passes when the mean square of its errors is 0.9 to 1.1 times the modelled variance, widened by four
//! standard deviations of that estimate. Several keys share the samples: part of the noise is a constant of the key (an
//! even key-switch base has digits of mean -1/2; a key's weight is not exactly the expected one), and the model is an
//! average.
//!
//! Prints what it measured, and the failure probabilities that the same model estimates. `ANGO_NOISE_DUMP=folder`
//! writes the errors, `PRESET.STAGE.txt`, one signed integer a line in units of 2^-32 of a turn.

mod samples;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kernels::tfhe::{Preset, noise};
use libtest_mimic::{Arguments, Failed, Trial, run};

use samples::samples;

/// Measured over modelled variance, before the widening by the sample size.
const RATIOS: std::ops::RangeInclusive<f64> = 0.9..=1.1;

fn main() -> ExitCode {
    let dump = std::env::var_os("ANGO_NOISE_DUMP").map(PathBuf::from);
    let trial = |preset: Preset| {
        let dump = dump.clone();
        Trial::test(format!("noise/{}", preset.name()), move || check(preset, dump.as_deref()))
    };
    run(&Arguments::from_args(), Preset::ALL.map(trial).into()).exit_code()
}

fn check(preset: Preset, dump: Option<&Path>) -> Result<(), Failed> {
    let p = preset.params();
    let mut report = String::new();
    let mut outside = Vec::new();
    for (stage, errors) in samples(preset) {
        if let Some(folder) = dump {
            let lines: String = errors.iter().map(|error| format!("{error}\n")).collect();
            std::fs::write(folder.join(format!("{}.{stage}.txt", preset.name())), lines)?;
        }
        let model = match stage {
            "fresh" => p.lwe_noise_std.powi(2),
            "br" => noise::blind_rotate(&p),
            "ks" => noise::lwe_key_switch(&p),
            "out" => noise::gate_output(&p),
            "mux" => noise::mux_output(&p),
            _ => unreachable!("a stage without a model"),
        };
        let count = errors.len() as f64;
        // about zero: the model has no bias
        let mean_square = errors.iter().map(|&error| f64::from(error).powi(2)).sum::<f64>() / count / 64f64.exp2();
        let ratio = mean_square / model;
        let widened = 4.0 * (2.0 / count).sqrt();
        report += &format!(
            "  {stage:5} {count:6} samples  log2 std {:7.3}, model {:7.3}  variance ratio {ratio:.3} +- {widened:.3}\n",
            mean_square.log2() / 2.0,
            model.log2() / 2.0,
        );
        if ratio < RATIOS.start() - widened || ratio > RATIOS.end() + widened {
            outside.push(stage);
        }
    }
    let f = noise::failure_log2(&p);
    let failures = format!(
        "gate 2^{:.1}, xor 2^{:.1}, mux 2^{:.1}, worst (mux of mux) 2^{:.1}, decryption 2^{:.1}",
        f.gate, f.xor, f.mux, f.worst, f.decrypt
    );
    // one write, so that presets running side by side do not mix their lines
    println!("{}\n{report}  fails, estimated: {failures}", preset.name());
    if outside.is_empty() { Ok(()) } else { Err(format!("outside the model: {}", outside.join(", ")).into()) }
}
