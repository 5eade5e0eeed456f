//! Splits a circuit into independent parts for several workers, and puts their results in order. Pure.

use std::sync::Arc;

use api::OperationId;
use engine::{Circuit, CircuitGroup, GATES_MAX, Gate, LweList, Rows};
use sha2::{Digest as _, Sha256};

use crate::work::key::Operand;
use crate::work::question::CircuitQuestion;

/// Smallest number of gates with a bootstrap of a circuit that is split, where workers compute on processors. A smaller
/// circuit ends before another worker has fetched the key, for which 0.3 s are planned: a core computes 100 to 400
/// bootstraps in a second.
const WHOLE_MIN: usize = 1000;
/// Smallest number of gates with a bootstrap of a part. A core takes longer for them than for the fetch of the key.
const PART_MIN: usize = 256;
/// A card computes so many times as many bootstraps as a few cores in the same time, so its parts are larger.
const OF_CARDS: usize = 64;
/// Shortest time of a level on processors, as a share of the time of the largest batch: a thread takes up to 64 rows of
/// such a batch.
const LEVEL_OF_PROCESSORS: f64 = 1.0 / 64.0;
/// Shortest time of a level on cards. An H200 takes about a millisecond for one row and for a hundred, and its largest
/// batch has a thousand rows.
const LEVEL_OF_CARDS: f64 = 1.0 / 8.0;
/// Splitting must gain this share of the number of workers: 1.5 times with two, 3 times with four.
const GAIN_A_WORKER: f64 = 0.75;
/// A netlist has at least this many bytes for a gate: a line for a MUX, which is three gates, has 16 bytes.
const GATE_BYTES_MIN: usize = 5;

/// A worker for a part, and how it computes.
#[derive(Clone, Debug, PartialEq)]
pub struct PartWorker {
    /// The name of a flow that the worker owns.
    pub flow: String,
    /// Rows of the worker's largest batch.
    pub batch_rows: u32,
    /// Whether the worker computes on cards.
    pub has_cards: bool,
}

/// A part of a circuit, for one worker.
pub struct Part {
    /// The id of the part's work.
    pub id: OperationId,
    /// The part's share of the circuit, in proportion to the other parts.
    pub share: u32,
    /// The part as a question.
    pub question: CircuitQuestion,
    /// The output bits of the whole circuit that the part computes, in the order of the part's results.
    pub outputs: Vec<u32>,
    /// The gates of the part, by kind.
    pub gates: Vec<(Gate, u64)>,
}

/// Whether a netlist of this length may have so many gates that it is split. A quick look, before the netlist is read.
pub fn may_be_split(netlist: &str) -> bool {
    netlist.len() >= GATE_BYTES_MIN * WHOLE_MIN
}

/// Splits a circuit for these workers, the first of which would compute it alone. `None`: one worker computes it.
pub fn split(id: &OperationId, whole: &CircuitQuestion, workers: &[PartWorker]) -> Option<Vec<Part>> {
    let circuit = read(whole)?;
    let (shares, groups) = groups_for(&circuit, workers)?;
    Some(parts(id, whole, &shares, groups))
}

/// Splits a circuit as it was split before.
pub fn split_again(id: &OperationId, whole: &CircuitQuestion, shares: &[u32]) -> Option<Vec<Part>> {
    let groups = read(whole)?.groups(shares);
    (groups.len() == shares.len()).then(|| parts(id, whole, shares, groups))
}

fn read(whole: &CircuitQuestion) -> Option<Circuit> {
    let circuit = Circuit::parse(&whole.netlist).ok()?;
    let inputs: usize = circuit.input_widths().iter().sum();
    // the worker refuses the question with the reason
    let fits = inputs == whole.inputs.len() && whole.operands.iter().map(|(bits, _)| bits).sum::<usize>() == inputs;
    fits.then_some(circuit)
}

/// Returns the groups and their shares: for as many workers as are worth it, two at least.
fn groups_for(circuit: &Circuit, workers: &[PartWorker]) -> Option<(Vec<u32>, Vec<CircuitGroup>)> {
    let alone = workers.first()?;
    let least = if alone.has_cards { OF_CARDS } else { 1 };
    let levels = circuit.bootstraps_by_level();
    let bootstraps: usize = levels.iter().sum();
    if bootstraps < WHOLE_MIN * least {
        return None;
    }
    let whole_time = time(&levels, alone);
    let mut count = workers.len().min(bootstraps / (PART_MIN * least));
    while count >= 2 {
        let shares: Vec<u32> = workers[..count].iter().map(|worker| worker.batch_rows.max(1)).collect();
        let groups = circuit.groups(&shares);
        let of_groups: Vec<Vec<usize>> = groups.iter().map(|group| group.circuit.bootstraps_by_level()).collect();
        let are_large = of_groups.iter().all(|levels| levels.iter().sum::<usize>() >= PART_MIN * least);
        // a part's text has lines for outputs, too
        let are_read = groups.iter().all(|group| group.circuit.gates().len() + group.outputs.len() + 2 <= GATES_MAX);
        let slowest = of_groups.iter().zip(workers).map(|(levels, worker)| time(levels, worker)).fold(0.0, f64::max);
        if groups.len() == count && are_large && are_read && whole_time >= GAIN_A_WORKER * count as f64 * slowest {
            return Some((shares, groups));
        }
        count = if count == 2 { 0 } else { (3 * count / 4).max(2) };
    }
    None
}

