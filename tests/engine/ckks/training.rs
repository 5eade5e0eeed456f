//! Logistic regression that is trained on encrypted data: which sex each of 333 penguins has, from four measures and the
//! species (Gorman, Williams, Fraser, PLOS ONE 9(3), 2014; the data are in the public domain by CC0).
//!
//! Gradient descent computes `w + step sum_i s(-z_i) x_i` with `z_i = x_i w`, where `x_i` is the row of a penguin, with its
//! sign flipped for a female, and `s` a polynomial near the logistic function. A ciphertext holds a row in every run of
//! eight slots. The weights are repeated in every run. An iteration takes four levels:
//!
//! ```text
//! (1) product    slot 8 r + j holds x_rj w_j                                            one level
//! (2) sum        slot 8 r holds z_r; slots between hold sums over parts of two rows     rotations by 1, 2, 4
//! (3) polynomial with coefficients that are 0 in all slots but 8 r: s(-z_r)             two levels
//! (4) repeat     slots 8 r - 7 to 8 r hold s(-z_r)                                      rotations by 1, 2, 4
//! (5) product    with the rows, seven slots earlier                                     one level
//! (6) sum        over all rows, and back by the seven slots                             rotations by 8, 16, .. and 1
//! ```

use std::time::Instant;

use client::ckks::{Ciphertext, Params, ParamsLiteral, SecurityLevel, evaluation_key_parts, preparation};
use engine::ckks::operation::{Operand, Operation};

use super::STABLE;
use super::party::{Encrypted, More, Party, engine};
use super::turned;

/// Slots of a row: seven features, and a 0.
const WIDTH: usize = 8;
const ITERATIONS: usize = 10;
/// Size of a step of the descent.
const RATE: f64 = 2.0;
/// `1 / (1 + exp(-z))` is near `1/2 + c1 z + c3 z^3` for `z` from -6 to 6, by least squares.
const LOGISTIC: [f64; 2] = [0.180_56, -0.003_09];

/// The weights are encrypted this many times larger and the rows as many times smaller, because the sums over all rows
/// have an error of a fixed size.
const UNIT: f64 = 4.0;
/// Bounds that the client promises: on the numbers that the rows hold, then with a bound on the errors, the weights, the
/// sums `z` and the factors `s(-z)`. Without promised errors, each iteration multiplies the error that is predicted by what
/// the bounds allow, about a hundred, while the descent itself makes errors smaller.
const ROWS: f64 = 4.0 / UNIT;
const WEIGHTS: [f64; 2] = [4.0 * UNIT, UNIT / 256.0];
const SUMS: [f64; 2] = [16.0, 1.0 / 32.0];
const FACTORS: [f64; 2] = [1.25, 1.0 / 64.0];

/// The rows of all penguins without gaps in their data, multiplied by 1 for a male and by -1 for a female. Features have
/// the mean 0 and the variance 1, then follow a constant and two marks of the species.
fn penguins() -> Vec<[f64; WIDTH]> {
    let lines = include_str!("penguins.csv").lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let whole: Vec<Vec<&str>> = lines.filter(|fields| !fields.iter().any(|field| ["NA", ""].contains(field))).collect();
    let mark = |is: bool| if is { 0.5 } else { -0.5 };
    let row = |fields: &Vec<&str>| {
        let measure = |at: usize| fields[at].parse::<f64>().unwrap();
        [
            measure(2),
            measure(3),
            measure(4),
            measure(5),
            1.0,
            mark(fields[0] == "Chinstrap"),
            mark(fields[0] == "Gentoo"),
            0.0,
        ]
    };
    let mut rows: Vec<[f64; WIDTH]> = whole.iter().map(row).collect();
    let count = rows.len() as f64;
    for feature in 0..4 {
        let mean = rows.iter().map(|row| row[feature]).sum::<f64>() / count;
        let variance = rows.iter().map(|row| (row[feature] - mean).powi(2)).sum::<f64>() / count;
        rows.iter_mut().for_each(|row| row[feature] = (row[feature] - mean) / variance.sqrt());
    }
    for (row, fields) in rows.iter_mut().zip(&whole) {
        let sign = if fields[6] == "male" { 1.0 } else { -1.0 };
        row.iter_mut().for_each(|x| *x *= sign);
    }
    rows
}

/// The weights after training without encryption. `logistic` is the function `s`.
fn trained_in_plain(rows: &[[f64; WIDTH]], logistic: impl Fn(f64) -> f64) -> [f64; WIDTH] {
    let mut weights = [0.0; WIDTH];
    for _ in 0..ITERATIONS {
        let factors: Vec<f64> = rows.iter().map(|row| logistic(-dot(row, &weights))).collect();
        for (j, weight) in weights.iter_mut().enumerate() {
            *weight += RATE / rows.len() as f64 * rows.iter().zip(&factors).map(|(row, f)| row[j] * f).sum::<f64>();
        }
    }
    weights
}

