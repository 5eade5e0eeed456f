//! Checks on 256 assignments of the inputs at once that a network computes the same function as its circuit.

use crate::tfhe::circuit::{Circuit, Signal};
use crate::tfhe::fold::Bit;
use crate::tfhe::gates::Gate;
use crate::tfhe::network::{Network, Source, Sum};

/// One bit in each of 256 evaluations.
type Lanes = [u64; 4];

/// Whether a network agrees with a circuit on inputs of these names: with all names false, with all true, and in 254
/// random assignments. Also returns false if a sum's phase is 0 or a half for one of these assignments.
pub(super) fn agrees(network: &Network, circuit: &Circuit, inputs: &[Bit]) -> bool {
    let inputs = lanes_of(inputs);
    network_on(network, &inputs).is_some_and(|found| found == circuit_on(circuit, &inputs))
}

/// The lanes of the inputs. Inputs with equal names have equal lanes, and inputs with opposite names have negated lanes.
fn lanes_of(inputs: &[Bit]) -> Vec<Lanes> {
    inputs
        .iter()
        .map(|&bit| match bit {
            Bit::Constant(bit) => [if bit { u64::MAX } else { 0 }; 4],
            Bit::Value { id, negated } => {
                let mut lanes: Lanes = std::array::from_fn(|word| mixed(u64::from(id) << 2 | word as u64));
                lanes[0] = lanes[0] & !1 | 2;
                if negated { lanes.map(|word| !word) } else { lanes }
            }
        })
        .collect()
}

/// Pseudorandom bits from a seed.
fn mixed(seed: u64) -> u64 {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..3 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state = state.wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    state ^ state >> 32
}

fn circuit_on(circuit: &Circuit, inputs: &[Lanes]) -> Vec<Lanes> {
    let mut results: Vec<Lanes> = Vec::with_capacity(circuit.gates().len());
    let lanes = |signal: Signal, results: &[Lanes]| match signal {
        Signal::Input(bit) => inputs[bit as usize],
        Signal::Gate(gate) => results[gate as usize],
        Signal::Constant(bit) => [if bit { u64::MAX } else { 0 }; 4],
    };
    for gate in circuit.gates() {
        let operand = |at: usize| lanes(gate.operands()[at], &results);
        let a = operand(0);
        let b = if gate.gate() == Gate::Not { a } else { operand(1) };
        results.push(std::array::from_fn(|word| match gate.gate() {
            Gate::Xor => a[word] ^ b[word],
            Gate::Xnor => !(a[word] ^ b[word]),
            Gate::And => a[word] & b[word],
            Gate::Nand => !(a[word] & b[word]),
            Gate::Or => a[word] | b[word],
            Gate::Nor => !(a[word] | b[word]),
            Gate::Not => !a[word],
            Gate::Mux => unreachable!("a circuit has no MUX"),
        }));
    }
    circuit.outputs().iter().map(|&signal| lanes(signal, &results)).collect()
}

/// The outputs of a network; `None` if a phase has no sign or an output is not at an eighth.
fn network_on(network: &Network, inputs: &[Lanes]) -> Option<Vec<Lanes>> {
    let mut samples: Vec<Lanes> = vec![[0; 4]; 2 * network.bootstraps()];
    for at in 0..network.bootstraps() {
        let phase = Phase::of(network, network.sum(at), inputs, &samples);
        samples[2 * at] = phase.sign()?;
        if network.has_second(at) {
            samples[2 * at + 1] = phase.turned().sign()?;
        }
    }
    (0..network.outputs()).map(|at| Phase::of(network, network.output(at), inputs, &samples).eighth()).collect()
}

/// Phases of a sum, with one lane for each evaluation. A phase is `odd + 2 (low + 2 high)` eighths.
struct Phase {
    odd: bool,
    low: Lanes,
    high: Lanes,
}

impl Phase {
    /// The phases of a sum. The computation starts from the phase for which all bits are false; each true bit adds an
    /// even number of eighths.
    fn of(network: &Network, sum: Sum<'_>, inputs: &[Lanes], samples: &[Lanes]) -> Phase {
        let zeros = network.phase_of_zeros(sum).rem_euclid(8);
        let all = |bit: i32| [if zeros >> bit & 1 == 1 { u64::MAX } else { 0 }; 4];
        let mut phase = Phase { odd: zeros % 2 == 1, low: all(1), high: all(2) };
        for term in sum.terms {
            let bits = match term.source {
                Source::Input(input) => &inputs[input as usize],
                Source::Sample(sample) => &samples[sample as usize],
            };
            let quarters = i32::from(term.factor) * i32::from(network.amplitude_of(term.source).eighths());
            phase.add(bits, quarters.rem_euclid(4));
        }
        phase
    }

    /// Adds `quarters` quarters in the lanes where the bit is true.
    fn add(&mut self, bits: &Lanes, quarters: i32) {
        for word in 0..4 {
            if quarters & 1 == 1 {
                self.high[word] ^= self.low[word] & bits[word];
                self.low[word] ^= bits[word];
            }
            if quarters & 2 == 2 {
                self.high[word] ^= bits[word];
            }
        }
    }

    fn turned(&self) -> Phase {
        let high = std::array::from_fn(|word| self.high[word] ^ self.low[word]);
        Phase { odd: self.odd, low: self.low.map(|word| !word), high }
    }

    fn sign(&self) -> Option<Lanes> {
        let has_sign = self.odd || self.low.iter().all(|&word| word == u64::MAX);
        has_sign.then(|| self.high.map(|word| !word))
    }

    /// The bit in each lane, if every phase is an eighth or minus an eighth; else `None`.
    fn eighth(&self) -> Option<Lanes> {
        (self.odd && self.low == self.high).then(|| self.high.map(|word| !word))
    }
}