/// About the time in which a worker computes these levels, in times of its largest batch. A level takes as long as its
/// rows, and never less than the shortest time of a level.
fn time(levels: &[usize], worker: &PartWorker) -> f64 {
    let least = if worker.has_cards { LEVEL_OF_CARDS } else { LEVEL_OF_PROCESSORS };
    let batch_rows = f64::from(worker.batch_rows.max(1));
    levels.iter().map(|&rows| (rows as f64 / batch_rows).max(least)).sum()
}

fn parts(id: &OperationId, whole: &CircuitQuestion, shares: &[u32], groups: Vec<CircuitGroup>) -> Vec<Part> {
    let part = |(at, (group, &share)): (usize, (CircuitGroup, &u32))| {
        let netlist = group.circuit.to_text();
        let mut inputs = LweList::with_capacity(whole.inputs.dimension(), group.inputs.len());
        group.inputs.iter().for_each(|&bit| inputs.push(whole.inputs.row(bit as usize)));
        Part {
            id: part_id(id, at, &group, &netlist),
            share,
            question: CircuitQuestion {
                netlist: Arc::new(netlist),
                mapping: whole.mapping,
                noise: whole.noise,
                inputs,
                operands: operands(&whole.operands, &group.inputs),
                planned: None,
            },
            gates: group.circuit.gate_counts(),
            outputs: group.outputs,
        }
    };
    groups.into_iter().zip(shares).enumerate().map(part).collect()
}

/// The names of a part's operands. An input of which the part reads all bits keeps its name.
fn operands(whole: &[(usize, Operand)], inputs: &[u32]) -> Vec<(usize, Operand)> {
    let (mut first, mut named) = (0, Vec::new());
    for (bits, operand) in whole {
        let end = first + bits;
        let read =
            inputs.partition_point(|&bit| (bit as usize) < end) - inputs.partition_point(|&bit| (bit as usize) < first);
        match read {
            0 => {}
            _ if read == *bits => named.push((read, operand.clone())),
            _ => named.push((read, Operand::Words)),
        }
        first = end;
    }
    named
}

/// Names a part by its content, so that all API nodes which ask for the same part give it the same id, and no other
/// part.
fn part_id(whole: &OperationId, at: usize, group: &CircuitGroup, netlist: &str) -> OperationId {
    let mut hash = Sha256::new();
    hash.update(whole.as_str());
    for numbers in [&[at as u32][..], &group.inputs, &group.outputs] {
        hash.update((numbers.len() as u64).to_be_bytes());
        numbers.iter().for_each(|number| hash.update(number.to_be_bytes()));
    }
    hash.update(netlist);
    let digest = hash.finalize();
    let (first, _) = digest.split_first_chunk().expect("SHA-256 has 32 bytes");
    OperationId::from_bits(u128::from_be_bytes(*first))
}

/// Puts the results of parts in the order of the whole circuit's outputs. `None`: a result has another shape, or an
/// output is missing.
pub fn in_order(parts: &[(Vec<u32>, Rows)], row_words: usize) -> Option<Rows> {
    let count: usize = parts.iter().map(|(outputs, _)| outputs.len()).sum();
    let mut rows: Vec<Option<&[u32]>> = vec![None; count];
    for (outputs, results) in parts {
        if results.row_words != row_words || results.len() != outputs.len() {
            return None;
        }
        for (&output, row) in outputs.iter().zip(results.iter()) {
            *rows.get_mut(output as usize)? = Some(row);
        }
    }
    let rows: Option<Vec<&[u32]>> = rows.into_iter().collect();
    Some(Rows { row_words, words: rows?.concat() })
}

#[cfg(test)]
mod tests {
    use api::HandleId;

    use super::*;
    use crate::work::bits::{InputNoise, Mapping};

    /// So many chains of so many AND gates side by side, each over two inputs that no other chain reads.
    fn chains(count: usize, gates: usize) -> CircuitQuestion {
        let (inputs, all) = (2 * count, count * gates);
        let mut text = format!("{all} {}\n{count}{}\n1 {count}\n\n", inputs + all, " 2".repeat(count));
        for step in 0..gates {
            for chain in 0..count {
                let wire = |step: usize| inputs + step * count + chain;
                let before = if step == 0 { 2 * chain } else { wire(step - 1) };
                text += &format!("2 1 {before} {} {} AND\n", 2 * chain + 1, wire(step));
            }
        }
        let words = (0..2 * inputs as u32).collect();
        let name = |at| if at == 0 { Operand::Value(HandleId::from_bits(7)) } else { Operand::Words };
        CircuitQuestion {
            netlist: Arc::new(text),
            mapping: Mapping::Cells,
            noise: InputNoise::Any,
            inputs: LweList::from_words(1, words),
            operands: (0..count).map(|at| (2, name(at))).collect(),
            planned: None,
        }
    }

