//! Folding: a gate with equal, opposite or constant operands becomes another gate, an operand or a constant.
//!
//! Two different ciphertexts have independent noise, and the failure probabilities of [`super::noise`] rest on that. A
//! ciphertext added to itself has four times its variance instead of twice, so NAND(a, a) would fail billions of times
//! as often as NAND(a, b). Therefore folding replaces such gates before a bootstrap (docs/wire-format.md 8, "Folding").
//! The replacement costs less and has at most the same noise.
//!
//! [`fold`] works on [`Bit`]s, which contain names of values. For ciphertexts, [`Names`] derives the names from their
//! words. In a netlist, the name of a result says how it is computed ([`super::circuit`]).

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Not;

use super::gates::Gate;
use super::lwe::Lwe;
use super::lwe_list::LweList;

/// An operand, reduced to the information that folding needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bit {
    /// A constant: a trivial ciphertext.
    Constant(bool),
    /// A ciphertext.
    Value {
        /// The ciphertext's name. Equal and opposite ciphertexts share one name.
        id: u32,
        /// Whether this operand is the negation of the named value.
        negated: bool,
    },
}

impl Bit {
    /// The bit of the ciphertext with this name, without negation.
    pub fn value(id: u32) -> Bit {
        Bit::Value { id, negated: false }
    }
}

impl Not for Bit {
    type Output = Bit;

    fn not(self) -> Bit {
        match self {
            Bit::Constant(bit) => Bit::Constant(!bit),
            Bit::Value { id, negated } => Bit::Value { id, negated: !negated },
        }
    }
}

/// The result of folding a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folded {
    /// An existing bit, or its negation.
    Bit(Bit),
    /// A gate with two operands that are neither constant, nor equal, nor opposite.
    Binary(Gate, [Bit; 2]),
    /// A MUX with three operands a, b, sel that are neither constant, nor equal, nor opposite.
    Mux([Bit; 3]),
}

/// Folds a gate. The operands are in the order a, b, sel.
///
/// # Panics
/// When the number of operands is not [`Gate::arity`].
pub fn fold(gate: Gate, operands: &[Bit]) -> Folded {
    match (gate, operands) {
        (Gate::Not, &[a]) => Folded::Bit(!a),
        (Gate::Mux, &[a, b, sel]) => mux(a, b, sel),
        (Gate::Not | Gate::Mux, _) => panic!("{} operands of {}", operands.len(), gate.name()),
        (_, &[a, b]) => binary(gate, a, b),
        _ => panic!("{} operands of {}", operands.len(), gate.name()),
    }
}

fn binary(gate: Gate, a: Bit, b: Bit) -> Folded {
    let bit = match gate {
        Gate::And => and(a, b),
        Gate::Nand => and(a, b).map(Bit::not),
        Gate::Nor => and(!a, !b),
        Gate::Or => and(!a, !b).map(Bit::not),
        Gate::Xor => xor(a, b),
        Gate::Xnor => xor(a, b).map(Bit::not),
        Gate::Not | Gate::Mux => unreachable!("not of two operands"),
    };
    bit.map_or(Folded::Binary(gate, [a, b]), Folded::Bit)
}

/// `a and b`, if the result is a constant or an operand.
fn and(a: Bit, b: Bit) -> Option<Bit> {
    match (a, b) {
        (Bit::Constant(true), bit) | (bit, Bit::Constant(true)) => Some(bit),
        (Bit::Constant(false), _) | (_, Bit::Constant(false)) => Some(Bit::Constant(false)),
        _ if a == b => Some(a),
        _ if a == !b => Some(Bit::Constant(false)),
        _ => None,
    }
}

/// `a xor b`, if the result is a constant, an operand or the negation of an operand.
fn xor(a: Bit, b: Bit) -> Option<Bit> {
    match (a, b) {
        (Bit::Constant(constant), bit) | (bit, Bit::Constant(constant)) => Some(if constant { !bit } else { bit }),
        _ if a == b => Some(Bit::Constant(false)),
        _ if a == !b => Some(Bit::Constant(true)),
        _ => None,
    }
}

