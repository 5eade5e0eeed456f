//! Evaluators of one parameter set, and the comparison of their words with the defined words.

use kernels::ckks::cpu::{Evaluator, LoadedPart, Rows, RowsMut};
use kernels::ckks::{Params, ParamsLiteral, SecurityLevel};
use kernels::cpu::Isa;
use kernels::error::Result;
use kernels::ring::Ring;
use tests_compute::naive::Polynomial;
use tests_compute::naive::numbers::{Ciphertext, KeyPart};

/// A parameter set with its evaluators.
pub struct Setting {
    pub params: Params,
    /// A ring for each prime.
    rings: Vec<Ring>,
    /// An evaluator for each instruction set and number of threads, with its name.
    evaluators: Vec<(String, Evaluator)>,
}

/// The inputs of an operation, in coefficient form.
pub struct Operation<'a> {
    /// The level of the inputs.
    pub level: usize,
    /// The level of the result.
    pub to: usize,
    pub inputs: &'a [&'a Ciphertext],
    pub parts: &'a [&'a KeyPart],
}

impl Setting {
    pub fn new((poly_degree, scale_bits, max_depth, bootstrap): (usize, u32, u32, bool)) -> Setting {
        let security = SecurityLevel::Testing;
        let params = Params::new(ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap });
        let params = params.expect("parameters for tests");
        let rings = params.primes().iter().map(|&prime| Ring::new(prime, poly_degree)).collect();
        let kinds = Isa::available().into_iter().flat_map(|isa| [(isa, 1), (isa, 2)]);
        let evaluators = kinds
            .map(|(isa, threads)| (format!("{isa:?}, threads {threads}"), Evaluator::new(&params, isa, threads)))
            .collect();
        Setting { params, rings, evaluators }
    }

    /// The highest level of the chain.
    pub fn top(&self) -> usize {
        self.params.raised_level()
    }

    /// Checks that every evaluator computes the expected words.
    ///
    /// # Panics
    /// With the place of the first wrong word. No words are printed.
    pub fn check(
        &self,
        case: &str,
        operation: &Operation<'_>,
        expected: &Ciphertext,
        compute: impl Fn(&Evaluator, &[LoadedPart], &[Rows<'_>], RowsMut<'_, '_>) -> Result<()>,
    ) {
        let primes = &self.params.level(operation.level).primes;
        for (name, evaluator) in &self.evaluators {
            let parts: Vec<LoadedPart> = operation.parts.iter().map(|part| self.load(evaluator, part)).collect();
            let inputs: Vec<Vec<Polynomial>> =
                operation.inputs.iter().map(|input| self.values(evaluator, primes, input)).collect();
            let inputs: Vec<Vec<&[u32]>> =
                inputs.iter().map(|rows| rows.iter().map(|row| &row[..]).collect()).collect();
            let inputs: Vec<Rows<'_>> = inputs.iter().map(|rows| &rows[..]).collect();
            let of_result = &self.params.level(operation.to).primes;
            // the rows have other words before, which no operation may read
            let mut out = vec![vec![u32::MAX; self.params.n()]; 2 * of_result.len()];
            let mut rows: Vec<&mut [u32]> = out.iter_mut().map(|row| &mut row[..]).collect();
            compute(evaluator, &parts, &inputs, &mut rows).expect("memory");
            if let Some(place) = self.first_wrong(evaluator, of_result, &out, expected) {
                panic!("{case}; {:?}; {name}: {place}", self.params);
            }
        }
    }

    /// Describes the place of the first word that is not the expected one.
    fn first_wrong(
        &self,
        evaluator: &Evaluator,
        primes: &[usize],
        found: &[Polynomial],
        expected: &Ciphertext,
    ) -> Option<String> {
        assert!(expected.iter().all(|rows| rows.len() == primes.len()), "a defined row for each prime");
        for (at, (row, expected)) in found.iter().zip(expected.iter().flatten()).enumerate() {
            let (polynomial, prime) = (at / primes.len(), primes[at % primes.len()]);
            let q = self.params.primes()[prime].q();
            let of_row = format!("polynomial {polynomial}, prime {q} (index {prime})");
            if let Some(word) = row.iter().position(|&word| word >= q) {
                return Some(format!("{of_row}: value {word} is not reduced"));
            }
            let mut coefficients = swapped(evaluator, row);
            self.rings[prime].inverse(&mut coefficients);
            let wrong = coefficients.iter().zip(expected).filter(|(found, expected)| found != expected).count();
            if let Some(coefficient) = coefficients.iter().zip(expected).position(|(found, expected)| found != expected)
            {
                return Some(format!("{of_row}, coefficient {coefficient}, and {wrong} of the row in all"));
            }
        }
        None
    }

    /// The values of a ciphertext in reading order, as evaluators need them.
    fn values(&self, evaluator: &Evaluator, primes: &[usize], ciphertext: &Ciphertext) -> Vec<Polynomial> {
        let rows = ciphertext.iter().flat_map(|polynomial| primes.iter().zip(polynomial));
        rows.map(|(&prime, row)| swapped(evaluator, &self.transformed(prime, row))).collect()
    }

    fn transformed(&self, prime: usize, coefficients: &[u32]) -> Polynomial {
        let mut row = coefficients.to_vec();
        self.rings[prime].forward(&mut row);
        row
    }

    fn load(&self, evaluator: &Evaluator, part: &KeyPart) -> LoadedPart {
        let mut loaded = evaluator.room_for_part(&part.digits, &part.primes).expect("memory");
        for (digit, row) in part.rows.iter().enumerate() {
            let [body, mask] = [0, 1].map(|c| -> Vec<u32> {
                let rows = part.primes.iter().zip(&row[c]);
                rows.flat_map(|(&prime, row)| self.transformed(prime, row)).collect()
            });
            evaluator.load_row(&mut loaded, digit, [&body, &mask]);
        }
        loaded
    }
}

fn swapped(evaluator: &Evaluator, row: &[u32]) -> Polynomial {
    let mut out = vec![0; row.len()];
    evaluator.swap_order(row, &mut out);
    out
}