    fn workers(batch_rows: &[u32], has_cards: bool) -> Vec<PartWorker> {
        let worker = |(at, &batch_rows): (usize, &u32)| PartWorker { flow: format!("f{at}"), batch_rows, has_cards };
        batch_rows.iter().enumerate().map(worker).collect()
    }

    fn id() -> OperationId {
        OperationId::from_bits(5)
    }

    #[test]
    fn only_what_gains_is_split_and_into_parts_that_are_worth_their_worker() {
        let cores = workers(&[128; 4], false);
        let count =
            |whole: &CircuitQuestion, workers: &[PartWorker]| split(&id(), whole, workers).map(|parts| parts.len());
        assert_eq!(count(&chains(16, 100), &cores), Some(4));
        assert_eq!(count(&chains(16, 100), &cores[..2]), Some(2));
        assert_eq!(count(&chains(16, 100), &cores[..1]), None);
        assert_eq!(count(&chains(16, 100), &[]), None);
        // too small, for the whole and for four parts
        assert_eq!(count(&chains(16, 62), &cores), None);
        assert_eq!(count(&chains(16, 63), &cores), Some(3));
        // two threads compute a level of two rows at once, and four threads one of three or four rows
        assert_eq!(count(&chains(2, 1000), &cores[..2]), None);
        assert_eq!(count(&chains(5, 300), &cores[..2]), Some(2));
        assert_eq!(count(&chains(5, 300), &workers(&[256; 2], false)), None);
        assert_eq!(count(&chains(1, 4000), &cores), None);
        // a card takes as long for a narrow level as for a single row
        let cards = workers(&[1056; 2], true);
        assert_eq!(count(&chains(100, 700), &cards), None);
        assert_eq!(count(&chains(1000, 70), &cards), Some(2));
        assert_eq!(count(&chains(1000, 60), &cards), None);
    }

    #[test]
    fn a_part_reads_its_own_inputs_and_keeps_the_names_of_those_it_reads_whole() {
        let whole = chains(16, 100);
        let mut parts = split(&id(), &whole, &workers(&[128, 384], false)).unwrap();
        assert_eq!(
            parts.iter().map(|part| (part.share, part.outputs.len())).collect::<Vec<_>>(),
            [(128, 4), (384, 12)]
        );
        for part in &parts {
            let of = |chain: &u32| [4 * chain, 4 * chain + 1, 4 * chain + 2, 4 * chain + 3];
            let words: Vec<u32> = part.outputs.iter().flat_map(of).collect();
            assert_eq!(part.question.inputs, LweList::from_words(1, words));
            assert_eq!(part.gates, [(Gate::And, 100 * part.outputs.len() as u64)]);
            let name = |&chain: &u32| whole.operands[chain as usize].clone();
            assert_eq!(part.question.operands, part.outputs.iter().map(name).collect::<Vec<_>>());
        }
        assert_eq!(
            operands(&whole.operands, &[0, 2, 3, 7]),
            [(1, Operand::Words), (2, Operand::Words), (1, Operand::Words)]
        );
        // the same shares give the same parts on every node, and other parts have other ids
        let again = split_again(&id(), &whole, &[128, 384]).unwrap();
        assert!(again.iter().zip(&parts).all(|(one, other)| one.id == other.id));
        let other = split_again(&id(), &whole, &[256, 256]).unwrap();
        parts.extend(other);
        let mut ids: Vec<OperationId> = parts.iter().map(|part| part.id.clone()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!((ids.len(), ids.contains(&id())), (4, false));
        assert!(split_again(&id(), &whole, &[1; 17]).is_none());
    }

    #[test]
    fn a_netlist_that_is_not_one_or_has_other_inputs_is_not_split() {
        let mut whole = chains(16, 100);
        assert!(may_be_split(&whole.netlist) && !may_be_split(&chains(16, 10).netlist));
        whole.inputs.push(&[0, 0]);
        assert!(split(&id(), &whole, &workers(&[128, 128], false)).is_none());
        whole.netlist = Arc::new("1 1\n".to_owned());
        assert!(split(&id(), &whole, &workers(&[128, 128], false)).is_none());
    }

    #[test]
    fn results_come_in_the_order_of_the_outputs_or_not_at_all() {
        let rows = |words: &[u32]| Rows { row_words: 2, words: words.to_vec() };
        let parts = [(vec![2, 0], rows(&[4, 5, 0, 1])), (vec![1], rows(&[2, 3]))];
        assert_eq!(in_order(&parts, 2), Some(rows(&[0, 1, 2, 3, 4, 5])));
        assert_eq!(in_order(&parts, 3), None);
        assert_eq!(in_order(&[(vec![0, 1], rows(&[0, 1]))], 2), None);
        assert_eq!(in_order(&[(vec![0, 0], rows(&[0, 1, 2, 3]))], 2), None);
        assert_eq!(in_order(&[(vec![0, 5], rows(&[0, 1, 2, 3]))], 2), None);
    }
}