/// `sel ? a : b`.
fn mux(a: Bit, b: Bit, sel: Bit) -> Folded {
    match sel {
        Bit::Constant(true) => Folded::Bit(a),
        Bit::Constant(false) => Folded::Bit(b),
        _ if a == b => Folded::Bit(a),
        _ if a == !b => binary(Gate::Xnor, a, sel),
        _ if a == sel || a == Bit::Constant(true) => binary(Gate::Or, b, sel),
        _ if a == !sel || a == Bit::Constant(false) => binary(Gate::And, b, !sel),
        _ if b == sel || b == Bit::Constant(false) => binary(Gate::And, a, sel),
        _ if b == !sel || b == Bit::Constant(true) => binary(Gate::Or, a, !sel),
        _ => Folded::Mux([a, b, sel]),
    }
}

/// Gives names to ciphertexts according to their words: equal and opposite ciphertexts get the same name, and trivial
/// ciphertexts are constants.
///
/// Names are found by a keyed hash, so the time is proportional to the number of words, even for malicious inputs.
#[derive(Default)]
pub struct Names<'a> {
    ids: HashMap<UpToSign<'a>, u32>,
}

impl<'a> Names<'a> {
    /// The name of a ciphertext, `[n + 1]` words. Names are numbers from 0. New words get the next number, and known
    /// words get their earlier name. `negated` is relative to the first ciphertext with that name.
    pub fn name(&mut self, words: &'a [u32]) -> Bit {
        if let Some(bit) = trivial(words) {
            return Bit::Constant(bit);
        }
        let (seen, next) = (UpToSign(words), self.ids.len() as u32);
        match self.ids.get_key_value(&seen) {
            Some((first, &id)) => Bit::Value { id, negated: first.0 != words },
            None => {
                self.ids.insert(seen, next);
                Bit::value(next)
            }
        }
    }

    /// The name of every ciphertext of a list, by the rules of [`Names::name`].
    pub fn of(list: &LweList) -> Vec<Bit> {
        let mut names = Names::default();
        list.iter().map(|words| names.name(words)).collect()
    }
}

/// The names of the operands of one gate, at most three, by the rules of [`Names`]. The name of an operand is the place
/// of the first operand with the same or the negated words. The operands are compared instead of hashed, because a
/// comparison usually ends at their first words.
pub(crate) fn names_of_few<'a>(operands: impl Iterator<Item = &'a [u32]>) -> [Bit; 3] {
    let mut seen: [&[u32]; 3] = [&[]; 3];
    let mut names = [Bit::Constant(false); 3];
    for (place, words) in operands.enumerate() {
        seen[place] = words;
        let like = |earlier: usize| match seen[earlier] {
            other if other == words => Some(Bit::value(earlier as u32)),
            other if opposite(other, words) => Some(!Bit::value(earlier as u32)),
            _ => None,
        };
        names[place] = match trivial(words) {
            Some(bit) => Bit::Constant(bit),
            None => (0..place).find_map(like).unwrap_or(Bit::value(place as u32)),
        };
    }
    names
}

/// The bit of a trivial ciphertext: a mask of zeros and a body of exactly `+-1/8`.
fn trivial(words: &[u32]) -> Option<bool> {
    let (body, mask) = words.split_last()?;
    // the mask is checked before the body, because the mask's first word usually decides and is already in the cache
    if mask.iter().any(|&word| word != 0) {
        return None;
    }
    [true, false].into_iter().find(|&bit| *body == Lwe::trivial_body(bit))
}

/// Whether each word of `x` is the negation of the word of `y` at the same place.
fn opposite(x: &[u32], y: &[u32]) -> bool {
    x.iter().zip(y).all(|(&x, &y)| x == y.wrapping_neg())
}

/// Words for a comparison that ignores the sign: words and their negation are equal.
struct UpToSign<'a>(&'a [u32]);

impl UpToSign<'_> {
    /// Compares each word with its negation. Returns whether the word is larger at the first place where they differ.
    fn is_upper(&self) -> bool {
        self.0.iter().find(|&&word| word != word.wrapping_neg()).is_some_and(|&word| word > word.wrapping_neg())
    }
}

impl PartialEq for UpToSign<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || opposite(self.0, other.0)
    }
}

