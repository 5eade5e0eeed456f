//! The independent parts of a circuit. Two gates belong together if one reads the other. Gates that only read the same
//! inputs do not belong together. Groups of such parts can be computed on machines that know nothing of each other.

use super::{Circuit, CircuitGate, Signal};

/// A group of independent parts of a circuit, as a circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitGroup {
    /// The circuit of the group. It has an input for each input of the whole circuit of which the group reads a bit,
    /// and one output.
    pub circuit: Circuit,
    /// The input bits of the whole circuit that the group reads, in order. They are the group's input bits.
    pub inputs: Vec<u32>,
    /// For each output bit of the group, in order, the output bit of the whole circuit.
    pub outputs: Vec<u32>,
}

impl Circuit {
    /// Splits the circuit into groups of independent parts, as many groups as there are shares, or fewer. Each group
    /// has about its share of the gates that take a bootstrap. Every output is in one group, and gates that no output
    /// needs are in none. An output that is an input or a constant is in the first group.
    ///
    /// # Panics
    /// When there is no share, or when a share is 0.
    pub fn groups(&self, shares: &[u32]) -> Vec<CircuitGroup> {
        assert!(!shares.is_empty() && !shares.contains(&0), "shares");
        let group_of = self.group_of_gates(shares);
        let count = group_of.iter().flatten().max().map_or(1, |&last| last as usize + 1);
        let mut groups = vec![Gathered::default(); count];
        // the index of each gate in its group
        let mut place = vec![0; self.gates.len()];
        for (index, gate) in self.gates.iter().enumerate() {
            let Some(group) = group_of[index] else { continue };
            let group = &mut groups[group as usize];
            group.read(gate.operands());
            place[index] = group.gates.len() as u32;
            group.gates.push(index);
        }
        for (output, &signal) in self.outputs.iter().enumerate() {
            let group = match signal {
                Signal::Gate(index) => group_of[index as usize].expect("an output needs it"),
                Signal::Input(_) | Signal::Constant(_) => 0,
            };
            let group = &mut groups[group as usize];
            group.read(&[signal]);
            group.outputs.push(output as u32);
        }
        groups.into_iter().map(|group| group.into_group(self, &place)).collect()
    }

    /// For each level, the number of gates that take a bootstrap. Gates without a bootstrap add no level.
    pub fn bootstraps_by_level(&self) -> Vec<usize> {
        let mut level_of: Vec<u32> = Vec::with_capacity(self.gates.len());
        let mut levels = Vec::new();
        for gate in &self.gates {
            let before = gate.operands().iter().map(|signal| match *signal {
                Signal::Gate(earlier) => level_of[earlier as usize],
                Signal::Input(_) | Signal::Constant(_) => 0,
            });
            let before = before.max().unwrap_or(0);
            let bootstraps = gate.gate.bootstraps();
            if bootstraps == 0 {
                level_of.push(before);
                continue;
            }
            if before as usize == levels.len() {
                levels.push(0);
            }
            levels[before as usize] += bootstraps;
            level_of.push(before + 1);
        }
        levels
    }

    /// For each gate, its group. `None`: no output needs the gate. The groups are numbered from 0 without gaps.
    fn group_of_gates(&self, shares: &[u32]) -> Vec<Option<u32>> {
        let needed = self.needed();
        let mut parts = Parts { before: (0..self.gates.len() as u32).collect() };
        for (index, gate) in self.gates.iter().enumerate().filter(|&(index, _)| needed[index]) {
            for signal in gate.operands() {
                if let Signal::Gate(earlier) = *signal {
                    parts.join(index as u32, earlier);
                }
            }
        }
        let mut bootstraps = vec![0u64; self.gates.len()];
        let part_of: Vec<u32> = (0..self.gates.len() as u32).map(|index| parts.of(index)).collect();
        for (index, gate) in self.gates.iter().enumerate().filter(|&(index, _)| needed[index]) {
            bootstraps[part_of[index] as usize] += gate.gate.bootstraps() as u64;
        }
        let is_part = |&index: &u32| needed[index as usize] && part_of[index as usize] == index;
        let mut all: Vec<u32> = (0..self.gates.len() as u32).filter(is_part).collect();
        // the largest part first, into the group that would end first with it
        all.sort_by_key(|&part| std::cmp::Reverse(bootstraps[part as usize]));
        let (mut loads, mut groups) = (vec![0u64; shares.len()], vec![None; self.gates.len()]);
        for part in all {
            let size = bootstraps[part as usize];
            let end = |group: &usize| (loads[*group] + size) as f64 / f64::from(shares[*group]);
            let first = (0..shares.len()).min_by(|one, other| end(one).total_cmp(&end(other))).expect("a share");
            loads[first] += size;
            groups[part as usize] = Some(first as u32);
        }
        let mut used: Vec<u32> = groups.iter().flatten().copied().collect();
        used.sort_unstable();
        used.dedup();
        let number = |group: u32| used.binary_search(&group).expect("it is used") as u32;
        let of = |index: usize| groups[part_of[index] as usize].filter(|_| needed[index]).map(number);
        (0..self.gates.len()).map(of).collect()
    }
}

