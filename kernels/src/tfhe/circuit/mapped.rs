//! The plan of a mapped circuit: cells ordered by level, over as few slots as the lifetimes of values allow.
//!
//! The first slots hold the inputs, in order. Outputs that are constants follow. A wire takes several slots
//! ([`crate::tfhe::cells`]). A bootstrap has the same level as in the network. An output is key-switched in the level
//! after its last bootstrap. An output and its negation share one slot.

use std::collections::HashMap;

use super::Plan;
use super::plan::SlotPool;
use crate::tfhe::cells::{CellKind, SlotCells, slots_of_wire};
use crate::tfhe::network::{Network, Source, Sum, Term};
use crate::tfhe::params::ParamsLiteral;

impl Plan {
    /// Plans a network on `inputs` input bits, for keys of these parameters.
    pub fn mapped(network: &Network, inputs: usize, params: &ParamsLiteral) -> Plan {
        let wire_slots = slots_of_wire(params);
        let levels = Levels::of(network);
        let mut pool = SlotPool::default();
        let inputs: Vec<u32> = (0..inputs).map(|_| pool.take()).collect();
        let mut writer = Writer { inputs: &inputs, wires: vec![Vec::new(); 2 * network.bootstraps()] };
        let mut is_output = vec![false; inputs.len()];
        let (mut constants, mut outputs) = (Vec::new(), vec![0; network.outputs()]);
        let mut negated = vec![false; outputs.len()];
        for (at, (output, negated)) in outputs.iter_mut().zip(&mut negated).enumerate() {
            let sum = network.output(at);
            match *sum.terms {
                [] => {
                    let bit = sum.constant == 1;
                    let known = constants.iter().find(|&&(_, of)| of == bit).map(|&(slot, _)| slot);
                    *output = known.unwrap_or_else(|| {
                        constants.push((pool.take(), bit));
                        constants[constants.len() - 1].0
                    });
                }
                [first, ..] => {
                    *negated = first.factor < 0;
                    if let Source::Input(input) = first.source {
                        is_output[input as usize] = true;
                        *output = inputs[input as usize];
                    }
                }
            }
        }

        let mut cells = SlotCells::new(wire_slots);
        let mut stands_for = Vec::new();
        let mut level_ends = Vec::with_capacity(levels.bootstraps.len());
        // the slot of each sum that is an output, or whose negation is an output
        let mut results: HashMap<(i8, Vec<Term>), u32> = HashMap::new();
        for level in 0..levels.bootstraps.len() {
            for &source in &levels.freed[level] {
                match source {
                    Source::Input(input) if is_output[input as usize] => {}
                    Source::Input(input) => pool.give_back(inputs[input as usize]),
                    Source::Sample(sample) => {
                        std::mem::take(&mut writer.wires[sample as usize])
                            .into_iter()
                            .for_each(|slot| pool.give_back(slot));
                    }
                }
            }
            for &bootstrap in &levels.bootstraps[level] {
                let bootstrap = bootstrap as usize;
                let samples = 2 * bootstrap..2 * bootstrap + 1 + usize::from(network.has_second(bootstrap));
                for sample in samples.clone() {
                    writer.wires[sample] = (0..wire_slots).map(|_| pool.take()).collect();
                }
                let written = writer.wires[samples].concat();
                let kind = CellKind::Bootstrap(network.amplitude(bootstrap));
                writer.push(&mut cells, kind, network.sum(bootstrap), &written);
                stands_for.push(network.covers(bootstrap));
            }
            for &output in &levels.outputs[level] {
                let (constant, terms) = positive(network.output(output as usize));
                outputs[output as usize] = *results.entry((constant, terms)).or_insert_with_key(|(constant, terms)| {
                    let slot = pool.take();
                    writer.push(&mut cells, CellKind::Switch, Sum { constant: *constant, terms }, &[slot]);
                    stands_for.push([0; 3]);
                    slot
                });
            }
            level_ends.push(cells.len());
        }
        Plan {
            gates: Vec::new(),
            cells,
            stands_for,
            gates_asked: network.gates_asked(),
            gates_free: network.gates_free(),
            level_ends,
            constants,
            outputs,
            negated,
            slots: pool.count as usize,
            inputs,
        }
    }
}

/// The sum, or its negation, whichever has a positive first factor.
fn positive(sum: Sum<'_>) -> (i8, Vec<Term>) {
    if sum.terms[0].factor > 0 {
        return (sum.constant, sum.terms.to_vec());
    }
    let terms = sum.terms.iter().map(|term| Term { factor: -term.factor, ..*term });
    // -4 eighths and 4 eighths are the same phase
    (if sum.constant == -4 { -4 } else { -sum.constant }, terms.collect())
}