fn dot(a: &[f64; WIDTH], b: &[f64; WIDTH]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The share of penguins whose sex the weights tell.
fn accuracy(rows: &[[f64; WIDTH]], weights: &[f64; WIDTH]) -> f64 {
    rows.iter().filter(|row| dot(row, weights) > 0.0).count() as f64 / rows.len() as f64
}

/// A party that runs whatever an operation needs before it. Each result comes with what plain arithmetic gives.
struct Trainer<'a> {
    party: &'a Party,
    operations: usize,
    bootstraps: usize,
}

impl Trainer<'_> {
    /// Runs an operation. Operands that must be rescaled or bootstrapped first stay so.
    fn run(
        &mut self,
        operation: Operation,
        of: &mut [&mut Encrypted],
        more: More<'_>,
        expected: Vec<f64>,
    ) -> Encrypted {
        loop {
            let operands: Vec<Operand> = of.iter().map(|of| Operand::from(&of.ciphertext)).collect();
            let request = self.party.request(operation, &operands, more);
            let Some((at, first)) = preparation(self.party.params(), &request) else { break };
            of[at].ciphertext = self.once(first, &[&of[at].ciphertext], STABLE);
        }
        let of: Vec<&Ciphertext> = of.iter().map(|of| &of.ciphertext).collect();
        Encrypted { ciphertext: self.once(operation, &of, more), expected }
    }

    fn once(&mut self, operation: Operation, of: &[&Ciphertext], more: More<'_>) -> Ciphertext {
        self.operations += 1;
        self.bootstraps += usize::from(operation == Operation::Bootstrap);
        self.party.run(operation, of, more).unwrap_or_else(|why| panic!("{operation:?}: {why}"))
    }

    fn add(&mut self, a: &mut Encrypted, b: &mut Encrypted) -> Encrypted {
        let expected = a.expected.iter().zip(&b.expected).map(|(a, b)| a + b).collect();
        self.run(Operation::Add, &mut [a, b], STABLE, expected)
    }

    fn multiply(&mut self, a: &mut Encrypted, b: &mut Encrypted) -> Encrypted {
        let expected = a.expected.iter().zip(&b.expected).map(|(a, b)| a * b).collect();
        self.run(Operation::Multiply, &mut [a, b], STABLE, expected)
    }

    fn multiply_plain(&mut self, a: &mut Encrypted, plain: &[f64]) -> Encrypted {
        let expected = a.expected.iter().zip(plain).map(|(a, b)| a * b).collect();
        self.run(Operation::MultiplyPlain, &mut [a], More { plain: Some(plain), ..STABLE }, expected)
    }

    fn rotate(&mut self, a: &mut Encrypted, steps: usize) -> Encrypted {
        let expected = turned(&a.expected, steps as i64);
        self.run(Operation::Rotate, &mut [a], More { steps: Some(steps as i64), ..STABLE }, expected)
    }

    /// Adds to every slot the slots `first`, `2 first`, `3 first` and so on after it, as many as are less than `end` away.
    fn sum(&mut self, mut value: Encrypted, first: usize, end: usize) -> Encrypted {
        let steps = std::iter::successors(Some(first), |steps| Some(2 * steps)).take_while(|&steps| steps < end);
        for steps in steps {
            let mut rotated = self.rotate(&mut value, steps);
            value = self.add(&mut value, &mut rotated);
        }
        value
    }

    /// Lowers the bounds on the numbers and on their errors. The client promises these bounds.
    fn promise(&self, mut value: Encrypted, [bound, error]: [f64; 2]) -> Encrypted {
        let largest = value.expected.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
        assert!(largest <= bound, "numbers up to {largest} break the promise of {bound}");
        let of = &mut value.ciphertext;
        of.noise = of.noise.promised(self.party.params().n(), of.scale, Some(bound), Some(error));
        self.party.check_precision(&value, "promised numbers");
        value
    }

    /// Computes the gradient of each row in a block: the change of the weights by this row.
    fn gradient(&mut self, [rows, shifted]: &mut [Encrypted; 2], weights: &mut Encrypted) -> Encrypted {
        let slots = weights.expected.len();
        let mask = |number: f64| -> Vec<f64> {
            (0..slots).map(|slot| if slot.is_multiple_of(WIDTH) { number } else { 0.0 }).collect()
        };
        let products = self.multiply(rows, weights);
        let sums = self.sum(products, 1, WIDTH);
        let mut sums = self.promise(sums, SUMS);
        let mut square = self.multiply(&mut sums.clone(), &mut sums);
        // s(-z) = 1/2 - c1 z - c3 z^3
        let mut linear = self.multiply_plain(&mut sums, &mask(-LOGISTIC[0]));
        let mut third = self.multiply_plain(&mut sums, &mask(-LOGISTIC[1]));
        let mut cube = self.multiply(&mut third, &mut square);
        let mut both = self.add(&mut cube, &mut linear);
        let half = mask(0.5);
        let expected = both.expected.iter().zip(&half).map(|(a, b)| a + b).collect();
        let factors = self.run(Operation::AddPlain, &mut [&mut both], More { plain: Some(&half), ..STABLE }, expected);
        let repeated = self.sum(factors, 1, WIDTH);
        let mut repeated = self.promise(repeated, FACTORS);
        self.multiply(&mut repeated, shifted)
    }
}

