//! Networks: bootstraps over sums of inputs and of earlier bootstraps' results.

use super::cells::Amplitude;
use super::noise::{InputNoise, Load, SumNoise, beyond};
use super::params::ParamsLiteral;

/// The value in a term of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The circuit's input bit with this number, at an eighth.
    Input(u32),
    /// A result of a bootstrap: `2 b` is the first sample of bootstrap `b`, and `2 b + 1` is the second, a quarter turn
    /// after the first.
    Sample(u32),
}

/// A source with its factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term {
    /// The source.
    pub source: Source,
    /// The factor, never 0.
    pub factor: i8,
}

impl Term {
    /// Adds up the factors of equal sources, and orders the terms by their sources. A factor may become 0.
    pub(super) fn combine(terms: &mut Vec<Term>) {
        terms.sort_unstable_by_key(|term| term.source);
        terms.dedup_by(|next, first| {
            let same = next.source == first.source;
            if same {
                first.factor += next.factor;
            }
            same
        });
    }
}

/// The sum `constant / 8 + factor * source + ...`, with each source at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum<'a> {
    /// Constant in eighths of a turn, -4 to 3.
    pub constant: i8,
    /// Terms, ordered by source.
    pub terms: &'a [Term],
}

/// Smallest distance of a sum's phases from 0 and 1/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Margin {
    /// Phases are odd eighths.
    Eighth,
    /// Phases are a quarter or three quarters.
    Quarter,
}

impl Margin {
    /// The margin in turns.
    pub fn turns(self) -> f64 {
        match self {
            Margin::Eighth => 1.0 / 8.0,
            Margin::Quarter => 1.0 / 4.0,
        }
    }
}

/// The load of a sum of different sources.
pub(super) fn load(terms: &[Term]) -> Load {
    let mut load = Load::default();
    for term in terms {
        match term.source {
            Source::Input(_) => load.add_input(term.factor),
            Source::Sample(_) => load.add_sample(term.factor),
        }
    }
    load
}

/// The properties of a bootstrap, without its sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rotation {
    amplitude: Amplitude,
    second: bool,
    covers: [u32; 3],
}

/// A circuit as bootstraps over sums.
///
/// A bootstrap yields the sign of its sum's phase: a sample `+A` if the phase is in (0, 1/2), `-A` if it is in (1/2,
/// 1). The second sample, if any, is the sign of the phase plus a quarter turn.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Network {
    rotations: Vec<Rotation>,
    /// Constants of the sums of all bootstraps, then of all outputs.
    constants: Vec<i8>,
    /// For each of these sums, the index at which its terms end.
    ends: Vec<u32>,
    terms: Vec<Term>,
    gates_asked: u64,
}

impl Network {
    /// An empty network for a circuit of this many gates.
    pub(super) fn new(gates_asked: u64) -> Network {
        Network { gates_asked, ..Network::default() }
    }

    /// Appends a bootstrap. All bootstraps must be appended before the first output.
    pub(super) fn push(&mut self, sum: Sum<'_>, amplitude: Amplitude) -> u32 {
        debug_assert_eq!(self.constants.len(), self.rotations.len());
        self.rotations.push(Rotation { amplitude, second: false, covers: [0; 3] });
        self.push_sum(sum);
        self.rotations.len() as u32 - 1
    }

    /// Appends an output. All bootstraps must be appended before the first output.
    pub(super) fn push_output(&mut self, sum: Sum<'_>) {
        self.push_sum(sum);
    }

    fn push_sum(&mut self, sum: Sum<'_>) {
        self.constants.push(sum.constant);
        self.terms.extend_from_slice(sum.terms);
        self.ends.push(self.terms.len() as u32);
    }

    /// Requests the second sample of a bootstrap.
    pub(super) fn want_second(&mut self, bootstrap: u32) {
        self.rotations[bootstrap as usize].second = true;
    }