/// Independent parts while gates are joined: for each gate, the gate itself or an earlier gate of the same part.
struct Parts {
    before: Vec<u32>,
}

impl Parts {
    /// The first gate of a gate's part.
    fn of(&mut self, mut gate: u32) -> u32 {
        loop {
            let before = self.before[gate as usize];
            if before == gate {
                return gate;
            }
            // halves the way for the next call
            let further = self.before[before as usize];
            self.before[gate as usize] = further;
            gate = further;
        }
    }

    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.of(one), self.of(other));
        self.before[one.max(other) as usize] = one.min(other);
    }
}

/// The gates of a group, and the input bits and outputs, before the group is a circuit.
#[derive(Clone, Default)]
struct Gathered {
    gates: Vec<usize>,
    /// In any order. A bit may stand more than once.
    inputs: Vec<u32>,
    outputs: Vec<u32>,
}

impl Gathered {
    fn read(&mut self, signals: &[Signal]) {
        let inputs =
            signals.iter().filter_map(|signal| if let Signal::Input(bit) = *signal { Some(bit) } else { None });
        self.inputs.extend(inputs);
    }

    /// `place`: the index of each gate of the whole circuit in its group.
    fn into_group(self, whole: &Circuit, place: &[u32]) -> CircuitGroup {
        let Gathered { gates, mut inputs, outputs } = self;
        inputs.sort_unstable();
        inputs.dedup();
        if inputs.is_empty() {
            // every circuit has an input
            inputs.push(0);
        }
        let signal = |signal: Signal| match signal {
            Signal::Input(bit) => Signal::Input(inputs.binary_search(&bit).expect("the group reads it") as u32),
            Signal::Gate(index) => Signal::Gate(place[index as usize]),
            Signal::Constant(bit) => Signal::Constant(bit),
        };
        let gate = |index: usize| {
            let CircuitGate { gate, operands: [a, b] } = whole.gates[index];
            let a = signal(a);
            CircuitGate { gate, operands: [a, if gate.arity() == 1 { a } else { signal(b) }] }
        };
        let mut input_widths = Vec::new();
        let mut at = 0;
        for &width in &whole.input_widths {
            let end = at + width as u32;
            let read = inputs.partition_point(|&bit| bit < end) - inputs.partition_point(|&bit| bit < at);
            input_widths.extend(Some(read).filter(|&read| read > 0));
            at = end;
        }
        let circuit = Circuit {
            input_widths,
            output_widths: vec![outputs.len()],
            gates: gates.into_iter().map(gate).collect(),
            outputs: outputs.iter().map(|&output| signal(whole.outputs[output as usize])).collect(),
        };
        CircuitGroup { circuit, inputs, outputs }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::split;
    use super::super::tests::texts;
    use super::*;
    use crate::tfhe::builtin;

    /// Puts circuits side by side. If `shared`, all of them read the inputs of the first, as far as these go.
    fn side_by_side(circuits: &[Circuit], shared: bool) -> Circuit {
        let mut whole =
            Circuit { input_widths: Vec::new(), output_widths: Vec::new(), gates: Vec::new(), outputs: Vec::new() };
        for circuit in circuits {
            let (gates, bits) = (whole.gates.len() as u32, whole.input_widths.iter().sum::<usize>() as u32);
            let first = if shared { 0 } else { bits };
            let signal = |signal: Signal| match signal {
                Signal::Input(bit) => Signal::Input(first + bit),
                Signal::Gate(index) => Signal::Gate(gates + index),
                constant => constant,
            };
            let moved = |gate: &CircuitGate| CircuitGate { gate: gate.gate, operands: gate.operands.map(signal) };
            whole.gates.extend(circuit.gates.iter().map(moved));
            whole.outputs.extend(circuit.outputs.iter().copied().map(signal));
            whole.output_widths.extend(&circuit.output_widths);
            let own = circuit.input_widths.iter().sum::<usize>() as u32;
            if first + own > bits {
                whole.input_widths.push((first + own - bits) as usize);
            }
        }
        whole
    }

    /// Evaluates the groups, each read from its text, and puts their outputs in place.
    fn evaluate(circuit: &Circuit, groups: &[CircuitGroup], inputs: &[bool]) -> Vec<bool> {
        let mut outputs = vec![None; circuit.outputs.len()];
        for group in groups {
            let own: Vec<bool> = group.inputs.iter().map(|&bit| inputs[bit as usize]).collect();
            let read = Circuit::parse(&group.circuit.to_text()).unwrap();
            assert_eq!(read, group.circuit);
            let results = read.evaluate(&split(&own, &group.circuit.input_widths)).concat();
            for (&output, bit) in group.outputs.iter().zip(results) {
                assert_eq!(outputs[output as usize].replace(bit), None);
            }
        }
        outputs.into_iter().map(|bit| bit.expect("an output of a group")).collect()
    }

    fn bits(count: usize, seed: u64) -> Vec<bool> {
        let step = |state: &mut u64| {
            *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            Some(*state >> 63 == 1)
        };
        (0..count).scan(seed, |state, _| step(state)).collect()
    }

    fn check(circuit: &Circuit, shares: &[u32], seed: u64) -> Vec<CircuitGroup> {
        let groups = circuit.groups(shares);
        assert!((1..=shares.len()).contains(&groups.len()));
        let inputs = bits(circuit.input_widths.iter().sum(), seed);
        let whole = circuit.evaluate(&split(&inputs, &circuit.input_widths)).concat();
        assert_eq!(evaluate(circuit, &groups, &inputs), whole);
        groups
    }

    proptest! {
        #[test]
        fn groups_compute_what_the_whole_computes(
            texts in prop::collection::vec(texts(), 1..6),
            shares in prop::collection::vec(1u32..9, 1..5),
            shared in any::<bool>(),
            seed in any::<u64>(),
        ) {
            let circuits: Vec<Circuit> = texts.iter().map(|text| Circuit::parse(text).unwrap()).collect();
            let whole = side_by_side(&circuits, shared);
            let groups = check(&whole, &shares, seed);
            // no gate is in two groups
            let gates: usize = groups.iter().map(|group| group.circuit.gates.len()).sum();
            prop_assert_eq!(gates, whole.needed().into_iter().filter(|&needed| needed).count());
        }
    }

    #[test]
    fn built_in_circuits_side_by_side_are_split_by_their_shares() {
        let names = ["add16", "mul8", "add16", "eq16", "mul8", "add16", "min16", "mul8"];
        let circuit = |name| {
            let text = builtin::netlist(&format!("{}{name}", builtin::PREFIX)).expect("a circuit that every node has");
            Circuit::parse(&text).unwrap()
        };
        let circuits = names.map(circuit);
        let bootstraps = |circuit: &Circuit| circuit.bootstraps_by_level().iter().sum::<usize>();
        for shared in [false, true] {
            let whole = side_by_side(&circuits, shared);
            let all = bootstraps(&whole);
            for (shares, wanted) in [(&[1, 1][..], 0.5), (&[1, 1, 1], 0.34), (&[3, 1], 0.75)] {
                let groups = check(&whole, shares, 5);
                assert_eq!(groups.len(), shares.len());
                let first = bootstraps(&groups[0].circuit) as f64 / all as f64;
                assert!((first - wanted).abs() < 0.1, "{shares:?} {first}");
            }
        }
    }

    #[test]
    fn a_circuit_of_one_part_is_one_group() {
        let text = builtin::netlist(&format!("{}eq16", builtin::PREFIX)).expect("a circuit that every node has");
        let circuit = Circuit::parse(&text).unwrap();
        assert_eq!(check(&circuit, &[1, 1, 1], 3).len(), 1);
    }

    #[test]
    fn outputs_without_a_gate_are_in_the_first_group_and_gates_of_constants_have_an_input() {
        // out = a & b, b, 1, !0, c ^ b
        let text =
            "6 10\n3 1 1 1\n1 5\n\n1 1 0 3 EQ\n2 1 0 1 5 AND\n1 1 1 6 EQW\n1 1 1 7 EQ\n1 1 3 8 INV\n2 1 2 1 9 XOR\n";
        let circuit = Circuit::parse(text).unwrap();
        let groups = check(&circuit, &[1, 1, 1], 1);
        assert_eq!(groups.len(), 3);
        assert_eq!((&groups[0].inputs[..], &groups[0].outputs[..]), (&[0, 1][..], &[0, 1, 2][..]));
        assert_eq!((&groups[1].inputs[..], &groups[1].outputs[..]), (&[1, 2][..], &[4][..]));
        assert_eq!((&groups[2].inputs[..], &groups[2].outputs[..]), (&[0][..], &[3][..]));
    }

    #[test]
    fn levels_count_only_bootstraps() {
        let text = "4 6\n1 2\n1 1\n2 1 0 1 2 XOR\n1 1 2 3 INV\n2 1 3 0 4 AND\n1 1 4 5 INV\n";
        assert_eq!(Circuit::parse(text).unwrap().bootstraps_by_level(), [1, 1]);
        assert!(Circuit::parse("0 1\n1 1\n1 1\n").unwrap().bootstraps_by_level().is_empty());
    }
}
