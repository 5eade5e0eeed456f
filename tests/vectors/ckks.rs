//! Known answers of operations on encrypted numbers (CKKS), which `tests/vectors/python/make_ckks_vectors.py` makes
//! from the definitions alone: masks, transforms, key switches, products and rescaling, word by word, and encoding
//! within one unit.

use kernels::ckks::cpu::{Evaluator, LoadedPart};
use kernels::ckks::encode::{Complex, Encoder};
use kernels::ckks::{Level, Params, ParamsLiteral, PartKind, SecurityLevel};
use kernels::cpu::Isa;
use kernels::ring::Ring;
use kernels::xof;
use serde::{Deserialize, Serialize};

use crate::unbase64;

/// A parameter set as input of the independent program.
#[derive(Serialize, Deserialize, PartialEq)]
struct Given {
    poly_degree: usize,
    scale_bits: u32,
    max_depth: u32,
    /// The primes of ciphertexts, then the special primes.
    primes: Vec<u32>,
    special: usize,
    /// The levels, from level 0 on.
    levels: Vec<GivenLevel>,
    /// The drops by more than one level.
    lowered: Vec<GivenWay>,
    /// The parts of evaluation keys.
    parts: Vec<GivenPart>,
}

#[derive(Serialize, Deserialize, PartialEq)]
struct GivenLevel {
    /// Indices of the primes.
    primes: Vec<usize>,
    /// The scale in decimal, exact when read back.
    scale: String,
}

/// A drop from `level` to the lower level `to`. The ciphertext is divided by some of the primes that it loses; the
/// others are left out without a division.
#[derive(Serialize, Deserialize, PartialEq)]
struct GivenWay {
    level: usize,
    to: usize,
    /// Indices of the primes that the ciphertext is divided by.
    divided: Vec<usize>,
}

#[derive(Serialize, Deserialize, PartialEq)]
struct GivenPart {
    /// The automorphism's element, or 0 for relinearization.
    element: u32,
    level: usize,
    /// Whether the digits differ from those of the parameters.
    own_digits: bool,
    digits: Vec<Vec<usize>>,
    /// Indices of the primes.
    primes: Vec<usize>,
}

/// The answers of a parameter set. Words are consecutive rows, little-endian, in base64.
#[derive(Deserialize)]
struct Answers {
    masks: Vec<MaskAnswer>,
    /// The transforms of each prime.
    transforms: Vec<TransformAnswer>,
    /// The parts of the set's evaluation keys.
    parts: Vec<PartAnswer>,
    operations: Vec<OperationAnswer>,
    encodings: Vec<EncodingAnswer>,
}

#[derive(Deserialize)]
struct MaskAnswer {
    seed: String,
    domain: u32,
    prime: usize,
    words: String,
}

#[derive(Deserialize)]
struct TransformAnswer {
    coefficients: String,
    values: String,
}

#[derive(Deserialize)]
struct PartAnswer {
    rows: Vec<RowAnswer>,
}

/// The row of an evaluation key for a digit.
#[derive(Deserialize)]
struct RowAnswer {
    /// The seed of the masks.
    seed: String,
    body: String,
}

#[derive(Deserialize)]
struct OperationAnswer {
    #[serde(flatten)]
    operation: Operation,
    level: usize,
    a: [Operand; 2],
    result: [String; 2],
}

#[derive(Deserialize, Debug)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Operation {
    /// `part` is the index, in the list of parts, of the part for relinearization.
    Multiply {
        b: [Operand; 2],
        part: usize,
        to: usize,
    },
    Automorphism {
        part: usize,
    },
    Rescale {
        to: usize,
        /// A whole number in decimal.
        factor: String,
    },
    MultiplyPlain {
        plain: [Operand; 1],
    },
    MultiplyInteger {
        /// A whole number in decimal.
        factor: String,
    },
}

/// Complex slots at the scale of a level. The numbers are in decimal and exact when read.
#[derive(Deserialize)]
struct EncodingAnswer {
    level: usize,
    slots: Vec<[String; 2]>,
    coefficients: Vec<i64>,
    /// The slots that decoding the coefficients gives.
    decoded: Vec<[String; 2]>,
}

/// A polynomial, given by a seed from which its words are expanded, or by the words themselves.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
enum Operand {
    Seed(String),
    Words(String),
}

/// A parameter set, its evaluation keys, and the results of the independent program.
struct Set {
    params: Params,
    given: Given,
    answers: Answers,
}

/// Rows of a polynomial or a ciphertext.
type Rows = Vec<Vec<u32>>;

impl Set {
    fn all() -> Vec<Set> {
        let answers: Vec<Answers> = serde_json::from_str(include_str!("ckks.json")).expect("the answers' file");
        let given = all_given();
        assert_eq!(given.len(), answers.len());
        let sets = given.into_iter().zip(answers);
        sets.map(|(given, answers)| Set { params: params_of(&given), given, answers }).collect()
    }