/// Writes sums of the network as cells.
struct Writer<'a> {
    inputs: &'a [u32],
    /// Slots of each sample that is written and still needed.
    wires: Vec<Vec<u32>>,
}

impl Writer<'_> {
    fn push(&self, cells: &mut SlotCells, kind: CellKind, sum: Sum<'_>, results: &[u32]) {
        let wires = sum.terms.iter().filter_map(|term| match term.source {
            Source::Sample(sample) => Some((term.factor.into(), &self.wires[sample as usize][..])),
            Source::Input(_) => None,
        });
        let inputs = sum.terms.iter().filter_map(|term| match term.source {
            Source::Input(input) => Some((term.factor.into(), self.inputs[input as usize])),
            Source::Sample(_) => None,
        });
        cells.push(kind, sum.constant.into(), wires, inputs, results);
    }
}

/// The work of each level.
struct Levels {
    bootstraps: Vec<Vec<u32>>,
    /// For each level, the outputs that are key-switched in it.
    outputs: Vec<Vec<u32>>,
    /// For each level, the sources that no later level reads.
    freed: Vec<Vec<Source>>,
}

impl Levels {
    fn of(network: &Network) -> Levels {
        let mut bootstraps = network.levels();
        let mut level_of = vec![0; network.bootstraps()];
        for (level, of_level) in bootstraps.iter().enumerate() {
            of_level.iter().for_each(|&bootstrap| level_of[bootstrap as usize] = level);
        }
        let mut outputs: Vec<Vec<u32>> = vec![Vec::new(); bootstraps.len() + 1];
        // the level of the last reader of each input and of each sample; `None` without a reader
        let mut last_read: [Vec<Option<usize>>; 2] = [Vec::new(), vec![None; 2 * network.bootstraps()]];
        let mut read_at = |source: Source, level: usize| {
            let (of_kind, at) = match source {
                Source::Input(input) => (&mut last_read[0], input as usize),
                Source::Sample(sample) => (&mut last_read[1], sample as usize),
            };
            if of_kind.len() <= at {
                of_kind.resize(at + 1, None);
            }
            of_kind[at] = of_kind[at].max(Some(level));
        };
        for (bootstrap, &level) in level_of.iter().enumerate() {
            network.sum(bootstrap).terms.iter().for_each(|term| read_at(term.source, level));
            // the level that writes a sample counts as a reader, so that a sample that no level reads is free from the
            // next level on
            let written = [Source::Sample(2 * bootstrap as u32), Source::Sample(2 * bootstrap as u32 + 1)];
            let written = &written[..1 + usize::from(network.has_second(bootstrap))];
            written.iter().for_each(|&source| read_at(source, level));
        }
        for at in 0..network.outputs() {
            let sum = network.output(at);
            let of_samples = sum.terms.iter().filter_map(|term| match term.source {
                Source::Sample(sample) => Some(level_of[sample as usize / 2] + 1),
                Source::Input(_) => None,
            });
            if let Some(level) = of_samples.max() {
                outputs[level].push(at as u32);
                sum.terms.iter().for_each(|term| read_at(term.source, level));
            }
        }
        if outputs.last().is_some_and(|last| !last.is_empty()) {
            bootstraps.push(Vec::new());
        }
        outputs.truncate(bootstraps.len());
        let mut freed = vec![Vec::new(); bootstraps.len() + 1];
        for (of_kind, source) in last_read.iter().zip([Source::Input, Source::Sample]) {
            for (at, level) in of_kind.iter().enumerate() {
                if let Some(level) = level {
                    freed[level + 1].push(source(at as u32));
                }
            }
        }
        Levels { bootstraps, outputs, freed }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::texts;
    use super::super::{Circuit, Signal};
    use super::*;
    use crate::tfhe::fold::Bit;
    use crate::tfhe::mapping::map;
    use crate::tfhe::noise::InputNoise;
    use crate::tfhe::{Amplitude, Preset};

    /// Runs a plan on phases in eighths of a turn, level by level. Within a level, the rows run in reverse order.
    fn run(plan: &Plan, inputs: &[bool]) -> Vec<bool> {
        let sign = |bit: bool| if bit { 1 } else { -1 };
        let mut slots: Vec<Option<i32>> = vec![None; plan.slots()];
        for (&slot, &bit) in plan.inputs().iter().zip(inputs) {
            slots[slot as usize] = Some(sign(bit));
        }
        for &(slot, bit) in plan.constants() {
            slots[slot as usize] = Some(sign(bit));
        }
        for level in plan.levels() {
            let (cells, of_level) = plan.cells_of(level);
            for cell in of_level.rev().map(|at| cells.cell(at)) {
                let value = |slot: u32| slots[slot as usize].expect("it was written");
                let of_wires: i32 = cell.wires().map(|(factor, parts)| factor * value(parts[0])).sum();
                let of_inputs: i32 = cell.inputs().map(|(factor, slot)| factor * value(slot)).sum();
                let phase = (cell.constant() + of_wires + of_inputs).rem_euclid(8);
                for (wire, parts) in cell.results().enumerate() {
                    let turned = (phase + 2 * wire as i32).rem_euclid(8);
                    let found = match cell.kind() {
                        CellKind::Switch => [1, 7].contains(&phase).then_some(if phase == 1 { 1 } else { -1 }),
                        CellKind::Bootstrap(amplitude) => {
                            let of_sign = if turned < 4 { 1 } else { -1 };
                            (turned % 4 != 0).then_some(of_sign * if amplitude == Amplitude::Eighth { 1 } else { 2 })
                        }
                    };
                    let found = found.expect("a phase with a sign");
                    parts.iter().for_each(|&slot| slots[slot as usize] = Some(found));
                }
            }
        }
        let bits = plan.outputs().iter().map(|&slot| slots[slot as usize].expect("it was written") == 1);
        bits.zip(&plan.negated).map(|(bit, &negated)| bit != negated).collect()
    }

    fn planned(text: &str, noise: InputNoise) -> (Circuit, Plan) {
        let (circuit, params) = (Circuit::parse(text).unwrap(), Preset::Fast128.params());
        let inputs = circuit.input_widths().iter().sum::<usize>();
        let names: Vec<Bit> = (0..inputs as u32).map(Bit::value).collect();
        let plan = Plan::mapped(&map(&circuit, &names, &params, noise), inputs, &params);
        (circuit, plan)
    }

    #[test]
    fn outputs_may_be_inputs_their_negations_constants_and_the_same_result_twice() {
        let text = "5 8\n1 2\n1 6\n1 1 0 2 EQW\n1 1 1 3 INV\n1 1 1 4 EQ\n2 1 0 1 5 AND\n1 1 5 6 EQW\n1 1 3 7 EQW\n";
        let text = text.replacen("5 8", "6 8", 1);
        let (circuit, plan) = planned(&text, InputNoise::Fresh);
        assert_eq!(circuit.outputs()[0], Signal::Input(0));
        assert_eq!(
            (plan.bootstraps(), plan.outputs()[3], plan.outputs()[1]),
            (1, plan.outputs()[4], plan.outputs()[5])
        );
        for word in 0..4 {
            let inputs = vec![word & 1 == 1, word & 2 == 2];
            assert_eq!(run(&plan, &inputs), circuit.evaluate(&[inputs]).concat());
        }
    }

    #[test]
    fn a_circuit_without_bootstraps_has_one_level_at_most() {
        let (_, plan) = planned("1 3\n1 2\n1 1\n1 1 0 2 INV\n", InputNoise::Any);
        assert_eq!((plan.levels().len(), run(&plan, &[true, false])), (0, vec![false]));
        let (_, plan) = planned("1 3\n1 2\n1 1\n1 1 1 2 EQW\n", InputNoise::Any);
        assert_eq!((plan.levels().len(), run(&plan, &[true, false])), (0, vec![false]));
    }

    proptest! {
        #[test]
        fn a_mapped_plan_computes_what_its_circuit_does(text in texts(), bits in any::<u8>(), fresh in any::<bool>()) {
            let noise = if fresh { InputNoise::Fresh } else { InputNoise::Any };
            let (circuit, plan) = planned(&text, noise);
            let inputs: Vec<bool> = (0..circuit.input_widths()[0]).map(|bit| bits >> bit & 1 == 1).collect();
            prop_assert_eq!(run(&plan, &inputs), circuit.evaluate(std::slice::from_ref(&inputs)).concat());
            let counted: u32 = (0..plan.rows()).flat_map(|row| plan.stands_for(row)).map(|(_, gates)| gates).sum();
            prop_assert_eq!(u64::from(counted) + plan.gates_free(), plan.gates_asked());
        }

        #[test]
        fn no_cell_writes_what_another_of_its_level_touches(text in texts()) {
            let (_, plan) = planned(&text, InputNoise::Fresh);
            for level in plan.levels() {
                let (cells, of_level) = plan.cells_of(level);
                let of_level: Vec<_> = of_level.map(|at| cells.cell(at)).collect();
                for (at, cell) in of_level.iter().enumerate() {
                    let written: Vec<u32> = cell.results().flatten().copied().collect();
                    for (other_at, other) in of_level.iter().enumerate() {
                        let read = other.wires().flat_map(|(_, slots)| slots).copied();
                        let mut read = read.chain(other.inputs().map(|(_, slot)| slot));
                        prop_assert!(!read.any(|slot| written.contains(&slot)));
                        let mut others = other.results().flatten();
                        prop_assert!(at == other_at || !others.any(|slot| written.contains(slot)));
                    }
                }
            }
        }
    }
}
