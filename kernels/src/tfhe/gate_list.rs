//! Gates with their operands, in the form that devices take.

use std::ops::Range;
use std::sync::Arc;

use super::fold::{Bit, Folded, fold, names_of_few};
use super::gates::Gate;
use super::lwe::Lwe;
use super::lwe_list::LweList;

/// A gate to evaluate, with its operands in the order a, b, sel. There are [`Gate::arity`] operands, all of the same
/// dimension.
#[derive(Clone, Debug)]
pub struct GateRow {
    /// The gate.
    pub gate: Gate,
    /// The operands, each `[n + 1]` words.
    pub operands: Vec<Lwe>,
}

/// A shared block of ciphertexts that are operands. They are not copied until a device takes them.
pub type OperandBlock = Arc<dyn AsRef<LweList> + Send + Sync>;

/// The place of an operand: a row in one of the list's blocks. Equal places are the same ciphertext.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Index of the block.
    pub block: u32,
    /// Index of the ciphertext in the block.
    pub row: u32,
}

/// Independent gates, and the places of their operands.
#[derive(Clone)]
pub struct GateList {
    gates: Vec<Gate>,
    /// For each gate, the index of its first operand. One more entry at the end is the number of all operands.
    starts: Vec<usize>,
    blocks: Vec<OperandBlock>,
    /// The place of each operand.
    places: Vec<Place>,
}

impl GateList {
    /// A list of gates. `operands` has the operands of the first gate, then those of the second, and so on; each in the
    /// order a, b, sel.
    ///
    /// # Panics
    /// When the number of operands does not fit the gates.
    pub fn new(gates: Vec<Gate>, operands: LweList) -> Self {
        let places = (0..operands.len() as u32).map(|row| Place { block: 0, row }).collect();
        Self::of_places(gates, vec![Arc::new(operands)], places)
    }

    /// A list of gates whose operands are in blocks. `places` has the places for the first gate, then those for the
    /// second, and so on; each in the order a, b, sel.
    ///
    /// # Panics
    /// When the number of places does not fit the gates, a place is outside its block, blocks differ in dimension, or
    /// no block is given.
    pub fn of_places(gates: Vec<Gate>, blocks: Vec<OperandBlock>, places: Vec<Place>) -> Self {
        let mut starts = Vec::with_capacity(gates.len() + 1);
        let mut end = 0;
        starts.push(end);
        for gate in &gates {
            end += gate.arity();
            starts.push(end);
        }
        assert_eq!(places.len(), end, "operands of {} gates", gates.len());
        let (dimension, rows) = ((*blocks[0]).as_ref().dimension(), blocks.iter().map(|block| (**block).as_ref()));
        assert!(rows.clone().all(|list| list.dimension() == dimension), "operands of one dimension");
        let rows: Vec<usize> = rows.map(LweList::len).collect();
        let is_there = |place: &Place| (place.row as usize) < rows[place.block as usize];
        assert!(places.iter().all(is_there), "a ciphertext at each place");
        Self { gates, starts, blocks, places }
    }

    /// A list of the gates of these rows. The operands are copied into one block.
    ///
    /// # Panics
    /// When a row has the wrong number of operands, operands differ in dimension, or no row is given.
    pub fn of_rows(rows: &[GateRow]) -> Self {
        let operands: Vec<&Lwe> = rows.iter().flat_map(|row| &row.operands).collect();
        let mut list = LweList::with_capacity(operands[0].dimension(), operands.len());
        operands.iter().for_each(|operand| list.push(operand.words()));
        for row in rows {
            assert_eq!(row.operands.len(), row.gate.arity(), "{}", row.gate.name());
        }
        Self::new(rows.iter().map(|row| row.gate).collect(), list)
    }

    /// Folds each gate according to its operands' words. The new list has the same number of gates, with the same
    /// results in the same order, and no bootstrap adds words to themselves (docs/wire-format.md 8, "Folding"). A gate
    /// that needs no bootstrap becomes a NOT, whose operand is the negated result. Operands keep their places; new
    /// operands are only constants and negations. A folded list stays as it is when it is folded again.
    pub fn folded(mut self) -> GateList {
        let folds: Vec<Folded> = (0..self.gates.len()).map(|at| self.fold(at)).collect();
        let mut made = LweList::with_capacity(self.dimension(), 0);
        let (mut starts, mut places) = (Vec::with_capacity(self.starts.len()), Vec::with_capacity(self.places.len()));
        starts.push(0);
        for (at, folded) in folds.into_iter().enumerate() {
            let mut push = |bit| places.push(self.place(self.starts[at], bit, &mut made));
            let gate = match folded {
                Folded::Bit(bit) => {
                    push(!bit);
                    Gate::Not
                }
                Folded::Binary(gate, bits) => {
                    bits.into_iter().for_each(&mut push);
                    gate
                }
                Folded::Mux(bits) => {
                    bits.into_iter().for_each(&mut push);
                    Gate::Mux
                }
            };
            self.gates[at] = gate;
            starts.push(places.len());
        }
        if !made.is_empty() {
            self.blocks.push(Arc::new(made));
        }
        GateList { starts, places, ..self }
    }

