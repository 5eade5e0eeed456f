//! Ciphertexts and parts of keys of random and of extreme words. No secret is behind these words, because tests of
//! equality need none.

use kernels::ckks::{Params, PartKind};
use num_bigint::BigInt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tests_compute::naive::Polynomial;
use tests_compute::naive::numbers::{Ciphertext, Division, KeyPart, Rows, inverse, moduli, residue};

/// The words of a ciphertext.
#[derive(Clone, Copy, Debug)]
pub enum Words {
    Random,
    Zero,
    /// The largest residues: the number -1.
    Largest,
    /// For each word 0, 1, the largest residue, or a residue nearest to half of the prime.
    Extreme,
    /// For each group of primes, a number near half of the group's product.
    NearHalf,
}

impl Words {
    pub const ALL: [Words; 5] = [Words::Random, Words::Zero, Words::Largest, Words::Extreme, Words::NearHalf];
}

/// Groups of primes that a base conversion reads together, after a multiplication.
pub struct Groups {
    /// Indices of primes. No prime is in two groups.
    pub groups: Vec<Vec<usize>>,
    pub multiplier: BigInt,
}

impl Groups {
    /// The primes that a division reads.
    pub fn of(division: &Division) -> Groups {
        Groups { groups: vec![division.lost.clone()], multiplier: division.multiplier.clone() }
    }
}

/// A generator of inputs.
pub struct Inputs(ChaCha8Rng);

impl Inputs {
    pub fn new() -> Inputs {
        Inputs(ChaCha8Rng::seed_from_u64(1))
    }

    fn below(&mut self, bound: u32) -> u32 {
        (self.0.next_u64() % u64::from(bound)) as u32
    }

    fn random(&mut self, q: u32, n: usize) -> Polynomial {
        (0..n).map(|_| self.below(q)).collect()
    }

    /// A ciphertext of this level. The groups are for [`Words::NearHalf`].
    pub fn ciphertext(&mut self, params: &Params, level: usize, words: Words, groups: &Groups) -> Ciphertext {
        let primes = &params.level(level).primes;
        [0, 1].map(|_| match words {
            Words::NearHalf => self.near_half(params, primes, groups),
            _ => {
                let moduli = moduli(params, primes).into_iter();
                moduli.map(|q| (0..params.n()).map(|_| self.word(q, words)).collect()).collect()
            }
        })
    }

    fn word(&mut self, q: u32, words: Words) -> u32 {
        match words {
            Words::Zero => 0,
            Words::Largest => q - 1,
            Words::Extreme => [0, 1, q - 1, q / 2, q / 2 + 1][self.below(5) as usize],
            Words::Random | Words::NearHalf => self.below(q),
        }
    }

    /// A polynomial modulo these primes. For each group, the residues modulo the group's primes stand for numbers that,
    /// times the multiplier, are near half of the product of these primes. Other residues are random.
    fn near_half(&mut self, params: &Params, primes: &[usize], Groups { groups, multiplier }: &Groups) -> Rows {
        let n = params.n();
        let mut rows: Rows = moduli(params, primes).into_iter().map(|q| self.random(q, n)).collect();
        for group in groups {
            let present: Vec<usize> = (0..primes.len()).filter(|&at| group.contains(&primes[at])).collect();
            let of_group: Vec<u32> = present.iter().map(|&at| params.primes()[primes[at]].q()).collect();
            if present.is_empty() {
                continue;
            }
            for i in 0..n {
                for (&at, x) in present.iter().zip(self.residues_near_half(&of_group, multiplier)) {
                    rows[at][i] = x;
                }
            }
        }
        rows
    }

    /// Residues `x_i` modulo the primes `a_i` with product `A` and multiplier `e`. With `y_i = x_i e (A / a_i)^-1`, the
    /// sum of `y_i / a_i` is near `1/2` modulo 1: all terms but the last are random.
    fn residues_near_half(&mut self, primes: &[u32], multiplier: &BigInt) -> Vec<u32> {
        let all: BigInt = primes.iter().map(|&a| BigInt::from(a)).product();
        // the sum that is left for the last term, in units of 2^-60; up to 32 units of 2^-28 away from the half
        let mut left = (1 << 59) + (i128::from(self.below(65)) - 32) * (1 << 32);
        let mut out = Vec::new();
        for (at, &a) in primes.iter().enumerate() {
            let y = match at + 1 < primes.len() {
                true => self.below(a),
                false => ((left.rem_euclid(1 << 60) * i128::from(a)) >> 60) as u32,
            };
            left -= (i128::from(y) << 60) / i128::from(a);
            let x = residue(&(&all / a * y * inverse(residue(multiplier, a), a)), a);
            out.push(x);
        }
        out
    }

    /// A part of a key of random words.
    pub fn part(&mut self, params: &Params, kind: PartKind, level: usize) -> KeyPart {
        let (digits, primes) = (params.digits(kind, level), params.key_primes(kind, level));
        let mut polynomial =
            || moduli(params, &primes).into_iter().map(|q| self.random(q, params.n())).collect::<Rows>();
        let rows = digits.iter().map(|_| [polynomial(), polynomial()]).collect();
        KeyPart { digits, primes, rows }
    }

    /// A part of a key for the input [`mask_of_one`]. Every digit of this input is 1, so the product with the key is
    /// the sum of the key's rows. Modulo the primes that `division` divides by, all rows but one are 0, and that row is
    /// near half of these primes' product.
    pub fn part_at_the_edge(
        &mut self,
        params: &Params,
        kind: PartKind,
        of_key: usize,
        level: usize,
        division: &Division,
    ) -> KeyPart {
        let mut part = self.part(params, kind, of_key);
        let of_level = &params.level(level).primes;
        let is_present = |digit: &Vec<usize>| digit.iter().any(|prime| of_level.contains(prime));
        let chosen = part.digits.iter().position(is_present).expect("a digit of the level");
        for (digit, row) in part.rows.iter_mut().enumerate() {
            for polynomial in row {
                let near_half = self.near_half(params, &part.primes, &Groups::of(division));
                for ((prime, words), near_half) in part.primes.iter().zip(polynomial).zip(near_half) {
                    if division.lost.contains(prime) {
                        *words = if digit == chosen { near_half } else { vec![0; params.n()] };
                    }
                }
            }
        }
        part
    }
}

/// The ciphertext `(0, 1)`.
pub fn mask_of_one(params: &Params, level: usize) -> Ciphertext {
    [0, 1].map(|first| {
        let mut row = vec![0; params.n()];
        row[0] = first;
        vec![row; params.level(level).primes.len()]
    })
}