    /// The rows of an evaluation key: each body with its masks.
    fn load(&self, evaluator: &Evaluator, part: usize) -> LoadedPart {
        let GivenPart { digits, primes, .. } = &self.given.parts[part];
        let mut loaded = evaluator.room_for_part(digits, primes).expect("memory");
        for (digit, row) in self.answers.parts[part].rows.iter().enumerate() {
            let masks: Rows =
                primes.iter().map(|&prime| self.mask(&row.seed, xof::DOMAIN_SWITCHING_KEY, prime)).collect();
            evaluator.load_row(&mut loaded, digit, [&words(&row.body), &masks.concat()]);
        }
        loaded
    }

    /// The polynomials of an operand, in reading order.
    fn operand(&self, evaluator: &Evaluator, level: usize, polynomials: &[Operand]) -> Rows {
        let primes = &self.params.level(level).primes;
        let rows = polynomials.iter().flat_map(|polynomial| match polynomial {
            Operand::Seed(seed) => primes.iter().map(|&prime| self.mask(seed, xof::DOMAIN_NUMBERS, prime)).collect(),
            Operand::Words(base64) => {
                words(base64).chunks_exact(self.params.n()).map(<[u32]>::to_vec).collect::<Rows>()
            }
        });
        swapped(evaluator, &rows.collect::<Rows>())
    }

    fn mask(&self, seed: &str, domain: u32, prime: usize) -> Vec<u32> {
        let seed = hex::decode(seed).expect("hexadecimal").try_into().expect("32 bytes");
        let mut mask = vec![0; self.params.n()];
        xof::fill_residues(&seed, domain, prime as u64, self.params.primes()[prime], &mut mask);
        mask
    }

    /// The kernels' result of an operation, in the form of the independent program.
    fn evaluate(&self, evaluator: &Evaluator, parts: &[LoadedPart], answer: &OperationAnswer) -> Vec<u32> {
        let level = answer.level;
        let to = match answer.operation {
            Operation::Multiply { to, .. } | Operation::Rescale { to, .. } => to,
            _ => level,
        };
        let mut out = vec![vec![0; self.params.n()]; 2 * self.params.level(to).primes.len()];
        let mut out_rows: Vec<&mut [u32]> = out.iter_mut().map(Vec::as_mut_slice).collect();
        let (out_rows, a) = (out_rows.as_mut_slice(), self.operand(evaluator, level, &answer.a));
        let a = &*slices(&a);
        let done = match &answer.operation {
            Operation::Multiply { b, part, .. } => {
                let b = self.operand(evaluator, level, b);
                evaluator.multiply(level, to, [a, &slices(&b)], &parts[*part], out_rows)
            }
            &Operation::Automorphism { part } => {
                let (element, part) = (self.given.parts[part].element, &parts[part]);
                evaluator.automorphism(level, element, a, part, out_rows)
            }
            Operation::Rescale { factor, .. } => {
                evaluator.rescale(level, to, factor.parse().expect("a number"), a, out_rows)
            }
            Operation::MultiplyPlain { plain } => {
                let plain = self.operand(evaluator, level, plain);
                evaluator.multiply_plain(level, a, &slices(&plain), out_rows)
            }
            Operation::MultiplyInteger { factor } => {
                evaluator.multiply_integer(level, a, factor.parse().expect("a number"), out_rows)
            }
        };
        done.expect("memory");
        swapped(evaluator, &out).concat()
    }
}

#[test]
fn the_parameters_are_those_that_the_independent_program_was_given() {
    let given = all_given();
    let made: Vec<Given> = given.iter().map(|given| given_of(&params_of(given), given)).collect();
    let lines: Vec<String> = made.iter().map(|set| serde_json::to_string(set).expect("JSON")).collect();
    // if this fails, put the printed text into ckks_params.json and run make_ckks_vectors.py again
    assert!(made == given, "[\n{}\n]", lines.join(",\n"));
}

#[test]
fn masks_are_those_of_the_independent_program() {
    for set in Set::all() {
        for answer in &set.answers.masks {
            let mask = set.mask(&answer.seed, answer.domain, answer.prime);
            assert_eq!(mask, words(&answer.words), "domain {} prime {}", answer.domain, answer.prime);
        }
    }
}

#[test]
fn transforms_are_those_of_the_independent_program() {
    for set in Set::all() {
        assert_eq!(set.answers.transforms.len(), set.params.primes().len());
        for (&modulus, answer) in set.params.primes().iter().zip(&set.answers.transforms) {
            let (coefficients, values) = (words(&answer.coefficients), words(&answer.values));
            let ring = Ring::new(modulus, set.params.n());
            let mut row = coefficients.clone();
            ring.forward(&mut row);
            assert_eq!(row, values, "{modulus:?}");
            ring.inverse(&mut row);
            assert_eq!(row, coefficients, "{modulus:?}");
        }
    }
}

