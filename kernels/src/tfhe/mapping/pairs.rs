//! Pairs: AND and XOR of the same two bits from one rotation.
//!
//! Let `P` be the sum of two bits at an eighth, each with its sign. A bootstrap over `P` plus an odd number of eighths
//! gives OR, AND or a similar gate, and its second sample gives another such gate. Both samples together show whether
//! `P` is 0, and this is the XOR: the sum of both samples, each with a sign, minus one amplitude. So the XOR needs no
//! bootstrap if each of its readers may read two samples instead of one.
//!
//! An output may not: the sum contains the error of the AND, so a later gate that reads both the XOR and the AND would
//! add one error twice. The AND may be an output of this circuit, or the result of a gate on the same operands.

use super::budget::Budget;
use crate::tfhe::cells::Amplitude;
use crate::tfhe::circuit::Table;
use crate::tfhe::network::{Margin, Network, Source, Sum, Term};

/// Moves XORs to the rotations of ANDs where the budget allows it. Returns the new network, and for each old bootstrap
/// the index of the new bootstrap. `None` if no XOR can move.
pub(super) fn paired(network: &Network, budget: &Budget) -> Option<(Network, Vec<u32>)> {
    let xors = || (0..network.bootstraps()).filter_map(|at| xor_sources(network, at).map(|sources| (at, sources)));
    xors().next()?;
    let ands = Ands::of(network);
    let mut candidates = xors()
        .filter_map(|(at, [a, b])| {
            let find = |sign| ands.find(&(a, b, sign, network.amplitude(at))).map(|and| (at, and, sign));
            find(1).or_else(|| find(-1))
        })
        .peekable();
    candidates.peek()?;
    let readers = Readers::of(network);
    let mut pairs = Pairs { network, replaced: vec![None; network.bootstraps()] };
    for (xor, and, sign) in candidates {
        pairs.replaced[xor] = Some(Pair::of(network, xor, and, sign));
        if !readers.of_bootstrap(xor).iter().all(|&reader| pairs.allows(reader as usize, budget)) {
            pairs.replaced[xor] = None;
        }
    }
    pairs.replaced.iter().any(Option::is_some).then(|| pairs.written())
}

/// A bootstrap like AND: its two bits, the second bit's sign relative to the first's, and the amplitude.
type And = (Source, Source, i8, Amplitude);

/// The bootstraps over a sum of two bits at an eighth.
struct Ands<'a> {
    network: &'a Network,
    table: Table,
}

impl Ands<'_> {
    fn of(network: &Network) -> Ands<'_> {
        let mut ands = Ands { network, table: Table::new(network.bootstraps(), network.bootstraps()) };
        for at in 0..network.bootstraps() as u32 {
            if let Some(and) = ands.at(at) {
                ands.table.insert(&Ands::words(&and), at);
            }
        }
        ands
    }

    fn at(&self, at: u32) -> Option<And> {
        let [a, b] = self.network.sum(at as usize).terms else { return None };
        let is_and = self.network.margin(at as usize) == Margin::Eighth
            && [a, b].iter().all(|term| term.factor.abs() == 1 && is_eighth(self.network, term.source));
        is_and.then(|| (a.source, b.source, a.factor * b.factor, self.network.amplitude(at as usize)))
    }

    fn find(&self, and: &And) -> Option<u32> {
        self.table.find(&Ands::words(and), |at| self.at(at).as_ref() == Some(and))
    }

    fn words(&(a, b, sign, amplitude): &And) -> [u32; 3] {
        let word = |source| match source {
            Source::Input(input) => 2 * input,
            Source::Sample(sample) => 2 * sample + 1,
        };
        [word(a), word(b), (sign as u8 as u32) << 8 | amplitude.eighths() as u32]
    }
}

/// If this bootstrap computes the XOR of two sources at an eighth, returns these two sources.
fn xor_sources(network: &Network, at: usize) -> Option<[Source; 2]> {
    match network.sum(at).terms {
        [a, b] if [a, b].iter().all(|term| term.factor.abs() == 2 && is_eighth(network, term.source)) => {
            Some([a.source, b.source])
        }
        _ => None,
    }
}

fn is_eighth(network: &Network, source: Source) -> bool {
    network.amplitude_of(source) == Amplitude::Eighth
}

/// An XOR written as a sum of the two samples of an AND's rotation.
#[derive(Clone, Copy)]
struct Pair {
    and: u32,
    /// Factors of the first sample, the second sample and the amplitude.
    factors: [i8; 3],
}

impl Pair {
    /// Expresses the XOR of bootstrap `xor` by the samples of the bootstrap `and`, which has the same bits. `sign` is
    /// the second bit's sign relative to the first's.
    fn of(network: &Network, xor: usize, and: u32, sign: i8) -> Pair {
        let sum = network.sum(and as usize);
        // The AND's phase is `first` times P (see the module) plus its constant. `one` and `two` are the signs of its
        // first and its second sample where P is 2, 0 and -2 eighths.
        let first = sum.terms[0].factor;
        let signs =
            |turn: i8| [2, 0, -2].map(|p: i8| if (first * p + sum.constant + turn).rem_euclid(8) < 4 { 1 } else { -1 });
        let (one, two) = (signs(0), signs(2));
        // with these factors, both terms are positive where P is 0, and they cancel where P is 2 or -2
        let [x, y] = [one[1], two[1]];
        debug_assert_eq!([x * one[0] + y * two[0], x * one[2] + y * two[2]], [0, 0]);
        // if both bits are true, P is 0 only if their signs differ
        let both_true: i8 = network.sum(xor).terms.iter().map(|term| term.factor).sum();
        let is_true = (both_true + network.sum(xor).constant).rem_euclid(8) < 4;
        let negate = if is_true == (sign < 0) { 1 } else { -1 };
        Pair { and, factors: [negate * x, negate * y, -negate] }
    }
}

