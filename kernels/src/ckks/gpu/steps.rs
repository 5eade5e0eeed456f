//! Steps of a plan as jobs. The formulas are those of the CPU ([`crate::ckks::cpu`]), on rows of places.

use std::sync::Arc;

use super::constants::{Digit, Division};
use super::part::Part;
use super::sections::{Chunk, NO_ROW, Phase};
use super::tables::Tables;
use crate::ckks::backend::PlannedSteps;
use crate::ckks::params::PartKind;
use crate::ckks::plan::{PlannedStep, Step, Term, Value};
use crate::error::Result;
use crate::gpu::space::{Pages, Place};
use crate::gpu::{Arena, Device, Gpu};
use crate::modular::Modulus;
use crate::ring::Root;

/// A factor and its companion.
fn root(modulus: Modulus, factor: u32) -> [u32; 2] {
    let Root { value, companion } = Root::new(modulus, factor);
    [value, companion]
}

/// No row, in place of a row with its factor.
const NOTHING: [u32; 3] = [NO_ROW, 0, 0];

/// Rows that are added to the rows of the input before a division. They are multiplied by the special primes `P`.
#[derive(Clone, Copy)]
enum Addend<'a> {
    /// No row.
    Nothing,
    /// Both polynomials of a ciphertext.
    Both(&'a [Place]),
    /// The first polynomial of a ciphertext.
    First(&'a [Place]),
}

/// The digits of a polynomial in coefficient form. For each digit, the place of its rows.
struct Decomposed {
    digits: Arc<Vec<Digit>>,
    rows: Vec<Place>,
}

/// The rows and the key that the steps of one plan read and write.
pub struct Steps<'a, G: Gpu> {
    pub device: &'a Device<G>,
    pub tables: &'a Tables<G>,
    pub parts: &'a [(PartKind, &'a Part<G>)],
    pub arena: &'a Arena<G>,
    pub planned: &'a PlannedSteps<'a>,
}