    /// Folds one gate of the list. The name of a value is the value's place among the gate's operands. A NOT keeps its
    /// operand: a constant is not made anew, because a list that was folded before would grow.
    fn fold(&self, at: usize) -> Folded {
        if self.gates[at] == Gate::Not {
            return Folded::Bit(Bit::Value { id: 0, negated: true });
        }
        let operands = self.operands_of(at..at + 1);
        let names = names_of_few(operands.clone().map(|operand| self.at(self.places[operand])));
        fold(self.gates[at], &names[..operands.len()])
    }

    /// Returns the place of the operand `bit` of a folded gate; `first` is the index of the gate's first place. A new
    /// operand is appended to `made`, which becomes the list's last block.
    fn place(&self, first: usize, bit: Bit, made: &mut LweList) -> Place {
        let here = Place { block: self.blocks.len() as u32, row: made.len() as u32 };
        match bit {
            Bit::Constant(bit) => made.push(Lwe::trivial(self.dimension(), bit).words()),
            Bit::Value { id, negated: false } => return self.places[first + id as usize],
            Bit::Value { id, negated: true } => {
                let words = self.at(self.places[first + id as usize]);
                made.push(&words.iter().map(|word| word.wrapping_neg()).collect::<Vec<_>>());
            }
        }
        here
    }

    /// The gates.
    pub fn gates(&self) -> &[Gate] {
        &self.gates
    }

    /// The dimension `n` of the operands.
    pub fn dimension(&self) -> usize {
        (*self.blocks[0]).as_ref().dimension()
    }

    /// The ciphertext at a place, `[n + 1]` words.
    ///
    /// # Panics
    /// When the place does not exist.
    pub fn at(&self, Place { block, row }: Place) -> &[u32] {
        self.block(block).row(row as usize)
    }

    /// The ciphertexts of a block.
    ///
    /// # Panics
    /// When the block does not exist.
    pub fn block(&self, block: u32) -> &LweList {
        (*self.blocks[block as usize]).as_ref()
    }

    /// The places of these gates' operands, in order.
    ///
    /// # Panics
    /// When the range is outside the list.
    pub fn places_of(&self, gates: Range<usize>) -> &[Place] {
        &self.places[self.operands_of(gates)]
    }

    /// The distinct places of these gates' operands, ascending.
    ///
    /// # Panics
    /// When the range is outside the list.
    pub fn needed_by(&self, gates: Range<usize>) -> Vec<Place> {
        let mut places = self.places_of(gates).to_vec();
        places.sort_unstable();
        places.dedup();
        places
    }

    fn operands_of(&self, gates: Range<usize>) -> Range<usize> {
        self.starts[gates.start]..self.starts[gates.end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of ciphertexts of dimension 1 with these masks.
    fn block(masks: &[u32]) -> OperandBlock {
        Arc::new(LweList::from_words(1, masks.iter().flat_map(|&mask| [mask, 1]).collect()))
    }

    fn place(block: u32, row: u32) -> Place {
        Place { block, row }
    }

    #[test]
    fn operands_stay_where_they_are_and_only_what_folding_makes_is_new() {
        let blocks = vec![block(&[10, 20]), block(&[30, 10])];
        // the last gate has two equal ciphertexts of different blocks as operands
        let places = [(0, 0), (1, 0), (0, 1), (0, 0), (0, 0), (1, 1)].map(|(block, row)| place(block, row));
        let gates = vec![Gate::Nand, Gate::Xor, Gate::And];
        let folded = GateList::of_places(gates, blocks.clone(), places.to_vec()).folded();
        assert_eq!(folded.gates(), [Gate::Nand, Gate::Xor, Gate::Not]);
        assert_eq!((folded.places_of(0..2), folded.places_of(2..3)), (&places[..4], &[place(2, 0)][..]));
        assert_eq!(folded.at(place(2, 0)), [10u32.wrapping_neg(), 1u32.wrapping_neg()]);
        assert!(std::ptr::eq(folded.block(1), (*blocks[1]).as_ref()), "nothing is copied");
        assert_eq!(folded.needed_by(0..2), [place(0, 0), place(0, 1), place(1, 0)]);
    }

    #[test]
    fn a_folded_list_stays_as_it_is() {
        // words of 1, of 0, of two values, and of the first value negated
        let [one, zero] = [true, false].map(|bit| Lwe::trivial(1, bit).words().to_vec());
        let words = [one, zero, vec![10, 1], vec![20, 1], [10u32, 1].map(u32::wrapping_neg).to_vec()].concat();
        let operands: OperandBlock = Arc::new(LweList::from_words(1, words));
        for gate in Gate::ALL {
            let arity = gate.arity() as u32;
            for choice in 0..5u32.pow(arity) {
                let places: Vec<Place> = (0..arity).map(|at| place(0, choice / 5u32.pow(at) % 5)).collect();
                let once = GateList::of_places(vec![gate], vec![operands.clone()], places.clone()).folded();
                let twice = once.clone().folded();
                assert_eq!((twice.gates(), &twice.places), (once.gates(), &once.places), "{} {places:?}", gate.name());
                assert_eq!(twice.blocks.len(), once.blocks.len(), "{} {places:?}", gate.name());
            }
        }
    }

    #[test]
    #[should_panic(expected = "a ciphertext at each place")]
    fn a_place_without_a_ciphertext_is_a_bug() {
        GateList::of_places(vec![Gate::Not], vec![block(&[1])], vec![place(0, 1)]);
    }
}