struct Pairs<'a> {
    network: &'a Network,
    /// For each bootstrap that is a replaced XOR, the pair that replaces it; `None` for all other bootstraps.
    replaced: Vec<Option<Pair>>,
}

impl Pairs<'_> {
    /// Writes the terms of a sum to `terms`, with pairs in place of the replaced XORs. Returns the constant of the new sum.
    fn rewrite(&self, sum: Sum<'_>, terms: &mut Vec<Term>) -> i8 {
        let mut constant = i32::from(sum.constant);
        terms.clear();
        for &term in sum.terms {
            let pair = match term.source {
                Source::Sample(sample) => self.replaced[sample as usize / 2].map(|pair| (sample as usize / 2, pair)),
                Source::Input(_) => None,
            };
            match pair {
                None => terms.push(term),
                Some((xor, Pair { and, factors })) => {
                    constant += i32::from(term.factor * factors[2] * self.network.amplitude(xor).eighths());
                    let samples = [(2 * and, factors[0]), (2 * and + 1, factors[1])];
                    terms.extend(
                        samples.map(|(sample, factor)| Term {
                            source: Source::Sample(sample),
                            factor: term.factor * factor,
                        }),
                    );
                }
            }
        }
        Term::combine(terms);
        terms.retain(|term| term.factor != 0);
        ((constant + 4).rem_euclid(8) - 4) as i8
    }

    /// Whether a bootstrap may read its rewritten sum. An output, numbered after the bootstraps, may not (see the module).
    fn allows(&self, reader: usize, budget: &Budget) -> bool {
        if reader >= self.network.bootstraps() {
            return false;
        }
        let mut terms = Vec::new();
        // a replaced XOR is always allowed, because it has no bootstrap and so reads nothing
        self.rewrite(self.network.sum(reader), &mut terms);
        self.replaced[reader].is_some() || (!terms.is_empty() && budget.allows_sum(&terms, self.network.margin(reader)))
    }

    fn written(&self) -> (Network, Vec<u32>) {
        // if the XOR comes before its AND, the AND moves to the XOR's place in the order. It can, because both read the
        // same bits
        let mut places: Vec<u32> = (0..self.network.bootstraps() as u32).collect();
        let mut seconds = vec![false; places.len()];
        for (xor, pair) in self.replaced.iter().enumerate() {
            if let Some(pair) = pair {
                let and = pair.and as usize;
                (places[and], seconds[and]) = (places[and].min(xor as u32), true);
            }
        }
        let mut order: Vec<u32> = (0..places.len() as u32).filter(|&at| self.replaced[at as usize].is_none()).collect();
        order.sort_by_key(|&at| places[at as usize]);
        let mut network = Network::new(self.network.gates_asked());
        let mut moved = vec![0; places.len()];
        let mut terms = Vec::new();
        let rewrite = |sum: Sum<'_>, terms: &mut Vec<Term>, moved: &[u32]| {
            let constant = self.rewrite(sum, terms);
            for term in terms.iter_mut() {
                if let Source::Sample(sample) = &mut term.source {
                    *sample = 2 * moved[*sample as usize / 2] + *sample % 2;
                }
            }
            terms.sort_unstable();
            constant
        };
        for &at in &order {
            let constant = rewrite(self.network.sum(at as usize), &mut terms, &moved);
            let new = network.push(Sum { constant, terms: &terms }, self.network.amplitude(at as usize));
            moved[at as usize] = new;
            if seconds[at as usize] || self.network.has_second(at as usize) {
                network.want_second(new);
            }
        }
        for at in 0..self.network.outputs() {
            let constant = rewrite(self.network.output(at), &mut terms, &moved);
            network.push_output(Sum { constant, terms: &terms });
        }
        for (xor, pair) in self.replaced.iter().enumerate() {
            if let Some(pair) = pair {
                moved[xor] = moved[pair.and as usize];
            }
        }
        (network, moved)
    }
}

/// The readers of each bootstrap: bootstraps, then outputs.
struct Readers {
    readers: Vec<u32>,
    /// For each bootstrap, the index at which its readers end.
    ends: Vec<u32>,
}

impl Readers {
    fn of(network: &Network) -> Readers {
        let outputs = (0..network.outputs()).map(|at| network.output(at));
        let sums = (0..network.bootstraps()).map(|at| network.sum(at)).chain(outputs);
        let reads = sums.enumerate().flat_map(|(reader, sum)| {
            sum.terms.iter().filter_map(move |term| match term.source {
                Source::Sample(sample) => Some((reader as u32, sample as usize / 2)),
                Source::Input(_) => None,
            })
        });
        let mut ends = vec![0u32; network.bootstraps() + 1];
        reads.clone().for_each(|(_, at)| ends[at + 1] += 1);
        for at in 1..ends.len() {
            ends[at] += ends[at - 1];
        }
        let mut readers = vec![0; *ends.last().unwrap_or(&0) as usize];
        // while a range of readers fills, its entry in `ends` moves from the start of the range to the end
        for (reader, at) in reads {
            readers[ends[at] as usize] = reader;
            ends[at] += 1;
        }
        ends.pop();
        Readers { readers, ends }
    }

    fn of_bootstrap(&self, at: usize) -> &[u32] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.readers[start..self.ends[at] as usize]
    }
}