    /// Sets how many XOR, AND and NOT gates of the circuit a bootstrap stands for.
    pub(super) fn cover(&mut self, bootstrap: u32, gates: [u32; 3]) {
        let covers = &mut self.rotations[bootstrap as usize].covers;
        covers.iter_mut().zip(gates).for_each(|(covers, gates)| *covers += gates);
    }

    /// The number of bootstraps.
    pub fn bootstraps(&self) -> usize {
        self.rotations.len()
    }

    /// The sum that a bootstrap reads. Its samples come from bootstraps with smaller indices.
    ///
    /// # Panics
    /// When the bootstrap does not exist.
    pub fn sum(&self, bootstrap: usize) -> Sum<'_> {
        assert!(bootstrap < self.rotations.len(), "no bootstrap {bootstrap}");
        self.sum_at(bootstrap)
    }

    fn sum_at(&self, at: usize) -> Sum<'_> {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        Sum { constant: self.constants[at], terms: &self.terms[start..self.ends[at] as usize] }
    }

    /// Amplitude of a bootstrap's samples.
    ///
    /// # Panics
    /// When the bootstrap does not exist.
    pub fn amplitude(&self, bootstrap: usize) -> Amplitude {
        self.rotations[bootstrap].amplitude
    }

    /// Whether a bootstrap's second sample is read.
    ///
    /// # Panics
    /// When the bootstrap does not exist.
    pub fn has_second(&self, bootstrap: usize) -> bool {
        self.rotations[bootstrap].second
    }

    /// The number of output bits.
    pub fn outputs(&self) -> usize {
        self.ends.len() - self.rotations.len()
    }

    /// The sum of an output bit, at an eighth. The sum is not bootstrapped, but it is key-switched if it has samples. A
    /// sum without terms is a constant bit: 1 for true, -1 for false.
    ///
    /// # Panics
    /// When the output does not exist.
    pub fn output(&self, at: usize) -> Sum<'_> {
        self.sum_at(self.rotations.len() + at)
    }

    /// Bootstraps by level, each level in ascending order. A level reads inputs and results of earlier levels.
    pub fn levels(&self) -> Vec<Vec<u32>> {
        let mut levels: Vec<Vec<u32>> = Vec::new();
        for (bootstrap, level) in self.level_of_each().into_iter().enumerate() {
            if level as usize == levels.len() {
                levels.push(Vec::new());
            }
            levels[level as usize].push(bootstrap as u32);
        }
        levels
    }

    /// The number of levels.
    pub fn depth(&self) -> usize {
        self.level_of_each().iter().max().map_or(0, |&last| last as usize + 1)
    }

    /// The first possible level of each bootstrap.
    fn level_of_each(&self) -> Vec<u32> {
        let mut level_of: Vec<u32> = Vec::with_capacity(self.bootstraps());
        for bootstrap in 0..self.bootstraps() {
            let before = self.sum(bootstrap).terms.iter().filter_map(|term| match term.source {
                Source::Sample(sample) => Some(level_of[sample as usize / 2] + 1),
                Source::Input(_) => None,
            });
            level_of.push(before.max().unwrap_or(0));
        }
        level_of
    }

    /// How many XOR, AND and NOT gates of the circuit a bootstrap stands for.
    ///
    /// # Panics
    /// When the bootstrap does not exist.
    pub fn covers(&self, bootstrap: usize) -> [u32; 3] {
        self.rotations[bootstrap].covers
    }

    /// The number of gates in the circuit's text.
    pub fn gates_asked(&self) -> u64 {
        self.gates_asked
    }

    /// The number of gates that no bootstrap stands for, because they are constants or inputs, or nothing reads them.
    pub fn gates_free(&self) -> u64 {
        let covered: u64 = self.rotations.iter().flat_map(|rotation| rotation.covers).map(u64::from).sum();
        self.gates_asked - covered
    }

    /// Amplitude of a source.
    pub(super) fn amplitude_of(&self, source: Source) -> Amplitude {
        match source {
            Source::Input(_) => Amplitude::Eighth,
            Source::Sample(sample) => self.amplitude(sample as usize / 2),
        }
    }

    /// Phase of a sum in eighths of a turn if all its bits are false.
    pub(super) fn phase_of_zeros(&self, sum: Sum<'_>) -> i32 {
        let of = |term: &Term| i32::from(term.factor) * i32::from(self.amplitude_of(term.source).eighths());
        i32::from(sum.constant) - sum.terms.iter().map(of).sum::<i32>()
    }

    /// The margin at which a bootstrap reads its sum. Every bit changes the phase by an even number of eighths.
    pub(super) fn margin(&self, bootstrap: usize) -> Margin {
        match self.phase_of_zeros(self.sum(bootstrap)).rem_euclid(2) {
            0 => Margin::Quarter,
            _ => Margin::Eighth,
        }
    }

    /// Evaluates the network on plain bits by the phases of its sums.
    ///
    /// # Panics
    /// When a phase is 0 or a half, or an output is not at an eighth. This does not happen in networks of
    /// [`super::mapping::map`].
    pub fn evaluate(&self, inputs: &[bool]) -> Vec<bool> {
        let mut samples = vec![0i32; 2 * self.bootstraps()];
        let phase = |sum: Sum<'_>, samples: &[i32]| {
            let of = |source| match source {
                Source::Input(input) => {
                    if inputs[input as usize] {
                        1
                    } else {
                        -1
                    }
                }
                Source::Sample(sample) => samples[sample as usize],
            };
            let terms: i32 = sum.terms.iter().map(|term| i32::from(term.factor) * of(term.source)).sum();
            (i32::from(sum.constant) + terms).rem_euclid(8)
        };
        let sign = |phase: i32| match phase {
            1..=3 => 1,
            5..=7 => -1,
            _ => panic!("a phase of {phase} eighths has no sign"),
        };
        for bootstrap in 0..self.bootstraps() {
            let (phase, amplitude) = (phase(self.sum(bootstrap), &samples), self.amplitude(bootstrap).eighths());
            samples[2 * bootstrap] = sign(phase) * i32::from(amplitude);
            if self.has_second(bootstrap) {
                samples[2 * bootstrap + 1] = sign((phase + 2) % 8) * i32::from(amplitude);
            }
        }
        let output = |at| match phase(self.output(at), &samples) {
            1 => true,
            7 => false,
            phase => panic!("an output at {phase} eighths"),
        };
        (0..self.outputs()).map(output).collect()
    }

    /// log2 of the probability that the result of any bootstrap or the decryption of any output is wrong. The
    /// probabilities of all these failures are added.
    pub fn failure_log2(&self, p: &ParamsLiteral, inputs: InputNoise) -> f64 {
        let noise = SumNoise::of(p, inputs);
        let bootstraps = (0..self.bootstraps()).flat_map(|at| {
            let failure = beyond(self.margin(at).turns(), noise.read(&load(self.sum(at).terms)));
            // if the rotation has a second sample, each of the two may fail, so both count
            std::iter::repeat_n(failure, 1 + usize::from(self.has_second(at)))
        });
        let outputs = (0..self.outputs())
            .map(|at| self.output(at))
            .filter(|sum| !sum.terms.is_empty())
            .map(|sum| beyond(Margin::Eighth.turns(), noise.switched(&load(sum.terms))));
        log2_sum(bootstraps.chain(outputs))
    }
}

/// log2 of a sum of powers of two with these exponents.
pub(super) fn log2_sum(exponents: impl Iterator<Item = f64>) -> f64 {
    let (mut top, mut sum) = (f64::NEG_INFINITY, 0.0);
    for exponent in exponents.filter(|exponent| exponent.is_finite()) {
        if exponent > top {
            sum = sum * (top - exponent).exp2() + 1.0;
            top = exponent;
        } else {
            sum += (exponent - top).exp2();
        }
    }
    if sum == 0.0 { f64::NEG_INFINITY } else { top + f64::log2(sum) }
}
