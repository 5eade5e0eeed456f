//! Compares the cost of a gate that `Params::cost` states with the gate's measured time. Both are ratios to `fast_128`
//! in the same run. Gates run in batches of 16 on one thread; all shapes run in turns, and the fastest run of each
//! shape counts. Keys are random words, because times do not depend on them.
//!
//! `cargo bench --workspace --bench cost`

use std::time::{Duration, Instant};

use benches::only_once;
use kernels::Backend;
use kernels::cpu::{Cpu, Isa};
use kernels::tfhe::cpu::Key;
use kernels::tfhe::keys::Masks;
use kernels::tfhe::{EvaluationKey, Gates, Params, ParamsLiteral, Preset, RING_MODULUS, Stems};

const ROWS: usize = 16;
const ROUNDS: usize = 15;

/// The extreme bases and levels that imported keys may have. Each entry has the base log and levels of the bootstrap,
/// then the base and levels of the key switch.
const IMPORTED: [([usize; 2], (u32, usize)); 4] =
    [([8, 2], (4, 6)), ([9, 2], (4, 7)), ([6, 3], (16, 3)), ([6, 3], (4, 7))];

struct Subject {
    name: String,
    params: Params,
    key: Key,
    load: Duration,
    times: Vec<Duration>,
}

fn main() {
    for isa in Isa::available() {
        let cpu = Cpu::with(isa, 1);
        let mut subjects: Vec<Subject> = shapes().map(|(name, params)| Subject::load(&cpu, name, params)).collect();
        for _ in 0..if only_once() { 1 } else { ROUNDS } {
            subjects.iter_mut().for_each(|subject| subject.measure(&cpu));
        }
        println!("\n{}, {}\n", cpu.info().name, cpu.info().backend);
        println!("| shape | cost | ratio by cost | ratio measured | ms a gate | load ms |\n|---|---|---|---|---|---|");
        let unit = (f64::from(subjects[0].params.cost()), subjects[0].fastest());
        for subject in &subjects {
            let cost = subject.params.cost();
            println!(
                "| {} | {cost} | {:.2} | {:.2} | {:.3} | {:.0} |",
                subject.name,
                f64::from(cost) / unit.0,
                subject.fastest() / unit.1,
                subject.fastest() * 1e3 / ROWS as f64,
                subject.load.as_secs_f64() * 1e3,
            );
        }
    }
}

fn shapes() -> impl Iterator<Item = (String, Params)> {
    let own = Preset::ALL.into_iter().map(|preset| (preset.name().to_owned(), preset.params()));
    let imported = [Preset::Fast128, Preset::Conservative128].into_iter().flat_map(|preset| {
        IMPORTED.into_iter().map(move |([base_log, levels], (key_switch_base, key_switch_levels))| {
            let literal = ParamsLiteral {
                bootstrap_base_log: base_log,
                bootstrap_level_count: levels,
                key_switch_base,
                key_switch_level_count: key_switch_levels,
                ..*preset.params()
            };
            let name = format!("{} 2^{base_log} x {levels}, {key_switch_base} x {key_switch_levels}", preset.name());
            (name, Params::try_from(literal).expect("legal"))
        })
    });
    own.chain(imported)
}

impl Subject {
    fn load(cpu: &Cpu, name: String, params: Params) -> Subject {
        let words = |count: usize| (0..count as u32).map(|i| i.wrapping_mul(2_654_435_761) % RING_MODULUS).collect();
        let key = EvaluationKey {
            preset: Preset::Fast128,
            params,
            fingerprint: None,
            masks: Masks::Ango([1; 32]),
            bootstrap_bodies: words(params.bootstrap_body_words()),
            key_switch_bodies: words(params.key_switch_body_words()),
        };
        let started = Instant::now();
        let key = cpu.load_key(&key).expect("memory");
        Subject { name, params, key, load: started.elapsed(), times: Vec::new() }
    }

    /// Runs the bootstraps and key switches of a batch.
    fn measure(&mut self, cpu: &Cpu) {
        let words = ROWS * (self.params.lwe_dimension + 1);
        let inputs: Vec<u32> = (0..words as u32).map(|i| i.wrapping_mul(2_246_822_519)).collect();
        let started = Instant::now();
        let samples = cpu.bootstrap(&self.key, &inputs).expect("the CPU does not fail");
        cpu.key_switch(&self.key, &samples).expect("the CPU does not fail");
        self.times.push(started.elapsed());
    }

    fn fastest(&self) -> f64 {
        self.times.iter().min().expect("it was measured").as_secs_f64()
    }
}