/// Trains on encrypted rows and returns the weights, each with the number that plain arithmetic gives.
fn trained(party: &Party, penguins: &[[f64; WIDTH]]) -> Vec<[f64; 2]> {
    let slots = party.params().slots();
    let encrypt = |values: Vec<f64>, bound: f64| {
        let top = party.params().level_max();
        let fresh = party.secret.encrypt_at(top, &values, bound).expect("numbers within their bound");
        Encrypted { ciphertext: fresh.expand(party.params()), expected: values }
    };
    // the rows are repeated until the ciphertext is full, so that the sum over one repetition is the same in all runs
    let run = (WIDTH * penguins.len().next_power_of_two()).min(slots);
    let block = |rows: &[[f64; WIDTH]]| {
        let mut values: Vec<f64> = rows.concat();
        values.resize(run, 0.0);
        let scaled = |factor: f64| values.iter().cycle().take(slots).map(|x| factor * x).collect::<Vec<f64>>();
        let step = UNIT * RATE / penguins.len() as f64;
        let shifted = turned(&scaled(step), WIDTH as i64 - 1);
        [encrypt(scaled(1.0 / UNIT), ROWS), encrypt(shifted, step * UNIT * ROWS)]
    };
    let mut blocks: Vec<[Encrypted; 2]> = penguins.chunks(run / WIDTH).map(block).collect();
    let mut weights = encrypt(vec![0.0; slots], WEIGHTS[0]);
    let mut trainer = Trainer { party, operations: 0, bootstraps: 0 };
    for iteration in 1..=ITERATIONS {
        let started = Instant::now();
        let gradients: Vec<Encrypted> =
            blocks.iter_mut().map(|block| trainer.gradient(&mut block.clone(), &mut weights)).collect();
        let total = gradients.into_iter().reduce(|mut a, mut b| trainer.add(&mut a, &mut b)).expect("a block");
        let mut total = trainer.sum(total, WIDTH, run);
        let mut total = trainer.rotate(&mut total, 1);
        let sum = trainer.add(&mut weights, &mut total);
        let of = &sum.ciphertext;
        let told = UNIT.log2() + of.noise.precision_bits(party.params().n(), of.scale);
        let found = party.secret.decrypt(of).expect("room").values;
        let error = found.iter().zip(&sum.expected).fold(0.0f64, |largest, (a, b)| largest.max((a - b).abs()));
        println!(
            "iteration {iteration}: level {}, {} operations and {} bootstraps so far, {:.1} s; {:.1} bits, {told:.1} by the bounds",
            of.level,
            trainer.operations,
            trainer.bootstraps,
            started.elapsed().as_secs_f64(),
            (UNIT / error).log2()
        );
        weights = trainer.promise(sum, WEIGHTS);
    }
    assert_eq!(trainer.bootstraps, ITERATIONS - 1, "one bootstrap of the weights between two iterations");
    let found = party.secret.decrypt(&weights.ciphertext).expect("room").values;
    (0..WIDTH).map(|j| [found[j] / UNIT, weights.expected[j] / UNIT]).collect()
}

/// Trains with a key of these parameters, and compares with plain training.
fn check_training(literal: ParamsLiteral) {
    let params = Params::new(literal).unwrap();
    let party = Party::new(engine(), &params, &evaluation_key_parts(&params));
    let penguins = penguins();
    assert_eq!(penguins.len(), 333);
    let polynomial = |z: f64| 0.5 + LOGISTIC[0] * z + LOGISTIC[1] * z.powi(3);
    let plain = trained_in_plain(&penguins, |z| 1.0 / (1.0 + (-z).exp()));
    let by_polynomial = trained_in_plain(&penguins, polynomial);
    let weights = trained(&party, &penguins);
    let mut found = [0.0; WIDTH];
    for (j, [weight, expected]) in weights.into_iter().enumerate() {
        assert!(
            (expected - by_polynomial[j]).abs() < 1e-9,
            "the packing computes the descent: {expected} {by_polynomial:?}"
        );
        assert!((weight - expected).abs() < WEIGHTS[1] / UNIT, "{weight}, in plain arithmetic {expected}");
        found[j] = weight;
    }
    let [encrypted, approximate, exact] = [&found, &by_polynomial, &plain].map(|weights| accuracy(&penguins, weights));
    println!(
        "accuracy {encrypted:.4} encrypted, {approximate:.4} by the polynomial, {exact:.4} by the logistic function"
    );
    assert!((encrypted - approximate).abs() < 0.01 && (encrypted - exact).abs() < 0.02 && encrypted > 0.88);
}

#[test]
fn logistic_regression_is_trained_on_encrypted_penguins() {
    let security = SecurityLevel::Testing;
    check_training(ParamsLiteral { poly_degree: 256, scale_bits: 30, max_depth: 4, security, bootstrap: true });
}

#[test]
#[ignore = "nine bootstraps of degree 32768: a minute"]
fn logistic_regression_is_trained_on_encrypted_penguins_at_128_bits() {
    let security = SecurityLevel::Bits128;
    check_training(ParamsLiteral { poly_degree: 32768, scale_bits: 30, max_depth: 4, security, bootstrap: true });
}