impl<G: Gpu> Steps<'_, G> {
    /// Adds the jobs of a step to a chunk. The pages of plaintexts that the jobs read are added to `weights`.
    pub fn add(
        &self,
        chunk: &mut Chunk,
        PlannedStep { step, result, .. }: &PlannedStep,
        weights: &mut Vec<Arc<Pages<G>>>,
    ) -> Result<()> {
        let plan = self.planned.plan;
        let level = |value: Value| plan.value(value).level;
        let out = &self.rows(*result)[..];
        match *step {
            Step::Add(a, b) => self.sum(chunk, level(a), [a, b], |_| 1, out),
            Step::Sub(a, b) => self.sum(chunk, level(a), [a, b], |modulus| modulus.q() - 1, out),
            Step::AddPlain(a, plain) => {
                let plain = self.places(plan.plain_slots(plain));
                self.linear(chunk, level(a), &self.rows(a), out, |at, modulus| {
                    let [one, companion] = root(modulus, 1);
                    (1, plain.get(at).map_or(NOTHING, |&row| [row, one, companion]), 0)
                });
            }
            Step::MultiplyInteger(a, c) => {
                self.linear(chunk, level(a), &self.rows(a), out, |_, modulus| (residue(modulus, c), NOTHING, 0))
            }
            Step::AddInteger(a, c) => {
                let first = plan.params().level(level(a)).primes.len();
                self.linear(chunk, level(a), &self.rows(a), out, |at, modulus| {
                    (1, NOTHING, if at < first { residue(modulus, c) } else { 0 })
                });
            }
            Step::MultiplyPlain(a, plain) => {
                let (plain, a_rows) = (self.places(plan.plain_slots(plain)), self.rows(a));
                self.weighted(chunk, level(a), out, |at| vec![(plain[at], self.both(&a_rows, at))]);
            }
            Step::WeightedSum(ref terms) => self.weighted_sum(chunk, level(terms[0].value), terms, out, weights)?,
            Step::Divide { a, to, factor } => {
                let division = self.tables.constants.division(plan.params(), level(a), to, 0, factor);
                self.divide(chunk, &division, &self.rows(a), Addend::Nothing, 1, out);
            }
            Step::Raise(a) => self.raise(chunk, &self.rows(a), out),
            Step::Multiply { a, b, to } => self.sum_of_products(chunk, (level(a), to), &[(a, b)], None, out),
            Step::SumOfProducts { ref pairs, plus } => {
                let from = level(pairs[0].0);
                self.sum_of_products(chunk, (from, from - 1), pairs, plus, out);
            }
            Step::Switch { a, kind } => self.automorphism(chunk, level(a), 1, &self.rows(a), self.part(kind), out),
            Step::Automorphism { a, element } => {
                let part = self.part(PartKind::Galois(element));
                self.automorphism(chunk, level(a), element, &self.rows(a), part, out);
            }
            Step::AddImages { a, ref elements } => self.add_images(chunk, level(a), elements, &self.rows(a), out),
        }
        Ok(())
    }

    /// The places of slots of the plan.
    pub fn places(&self, of_plan: &[u32]) -> Vec<Place> {
        of_plan.iter().map(|&slot| self.arena.place(self.planned.slots[slot as usize])).collect()
    }

    fn rows(&self, value: Value) -> Vec<Place> {
        self.places(&self.planned.plan.value(value).slots)
    }

    fn part(&self, kind: PartKind) -> &Part<G> {
        let found = self.parts.iter().find(|(of, _)| *of == kind);
        found.expect("a batch has the parts that its steps need").1
    }

    fn modulus(&self, prime: usize) -> Modulus {
        self.tables.params.primes()[prime]
    }

    fn primes(&self, level: usize) -> &[usize] {
        &self.tables.params.level(level).primes
    }

    /// The rows of both polynomials of a ciphertext for one prime.
    fn both(&self, rows: &[Place], at: usize) -> [Place; 2] {
        [rows[at], rows[rows.len() / 2 + at]]
    }

    /// `out` = a + g b, where g depends on the prime.
    fn sum(&self, chunk: &mut Chunk, level: usize, [a, b]: [Value; 2], g: fn(Modulus) -> u32, out: &[Place]) {
        let b = self.rows(b);
        self.linear(chunk, level, &self.rows(a), out, |at, modulus| {
            let [value, companion] = root(modulus, g(modulus));
            (1, [b[at], value, companion], 0)
        });
    }

    /// For each row: `out` = f a + another row with its factor + a constant. `of(at, modulus)` returns these three.
    fn linear(
        &self,
        chunk: &mut Chunk,
        level: usize,
        a: &[Place],
        out: &[Place],
        of: impl Fn(usize, Modulus) -> (u32, [u32; 3], u32),
    ) {
        let primes = self.primes(level);
        for (at, (&a, &out)) in a.iter().zip(out).enumerate() {
            let prime = primes[at % primes.len()];
            let (factor, [b, other, companion], constant) = of(at, self.modulus(prime));
            let [value, of_value] = root(self.modulus(prime), factor);
            chunk.of(Phase::Sums).job(&[prime as u32, out, a, value, of_value, b, other, companion, constant]);
        }
    }

    /// The sum of terms, each a plaintext's row and both rows of a ciphertext, for each prime of the level.
    fn weighted(
        &self,
        chunk: &mut Chunk,
        level: usize,
        out: &[Place],
        terms: impl Fn(usize) -> Vec<(Place, [Place; 2])>,
    ) {
        for (at, &prime) in self.primes(level).iter().enumerate() {
            let ([first, second], terms) = (self.both(out, at), terms(at));
            let section = chunk.of(Phase::WeightedSums);
            let list = section.list(terms.iter().flat_map(|&(plain, [first, second])| [plain, first, second]));
            section.job(&[prime as u32, first, second, list, terms.len() as u32]);
        }
    }

    fn weighted_sum(
        &self,
        chunk: &mut Chunk,
        level: usize,
        terms: &[Term],
        out: &[Place],
        used: &mut Vec<Arc<Pages<G>>>,
    ) -> Result<()> {
        let primes = self.primes(level).to_vec();
        let mut plains = Vec::with_capacity(terms.len());
        for term in terms {
            let weights = term.weights.as_ref().expect("a plan with plaintexts");
            let pages = self.tables.weights.pages(self.device, weights)?;
            let (from, log_gap) = (pages.place(), weights.gap().trailing_zeros());
            let rows = chunk.take_each(primes.len());
            for (&prime, &row) in primes.iter().zip(&rows) {
                let section = chunk.of_keys(Phase::ColumnsOfWeights, pages.segment());
                section.job(&[prime as u32, from, log_gap, row]);
                chunk.of(Phase::RowsOfWeights).job(&[prime as u32, row, row]);
            }
            plains.push((rows, self.rows(term.value)));
            used.push(pages);
        }
        self.weighted(chunk, level, out, |at| {
            plains.iter().map(|(plain, value)| (plain[at], self.both(value, at))).collect()
        });
        Ok(())
    }

    fn raise(&self, chunk: &mut Chunk, a: &[Place], out: &[Place]) {
        let raise = self.tables.constants.raise(&self.tables.params);
        let (bottom, top) = (raise.from.len(), raise.to.len());
        for (a, out) in a.chunks_exact(bottom).zip(out.chunks_exact(top)) {
            let rows = chunk.take(bottom + 1);
            for (at, (&prime, &from)) in raise.from.iter().zip(a).enumerate() {
                let to = rows + chunk.places(at);
                chunk.of(Phase::LostRows).job(&[prime as u32, from, to, NO_ROW, 0, 0]);
            }
            let section = chunk.of(Phase::LostColumns);
            let record = section.record(&raise.conversion.scaling);
            section.job(&[record, rows]);
            for (target, (raised, &out)) in raise.to.iter().zip(out).enumerate() {
                let prime = raised.prime as u32;
                match raised.at {
                    Some(same) => {
                        let [one, companion] = root(self.modulus(raised.prime), 1);
                        chunk.of(Phase::Sums).job(&[prime, out, a[same], one, companion, NO_ROW, 0, 0, 0]);
                    }
                    None => {
                        let begun =
                            self.converted(chunk, Phase::LostConversions, &raise.conversion.targets[target], rows);
                        let [first, second] = [NOTHING; 2];
                        combine(chunk, raised.prime, begun, [first, second], out, 1);
                    }
                }
            }
        }
    }

    /// Converts scaled rows to the target of this record, and returns the place of the result, whose transform is
    /// begun.
    fn converted(&self, chunk: &mut Chunk, phase: Phase, record: &[u32], rows: Place) -> Place {
        let begun = chunk.take(1);
        let section = chunk.of(phase);
        let record = section.record(record);
        section.job(&[record, rows, begun]);
        begun
    }

    fn decompose(&self, chunk: &mut Chunk, level: usize, part: &Part<G>, x: &[Place]) -> Decomposed {
        let params = &self.tables.params;
        let special = part.special_count(params.chain().ciphertext_primes());
        let digits = self.tables.constants.digits(params, level, &part.digits, special);
        let rows = digits.iter().map(|digit| {
            let rows = chunk.take(digit.conversion.sources + 1);
            for (place, &at) in digit.sources.iter().enumerate() {
                let (prime, to) = (self.primes(level)[at] as u32, rows + chunk.places(place));
                chunk.of(Phase::DigitRows).job(&[prime, x[at], to, NO_ROW, 0, 0]);
            }
            let section = chunk.of(Phase::DigitColumns);
            let record = section.record(&digit.conversion.scaling);
            section.job(&[record, rows]);
            rows
        });
        let rows = rows.collect();
        Decomposed { digits, rows }
    }

    /// Converts the digits of the polynomial `x` to all primes. For each prime, for each digit: the place of the row,
    /// and 1 if the row is already transformed, or 0.
    fn digit_rows(
        &self,
        chunk: &mut Chunk,
        decomposed: &Decomposed,
        targets: usize,
        x: &[Place],
    ) -> Vec<Vec<[u32; 2]>> {
        let row = |chunk: &mut Chunk, target: usize, (digit, rows): (&Digit, Place)| match digit.targets[target] {
            Some(place) => [self.converted(chunk, Phase::DigitConversions, &digit.conversion.targets[place], rows), 0],
            // the digit's own primes need no conversion
            None => [x[target], 1],
        };
        let Decomposed { digits, rows } = decomposed;
        let of_target =
            |target| digits.iter().zip(rows).map(|(digit, &rows)| row(chunk, target, (digit, rows))).collect();
        (0..targets).map(of_target).collect()
    }

    /// Multiplies digits by a key. The result is `[2][primes of the level, then the key's special primes]`.
    fn key_product(
        &self,
        chunk: &mut Chunk,
        primes: &[usize],
        part: &Part<G>,
        decomposed: &Decomposed,
        rows: &[Vec<[u32; 2]>],
    ) -> Vec<Place> {
        let out = chunk.take_each(2 * primes.len());
        for (target, &prime) in primes.iter().enumerate() {
            let section = chunk.of_keys(Phase::Gadgets, part.pages.segment());
            let digits = decomposed.digits.iter().zip(&rows[target]);
            let list =
                section.list(digits.flat_map(|(digit, &[row, whole])| [row, whole, part.place(digit.number, prime)]));
            let [b, a] = self.both(&out, target);
            section.job(&[prime as u32, b, a, list, decomposed.digits.len() as u32]);
        }
        out
    }

    /// The primes of a level, then the special primes of a part.
    fn primes_of_switch(&self, level: usize, part: &Part<G>) -> (Vec<usize>, usize) {
        let first = self.tables.params.chain().ciphertext_primes();
        let special = part.special_count(first);
        (self.primes(level).iter().copied().chain(first..first + special).collect(), special)
    }

    fn sum_of_products(
        &self,
        chunk: &mut Chunk,
        (level, to): (usize, usize),
        pairs: &[(Value, Value)],
        plus: Option<Value>,
        out: &[Place],
    ) {
        let count = self.primes(level).len();
        let products = chunk.take_each(3 * count);
        let pairs: Vec<[Vec<Place>; 2]> = pairs.iter().map(|&(a, b)| [self.rows(a), self.rows(b)]).collect();
        let plus = plus.map(|plus| self.rows(plus));
        for (at, &prime) in self.primes(level).iter().enumerate() {
            let section = chunk.of(Phase::Products);
            let list = section.list(pairs.iter().flat_map(|[a, b]| [self.both(a, at), self.both(b, at)].concat()));
            let [first, second] = plus.as_ref().map_or([NO_ROW; 2], |plus| self.both(plus, at));
            let [d0, d1, d2] = [0, 1, 2].map(|c| products[c * count + at]);
            section.job(&[prime as u32, d0, d1, d2, list, pairs.len() as u32, first, second]);
        }
        let (linear, squares) = products.split_at(2 * count);
        let part = self.part(PartKind::Relinearization);
        let (primes, special) = self.primes_of_switch(level, part);
        let decomposed = self.decompose(chunk, level, part, squares);
        let rows = self.digit_rows(chunk, &decomposed, primes.len(), squares);
        let switched = self.key_product(chunk, &primes, part, &decomposed, &rows);
        let division = self.tables.constants.division(&self.tables.params, level, to, special, 1);
        self.divide(chunk, &division, &switched, Addend::Both(linear), 1, out);
    }

    fn automorphism(&self, chunk: &mut Chunk, level: usize, element: u32, a: &[Place], part: &Part<G>, out: &[Place]) {
        let (first, second) = a.split_at(a.len() / 2);
        let (primes, special) = self.primes_of_switch(level, part);
        let decomposed = self.decompose(chunk, level, part, second);
        let rows = self.digit_rows(chunk, &decomposed, primes.len(), second);
        let switched = self.key_product(chunk, &primes, part, &decomposed, &rows);
        let division = self.tables.constants.division(&self.tables.params, level, level, special, 1);
        self.divide(chunk, &division, &switched, Addend::First(first), element, out);
    }

    fn add_images(&self, chunk: &mut Chunk, level: usize, elements: &[u32], a: &[Place], out: &[Place]) {
        let parts: Vec<&Part<G>> = elements.iter().map(|&element| self.part(PartKind::Galois(element))).collect();
        assert!(parts.iter().all(|part| part.digits == parts[0].digits), "parts of the same digits");
        let (first, second) = a.split_at(a.len() / 2);
        let (primes, special) = self.primes_of_switch(level, parts[0]);
        let decomposed = self.decompose(chunk, level, parts[0], second);
        let mut rows = self.digit_rows(chunk, &decomposed, primes.len(), second);
        if parts.len() > 1 {
            finish_transforms(chunk, &primes, &mut rows);
        }
        let products: Vec<Vec<Place>> =
            parts.iter().map(|part| self.key_product(chunk, &primes, part, &decomposed, &rows)).collect();
        let sums = chunk.take_each(2 * primes.len());
        for (at, &sum) in sums.iter().enumerate() {
            let section = chunk.of(Phase::Images);
            let list = section.list(products.iter().zip(elements).flat_map(|(rows, &element)| [rows[at], element]));
            section.job(&[primes[at % primes.len()] as u32, sum, list, elements.len() as u32]);
        }
        // the first polynomials of the images need no key, and the second ones are in the products
        let own = chunk.take_each(first.len());
        for ((&prime, &own), &row) in self.primes(level).iter().zip(&own).zip(first) {
            let section = chunk.of(Phase::OwnSums);
            let terms = [1].iter().chain(elements).flat_map(|&element| [row, element]);
            let list = section.list(terms);
            section.job(&[prime as u32, own, list, elements.len() as u32 + 1]);
        }
        let own = [&own, second].concat();
        let division = self.tables.constants.division(&self.tables.params, level, level, special, 1);
        self.divide(chunk, &division, &sums, Addend::Both(&own), 1, out);
    }

    /// Divides each polynomial of `x`, `[polynomials][primes of the input]`. The result is permuted by `X ->
    /// X^element`.
    fn divide(
        &self,
        chunk: &mut Chunk,
        division: &Arc<Division>,
        x: &[Place],
        addend: Addend<'_>,
        element: u32,
        out: &[Place],
    ) {
        chunk.keep(division);
        let (from, to) = (division.from, division.to.len());
        assert!(x.len().is_multiple_of(from) && out.len() == x.len() / from * to, "polynomials of both levels");
        let inverse = inverse_exponent(element, 2 * self.tables.params.n() as u32);
        for (polynomial, (x, out)) in x.chunks_exact(from).zip(out.chunks_exact(to)).enumerate() {
            // the addend's row that belongs to this row of the input
            let added = |at: usize| match addend {
                Addend::Both(rows) if at < rows.len() / 2 => Some(rows[polynomial * (rows.len() / 2) + at]),
                Addend::First(rows) if polynomial == 0 => rows.get(at).copied(),
                _ => None,
            };
            let rows = chunk.take(division.lost.len() + 1);
            for (place, lost) in division.lost.iter().enumerate() {
                let factor = lost.addend.map(|factor| root(self.modulus(lost.prime), factor));
                let [added, value, companion] = match (added(lost.at), factor) {
                    (Some(row), Some([value, companion])) => [row, value, companion],
                    _ => NOTHING,
                };
                let to = rows + chunk.places(place);
                chunk.of(Phase::LostRows).job(&[lost.prime as u32, x[lost.at], to, added, value, companion]);
            }
            let section = chunk.of(Phase::LostColumns);
            let record = section.record(&division.conversion.scaling);
            section.job(&[record, rows]);
            for (target, (remaining, &out)) in division.to.iter().zip(out).enumerate() {
                let begun = self.converted(chunk, Phase::LostConversions, &division.conversion.targets[target], rows);
                let with = |row: Option<Place>, factor: u32| {
                    let [value, companion] = root(self.modulus(remaining.prime), factor);
                    row.map_or(NOTHING, |row| [row, value, companion])
                };
                let first = with(remaining.at.map(|at| x[at]), remaining.factor);
                let second = with(remaining.at.and_then(added), remaining.addend);
                combine(chunk, remaining.prime, begun, [first, second], out, inverse);
            }
        }
    }
}

