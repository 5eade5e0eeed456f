//! Measured noise compared with the model of `kernels::tfhe::noise`, stage by stage, for every preset and for an
//! imported key.
//!
//! A stage passes if the variance of its errors equals the model's within [`TOLERANCE`]. Every coefficient of a
//! rotation is a sample, so there are enough samples to notice a variance that is five percent too large. The test
//! proves this: it multiplies each stage's variance by 1.05 and expects the check to fail. The model gets the known
//! properties of a key: its weights, and the errors that were drawn for it. Errors that are constant under a key are
//! checked separately, because the digits of an even key-switch base have the mean -1/2.
//!
//! Keys and inputs come from seeds. The test prints the seeds with the measurements, and with the failure probabilities
//! that the same model gives. With `ANGO_NOISE_DUMP=folder` the test also writes the errors to `NAME.STAGE.txt`, one
//! signed integer a line in units of 2^-32 of a turn.

mod correlated;
mod keys;
mod outputs;
mod samples;
mod sums;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kernels::tfhe::{Preset, noise};
use libtest_mimic::{Arguments, Failed, Trial, run};

use samples::{OfKey, Stage, fresh, samples};
use sums::SUMS;

/// The measured variance is divided by the model's variance. This is the largest allowed difference between the
/// quotient and 1.
const TOLERANCE: f64 = 0.03;
/// If the variance is larger by this factor, the check must fail.
const TOO_MUCH: f64 = 1.05;
/// The seeds of a preset's keys. Each is also the seed of the inputs under its key.
const SEEDS: [u64; 4] = [1, 2, 3, 4];

fn main() -> ExitCode {
    // the first preset stands for all in a short run
    let presets = tests_extent::pick(&Preset::ALL[..1], &Preset::ALL[..]);
    let measured = presets.iter().map(|&preset| {
        Trial::test(format!("noise/{}", preset.name()), move || {
            let keys = SEEDS.into_iter().map(|seed| (seed, keys::ours(preset, seed)));
            let mut stages = vec![fresh(preset)];
            stages.extend(samples(keys, &SUMS));
            let f = noise::failure_log2(&preset.params());
            let failures = format!(
                "  fails, estimated: gate 2^{:.1}, xor 2^{:.1}, mux 2^{:.1}, decryption 2^{:.1}\n",
                f.gate, f.xor, f.mux, f.decrypt
            );
            check(preset.name(), &stages, &failures)
        })
    });
    let imported = Trial::test("noise/imported", || {
        check("imported", &samples(SEEDS.into_iter().map(|seed| (seed, keys::imported(seed))), &[]), "")
    });
    let of_presets = |name: &'static str, check: fn(Preset) -> Result<(), Failed>| {
        presets.iter().map(move |&preset| Trial::test(format!("{name}/{}", preset.name()), move || check(preset)))
    };
    let correlated = of_presets("correlated", correlated::check);
    let outputs = of_presets("outputs", outputs::check);
    let model = Trial::test("model/sums", sums::check_model);
    let all = measured.chain([imported, model]).chain(correlated).chain(outputs);
    run(&Arguments::from_args(), all.collect()).exit_code()
}

fn check(name: &str, stages: &[Stage], failures: &str) -> Result<(), Failed> {
    let mut report = format!("{name}, seeds {SEEDS:?} (fresh: the client's own randomness)\n");
    let mut wrong = Vec::new();
    for Stage { name: stage, of_keys } in stages {
        if let Some(folder) = std::env::var_os("ANGO_NOISE_DUMP").map(PathBuf::from) {
            dump(&folder.join(format!("{name}.{stage}.txt")), of_keys)?;
        }
        let measured = Measured::of(of_keys, 1.0);
        report += &format!(
            "  {stage:5} {:6} samples  log2 std {:7.3}, model {:7.3}  variance ratio {:.4} +- {:.4}\n",
            measured.samples,
            (measured.ratio * measured.model).log2() / 2.0,
            measured.model.log2() / 2.0,
            measured.ratio,
            (2.0 / measured.samples as f64).sqrt(),
        );
        if !measured.fits() {
            wrong.push(format!("{stage} is outside the model"));
        }
        if Measured::of(of_keys, TOO_MUCH.sqrt()).fits() {
            wrong.push(format!("{stage} would not notice {TOO_MUCH} times the variance"));
        }
        if let Some(mean) = of_keys.iter().find_map(|of_key| of_key.mean_beyond_the_constant()) {
            wrong.push(format!("{stage} has errors of mean 2^{:.1}", mean.abs().log2()));
        }
    }
    // one call prints all lines, because presets run in parallel and would mix their lines otherwise
    println!("{report}{failures}");
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join(", ").into()) }
}

/// The statistic: the squared distance of an error from the mean of its key, divided by the model's variance for that
/// key, averaged over all errors.
struct Measured {
    samples: usize,
    ratio: f64,
    /// The variance by the model, averaged over the keys.
    model: f64,
}

impl Measured {
    /// The statistic after all errors are multiplied by `factor`.
    fn of(of_keys: &[OfKey], factor: f64) -> Measured {
        let (mut samples, mut sum, mut models) = (0, 0.0, 0.0);
        for of_key in of_keys {
            let (count, mean) = (of_key.errors.len(), of_key.mean());
            let squares: f64 = of_key.errors.iter().map(|&error| (turns(error) - mean).powi(2)).sum();
            sum += factor.powi(2) * squares / of_key.model * count as f64 / (count - 1) as f64;
            samples += count;
            models += of_key.model;
        }
        Measured { samples, ratio: sum / samples as f64, model: models / of_keys.len() as f64 }
    }

    fn fits(&self) -> bool {
        (self.ratio - 1.0).abs() <= TOLERANCE
    }
}

impl OfKey {
    /// The mean of the errors, in turns.
    fn mean(&self) -> f64 {
        self.errors.iter().map(|&error| turns(error)).sum::<f64>() / self.errors.len() as f64
    }

    /// The mean of the errors, if chance and the key's constant cannot explain its size (six standard deviations).
    fn mean_beyond_the_constant(&self) -> Option<f64> {
        let explained = self.constant + self.model / self.errors.len() as f64;
        Some(self.mean()).filter(|mean| mean.abs() > 6.0 * explained.sqrt())
    }
}

fn turns(error: i32) -> f64 {
    f64::from(error) * (-32f64).exp2()
}

fn dump(file: &Path, of_keys: &[OfKey]) -> std::io::Result<()> {
    let errors = of_keys.iter().flat_map(|of_key| &of_key.errors);
    std::fs::write(file, errors.map(|error| format!("{error}\n")).collect::<String>())
}
