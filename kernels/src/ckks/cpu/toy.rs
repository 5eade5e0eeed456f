//! A secret key for tests: all transforms are plain, and randomness comes from a counter. Nothing here is secret.

use std::sync::Arc;

use super::{Evaluator, LoadedPart};
use crate::ckks::bootstrap;
use crate::ckks::encode::{Centred, Complex, Encoder};
use crate::ckks::params::{Params, PartKind};
use crate::modular::Modulus;
use crate::ring::Ring;
use crate::xof::{DOMAIN_SWITCHING_KEY, fill_residues};

type Seed = [u8; 32];

/// A ciphertext on the host: `[2][primes of the level][N]` words in the order of the plain transform.
#[derive(Clone)]
pub struct ToyCiphertext {
    pub level: usize,
    pub scale: f64,
    pub words: Vec<u32>,
}

/// A secret key with its rings and a generator of pseudorandom numbers.
pub struct Toy {
    pub params: Params,
    pub encoder: Encoder,
    rings: Vec<Arc<Ring>>,
    /// Coefficients of the secret.
    secret: Vec<i64>,
    /// Coefficients of the sparse secret.
    sparse: Vec<i64>,
    state: u64,
}

impl Toy {
    pub fn new(params: &Params, seed: u64) -> Toy {
        let rings = params.primes().iter().map(|&prime| Arc::new(Ring::new(prime, params.n()))).collect();
        let encoder = Encoder::new(params.n());
        let mut toy =
            Toy { params: params.clone(), encoder, rings, secret: Vec::new(), sparse: Vec::new(), state: seed };
        toy.secret = (0..params.n()).map(|_| (toy.next() % 3) as i64 - 1).collect();
        toy.sparse = vec![0; params.n()];
        let mut left = bootstrap::sparse_weight(params.n());
        while left > 0 {
            let at = toy.next() as usize % params.n();
            if toy.sparse[at] == 0 {
                toy.sparse[at] = 2 * (toy.next() % 2) as i64 - 1;
                left -= 1;
            }
        }
        toy
    }

    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number in `[-1, 1)`.
    pub fn real(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub fn reals(&mut self) -> Vec<f64> {
        (0..self.params.slots()).map(|_| self.real()).collect()
    }

    /// Draws the next error, with a distribution that is about normal and has the standard deviation 3.2.
    fn noise(&mut self) -> i64 {
        let sum: f64 = (0..12).map(|_| (self.real() + 1.0) / 2.0).sum();
        ((sum - 6.0) * 3.2).round() as i64
    }

    fn noises(&mut self) -> Vec<i64> {
        (0..self.params.n()).map(|_| self.noise()).collect()
    }

    fn modulus(&self, prime: usize) -> Modulus {
        self.params.primes()[prime]
    }

    /// Reduces a small polynomial modulo a prime, and transforms it.
    fn transformed(&self, prime: usize, coefficients: &[i64]) -> Vec<u32> {
        let q = i64::from(self.modulus(prime).q());
        let mut row: Vec<u32> = coefficients.iter().map(|x| x.rem_euclid(q) as u32).collect();
        self.rings[prime].forward(&mut row);
        row
    }

    fn product(&self, prime: usize, a: &[u32], b: &[u32]) -> Vec<u32> {
        a.iter().zip(b).map(|(&a, &b)| self.modulus(prime).mul(a, b)).collect()
    }

    /// Computes `(-a s + e + message, a)` modulo these primes. `a` is expanded from this seed, and `message` returns
    /// the message's row for each prime.
    fn encryption(
        &mut self,
        primes: &[usize],
        seed: &Seed,
        message: impl Fn(&Toy, usize) -> Vec<u32>,
    ) -> [Vec<u32>; 2] {
        let noise = self.noises();
        let (mut bodies, mut masks) = (Vec::new(), Vec::new());
        for &prime in primes {
            let m = self.modulus(prime);
            let mut mask = vec![0; self.params.n()];
            fill_residues(seed, DOMAIN_SWITCHING_KEY, prime as u64, m, &mut mask);
            let product = self.product(prime, &mask, &self.transformed(prime, &self.secret));
            let noise = self.transformed(prime, &noise);
            let message = message(self, prime);
            let body = |i: usize| m.add(m.sub(noise[i], product[i]), message[i]);
            bodies.extend((0..mask.len()).map(body));
            masks.extend(mask);
        }
        [bodies, masks]
    }

    pub fn encrypt(&mut self, values: &[Complex], level: usize, scale: f64) -> ToyCiphertext {
        let rounded = self.encoder.encode(values, scale, self.params.level(level).log_modulus).unwrap();
        let primes = self.params.level(level).primes.clone();
        let seed = self.seed();
        let [bodies, masks] = self.encryption(&primes, &seed, |toy, prime| {
            let mut row = vec![0; toy.params.n()];
            rounded.residues(toy.modulus(prime), &mut row);
            toy.rings[prime].forward(&mut row);
            row
        });
        ToyCiphertext { level, scale, words: [bodies, masks].concat() }
    }

    /// Encrypts real numbers at the level's default scale.
    pub fn encrypt_reals(&mut self, values: &[f64], level: usize) -> ToyCiphertext {
        let values: Vec<Complex> = values.iter().map(|&value| value.into()).collect();
        self.encrypt(&values, level, self.params.level(level).scale)
    }

    pub fn decrypt(&self, ciphertext: &ToyCiphertext) -> Vec<Complex> {
        let n = self.params.n();
        let primes = &self.params.level(ciphertext.level).primes;
        let used = primes.len().min(Centred::PRIMES_MAX);
        let rows: Vec<Vec<u32>> = (0..used)
            .map(|at| {
                let (prime, m) = (primes[at], self.modulus(primes[at]));
                let row = |c: usize| &ciphertext.words[(c * primes.len() + at) * n..][..n];
                let product = self.product(prime, row(1), &self.transformed(prime, &self.secret));
                let mut phase: Vec<u32> = row(0).iter().zip(product).map(|(&c0, product)| m.add(c0, product)).collect();
                self.rings[prime].inverse(&mut phase);
                phase
            })
            .collect();
        let centred = Centred::new(&primes[..used].iter().map(|&prime| self.modulus(prime)).collect::<Vec<_>>());
        let coefficients: Vec<f64> = (0..n)
            .map(|i| centred.number(&rows.iter().map(|row| row[i]).collect::<Vec<_>>()) / ciphertext.scale)
            .collect();
        self.encoder.to_slots(&coefficients)
    }

    fn seed(&mut self) -> Seed {
        let words = [(); 4].map(|()| self.next());
        bytemuck::cast(words)
    }

    /// Makes a part of the evaluation key, with one row for each digit: the mask's seed and the body, `[primes][N]`.
    pub fn seeded_part(&mut self, kind: PartKind, level: usize) -> Vec<(Seed, Vec<u32>)> {
        self.part(kind, level).into_iter().map(|(seed, [bodies, _])| (seed, bodies)).collect()
    }

    /// Like [`Toy::seeded_part`], but the masks are expanded.
    fn part(&mut self, kind: PartKind, level: usize) -> Vec<(Seed, [Vec<u32>; 2])> {
        let n = self.params.n();
        let primes = self.params.key_primes(kind, level);
        let (secret, sparse) = (self.secret.clone(), self.sparse.clone());
        let from = move |toy: &Toy, prime: usize| match kind {
            PartKind::Relinearization => {
                let s = toy.transformed(prime, &secret);
                toy.product(prime, &s, &s)
            }
            PartKind::FromSparse => toy.transformed(prime, &sparse),
            _ => toy.transformed(prime, &secret),
        };
        // For a rotation, the rows are encrypted under another secret: the image of the secret under the automorphism
        // of the inverse element. The rotation's own automorphism, which follows the switch, maps this image back to
        // the secret.
        let turn_back = match kind {
            PartKind::Galois(element) => Some(inverse_element(n, element)),
            _ => None,
        };
        let secret = self.secret.clone();
        if let Some(element) = turn_back {
            self.secret = image(&secret, element);
        } else if kind == PartKind::ToSparse {
            self.secret = self.sparse.clone();
        }
        let rows = self.params.digits(kind, level).into_iter().map(|digit| {
            let seed = self.seed();
            let rows = self.encryption(&primes, &seed, |toy, prime| {
                if !digit.contains(&prime) {
                    return vec![0; n];
                }
                let m = toy.modulus(prime);
                let special = toy.params.primes()[toy.params.special_primes(kind)].iter();
                let p = special.fold(1, |product, q| m.mul(product, q.q() % m.q()));
                from(toy, prime).into_iter().map(|word| m.mul(word, p)).collect()
            });
            (seed, rows)
        });
        let rows = rows.collect();
        self.secret = secret;
        rows
    }

    pub fn load(&mut self, evaluator: &Evaluator, kind: PartKind, level: usize) -> LoadedPart {
        let mut part =
            evaluator.room_for_part(&self.params.digits(kind, level), &self.params.key_primes(kind, level)).unwrap();
        for (digit, (_, [body, mask])) in self.part(kind, level).iter().enumerate() {
            evaluator.load_row(&mut part, digit, [body, mask]);
        }
        part
    }
}

/// Finds the Galois element whose automorphism is the inverse of the automorphism of `element`.
pub fn inverse_element(n: usize, element: u32) -> u32 {
    (1..2 * n as u32).step_by(2).find(|&x| x * element % (2 * n as u32) == 1).expect("odd numbers have inverses")
}

/// Computes the coefficients of `a(X^element)` from the coefficients of `a`.
pub fn image(coefficients: &[i64], element: u32) -> Vec<i64> {
    let n = coefficients.len();
    let mut out = vec![0; n];
    for (i, &x) in coefficients.iter().enumerate() {
        let power = i * element as usize % (2 * n);
        out[power % n] = if power < n { x } else { -x };
    }
    out
}