/// Finishes the transforms of digits in place, so that each of several products with keys need not.
fn finish_transforms(chunk: &mut Chunk, primes: &[usize], rows: &mut [Vec<[u32; 2]>]) {
    for (&prime, digits) in primes.iter().zip(rows) {
        for [row, whole] in digits.iter_mut().filter(|[_, whole]| *whole == 0) {
            chunk.of(Phase::DigitTransforms).job(&[prime as u32, *row, *row]);
            *whole = 1;
        }
    }
}

/// Finishes a converted row's transform and adds two rows with factors.
fn combine(chunk: &mut Chunk, prime: usize, begun: Place, terms: [[u32; 3]; 2], out: Place, inverse: u32) {
    let [[x, f, of_f], [y, g, of_g]] = terms;
    chunk.of(Phase::Combinations).job(&[prime as u32, begun, x, f, of_f, y, g, of_g, out, inverse]);
}

fn residue(modulus: Modulus, c: i128) -> u32 {
    c.rem_euclid(i128::from(modulus.q())) as u32
}

/// `1 / element` modulo a power of two: an odd number is its own inverse modulo 8, and each step doubles the correct
/// bits.
fn inverse_exponent(element: u32, modulus: u32) -> u32 {
    let double = |inverse: u32, _| inverse.wrapping_mul(2u32.wrapping_sub(element.wrapping_mul(inverse)));
    (0..4).fold(element, double) & (modulus - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_exponents_invert() {
        for modulus in [128, 512, 65_536] {
            for element in [1, 3, 5, 25, modulus - 1, modulus - 5, modulus / 2 + 1] {
                let inverse = inverse_exponent(element, modulus);
                assert_eq!(u64::from(element) * u64::from(inverse) % u64::from(modulus), 1, "{element} {modulus}");
                assert!(inverse < modulus);
            }
        }
    }
}