#[test]
fn operations_have_the_words_of_the_independent_program_on_every_instruction_set() {
    for set in Set::all() {
        for (isa, threads) in Isa::available().into_iter().flat_map(|isa| [(isa, 1), (isa, 2)]) {
            let evaluator = Evaluator::new(&set.params, isa, threads);
            let parts: Vec<LoadedPart> = (0..set.given.parts.len()).map(|part| set.load(&evaluator, part)).collect();
            for answer in &set.answers.operations {
                let result = set.evaluate(&evaluator, &parts, answer);
                let wanted: Vec<u32> = answer.result.iter().flat_map(|polynomial| words(polynomial)).collect();
                let wrong = result.iter().zip(&wanted).filter(|(x, y)| x != y).count();
                assert!(
                    result == wanted,
                    "{wrong} of {} words: {:?} at level {} on {isa:?}, {threads} threads, of {:?}",
                    wanted.len(),
                    answer.operation,
                    answer.level,
                    set.params,
                );
            }
        }
    }
}

#[test]
fn encoding_agrees_with_the_independent_program_to_a_unit_and_decoding_to_doubles() {
    for set in Set::all() {
        let encoder = Encoder::new(set.params.n());
        assert!(set.answers.encodings.iter().any(|answer| answer.slots.iter().any(|[_, im]| im != "0.0")));
        for answer in &set.answers.encodings {
            let Level { primes, log_modulus, scale } = set.params.level(answer.level);
            let slots = complex(&answer.slots);
            let encoded = encoder.encode(&slots, *scale, *log_modulus).expect("numbers that fit");
            if slots.iter().all(|slot| slot.im == 0.0) {
                let reals: Vec<f64> = slots.iter().map(|slot| slot.re).collect();
                let of_reals = encoder.encode_reals(&reals, *scale, *log_modulus).expect("numbers that fit");
                assert_eq!(of_reals.coefficients(), encoded.coefficients());
            }
            let errors_of = |&prime: &usize| {
                let modulus = set.params.primes()[prime];
                let mut residues = vec![0; set.params.n()];
                encoded.residues(modulus, &mut residues);
                let q = i64::from(modulus.q());
                let differences = residues.iter().zip(&answer.coefficients).map(|(&x, y)| i64::from(x) - y);
                differences.map(|error| (error + q / 2).rem_euclid(q) - q / 2).collect::<Vec<i64>>()
            };
            let errors = errors_of(&primes[0]);
            assert!(errors.iter().all(|error| error.abs() <= 1), "{errors:?}");
            assert!(primes.iter().all(|prime| errors_of(prime) == errors), "the same number modulo every prime");

            let coefficients: Vec<f64> = answer.coefficients.iter().map(|&x| x as f64 / scale).collect();
            for (slot, wanted) in encoder.to_slots(&coefficients).into_iter().zip(complex(&answer.decoded)) {
                let error = f64::hypot(slot.re - wanted.re, slot.im - wanted.im);
                assert!(error < f64::exp2(-44.0), "{error}");
            }
        }
    }
}

fn complex(slots: &[[String; 2]]) -> Vec<Complex> {
    let parse = |number: &String| number.parse().expect("a number");
    slots.iter().map(|[re, im]| Complex::new(parse(re), parse(im))).collect()
}

fn all_given() -> Vec<Given> {
    serde_json::from_str(include_str!("ckks_params.json")).expect("the parameters' file")
}

/// The description of these parameters, with the given evaluation keys.
fn given_of(params: &Params, given: &Given) -> Given {
    let level = |level: &Level| GivenLevel { primes: level.primes.clone(), scale: format!("{}", level.scale) };
    let part = |&GivenPart { element, level, own_digits, ref digits, .. }: &GivenPart| GivenPart {
        element,
        level,
        own_digits,
        digits: if own_digits { digits.clone() } else { params.digits(kind(element), level) },
        primes: params.key_primes(kind(element), level),
    };
    let ways = (2..=params.level_max()).flat_map(|level| (0..level - 1).map(move |to| (level, to)));
    let lowered = ways.map(|(level, to)| GivenWay { level, to, divided: params.chain().divided(level, to) });
    let ParamsLiteral { poly_degree, scale_bits, max_depth, .. } = params.literal();
    Given {
        poly_degree,
        scale_bits,
        max_depth,
        primes: params.primes().iter().map(|prime| prime.q()).collect(),
        special: params.special_count(),
        levels: params.chain().levels.iter().map(level).collect(),
        lowered: lowered.collect(),
        parts: given.parts.iter().map(part).collect(),
    }
}

fn kind(element: u32) -> PartKind {
    if element == 0 { PartKind::Relinearization } else { PartKind::Galois(element) }
}

fn params_of(&Given { poly_degree, scale_bits, max_depth, .. }: &Given) -> Params {
    let security = SecurityLevel::Testing;
    Params::new(ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: false }).expect("parameters")
}

fn swapped(evaluator: &Evaluator, rows: &[Vec<u32>]) -> Rows {
    let swap = |row: &Vec<u32>| {
        let mut out = vec![0; row.len()];
        evaluator.swap_order(row, &mut out);
        out
    };
    rows.iter().map(swap).collect()
}

fn slices(rows: &[Vec<u32>]) -> Vec<&[u32]> {
    rows.iter().map(Vec::as_slice).collect()
}

fn words(base64: &str) -> Vec<u32> {
    unbase64(base64).chunks_exact(4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes"))).collect()
}