impl Eq for UpToSign<'_> {}

impl Hash for UpToSign<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let upper = self.is_upper();
        let mut block = [0; 64];
        for words in self.0.chunks(block.len()) {
            for (out, &word) in block.iter_mut().zip(words) {
                *out = if upper { word.wrapping_neg() } else { word };
            }
            block[..words.len()].hash(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All operands for the tests: both constants, three values, and the negations of these values.
    fn bits() -> Vec<Bit> {
        let values = (0..3).map(Bit::value);
        values.chain([Bit::Constant(false)]).flat_map(|bit| [bit, !bit]).collect()
    }

    fn plain(bit: Bit, values: u32) -> bool {
        match bit {
            Bit::Constant(bit) => bit,
            Bit::Value { id, negated } => (values >> id & 1 == 1) != negated,
        }
    }

    /// Every gate with every choice of operands.
    fn every_gate() -> impl Iterator<Item = (Gate, Vec<Bit>)> {
        let choices = |count: u32| {
            let bits = bits();
            (0..bits.len().pow(count)).map(move |choice| {
                (0..count).map(|at| bits[choice / bits.len().pow(at) % bits.len()]).collect::<Vec<_>>()
            })
        };
        Gate::ALL.into_iter().flat_map(move |gate| choices(gate.arity() as u32).map(move |operands| (gate, operands)))
    }

    #[test]
    fn a_folded_gate_has_the_gates_truth_table() {
        for (gate, operands) in every_gate() {
            let folded = fold(gate, &operands);
            for values in 0..8 {
                let at = |bits: &[Bit]| bits.iter().map(|&bit| plain(bit, values)).collect::<Vec<_>>();
                let found = match folded {
                    Folded::Bit(bit) => plain(bit, values),
                    Folded::Binary(gate, operands) => gate.plain(&at(&operands)),
                    Folded::Mux(operands) => Gate::Mux.plain(&at(&operands)),
                };
                assert_eq!(found, gate.plain(&at(&operands)), "{gate:?} of {operands:?}: {folded:?}");
            }
        }
    }

    #[test]
    fn what_is_left_to_bootstrap_has_different_values_as_operands() {
        for (gate, operands) in every_gate() {
            let left = match fold(gate, &operands) {
                Folded::Bit(_) => continue,
                Folded::Binary(_, operands) => operands.to_vec(),
                Folded::Mux(operands) => operands.to_vec(),
            };
            let mut ids: Vec<u32> = left
                .iter()
                .map(|bit| match bit {
                    Bit::Value { id, .. } => *id,
                    Bit::Constant(_) => panic!("{gate:?} of {operands:?} keeps a constant"),
                })
                .collect();
            ids.sort_unstable();
            assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{gate:?} of {operands:?} keeps {left:?}");
        }
    }

    #[test]
    fn a_gate_of_different_operands_stays_as_it_is() {
        let [a, b, sel] = [0, 1, 2].map(Bit::value);
        assert_eq!(fold(Gate::Nand, &[b, !a]), Folded::Binary(Gate::Nand, [b, !a]));
        assert_eq!(fold(Gate::Mux, &[!a, sel, b]), Folded::Mux([!a, sel, b]));
    }

    #[test]
    fn equal_and_opposite_words_have_one_name_and_trivial_ones_are_constants() {
        let words = |row: &[u32]| row.to_vec();
        let half = 1 << 31;
        let list = [
            words(&[0, half, 5, 7]),
            words(&[0, half, 5, 8]),
            words(&[0, half, 5u32.wrapping_neg(), 7u32.wrapping_neg()]),
            words(&[0, 0, 0, 1 << 29]),
            words(&[0, 0, 0, 7 << 29]),
            words(&[0, 0, 0, 1]),
            words(&[0, half, 5, 7]),
            words(&[0, 0, 1, 1 << 29]),
            words(&[0, 0, 0, u32::MAX]),
        ];
        let names = Names::of(&LweList::from_words(3, list.concat()));
        let [a, b, c, d] = [0, 1, 2, 3].map(Bit::value);
        assert_eq!(names, [a, b, !a, Bit::Constant(true), Bit::Constant(false), c, a, d, !c]);
    }
}
