//! Arithmetic on the CPU: rows of residues in the reading order of [`crate::cpu::ntt`].
//!
//! A ciphertext has rows `[2][primes of its level][N]`. Every instruction set computes the same words, only in another
//! order.

mod backend;
mod constants;
mod images;
mod key;
mod scratch;
mod switch;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod toy;
mod weighted_sum;

use std::sync::Arc;

use constants::Constants;
pub use key::LoadedPart;
use scratch::Pool;
pub use switch::Decomposed;

use super::divisions::Raised;
use super::params::Params;
use crate::cpu::automorphism::swap_order;
use crate::cpu::ntt::{NttTables, forward_all, inverse_of};
use crate::cpu::simd::Isa;
use crate::cpu::{for_each, pointwise};
use crate::error::Result;
use crate::modular::Modulus;
use crate::ring::{Ring, Root};

fn residue(modulus: Modulus, c: i128) -> u32 {
    c.rem_euclid(i128::from(modulus.q())) as u32
}

/// Rows of a polynomial or a ciphertext.
pub type Rows<'a> = &'a [&'a [u32]];
/// Mutable rows, for results.
pub type RowsMut<'a, 'b> = &'a mut [&'b mut [u32]];

/// The rows of both polynomials of a ciphertext for one prime.
fn both<'a>(rows: Rows<'a>, at: usize) -> [&'a [u32]; 2] {
    [rows[at], rows[rows.len() / 2 + at]]
}

/// Evaluates operations under one parameter set.
pub struct Evaluator {
    params: Params,
    isa: Isa,
    threads: usize,
    /// One table for each prime.
    tables: Vec<NttTables>,
    constants: Constants,
    pool: Pool,
}

impl Evaluator {
    /// Makes an evaluator for these parameters, this instruction set and this number of threads.
    ///
    /// # Panics
    /// When this CPU lacks the instruction set.
    pub fn new(params: &Params, isa: Isa, threads: usize) -> Evaluator {
        let ring = |&prime| NttTables::new(isa, Arc::new(Ring::new(prime, params.n())));
        let tables: Vec<NttTables> = params.primes().iter().map(ring).collect();
        Evaluator {
            params: params.clone(),
            // all tables have the same instruction set; at small degrees, the set is narrower than the requested one
            isa: tables[0].isa(),
            threads: if cfg!(feature = "parallel") { threads.max(1) } else { 1 },
            tables,
            constants: Constants::default(),
            pool: Pool::new(params.n()),
        }
    }

    /// Returns the most bytes that an evaluator's tables take: for each prime the roots of both directions, once for
    /// the plain transform and once for the transform on vectors, with their companions; and the permutations. The
    /// constants of divisions and digits take less than a hundredth of these bytes. Rows for intermediate results are
    /// not counted.
    pub fn tables_bytes(params: &Params) -> u64 {
        let root_bytes = size_of::<Root>();
        let of_prime = 4 * params.n() * root_bytes;
        (params.primes().len() * of_prime + constants::permutations_bytes_max(params.n())) as u64
    }

    /// Counts the bytes of the tables and of the cached permutations.
    #[cfg(test)]
    fn bytes(&self) -> u64 {
        self.tables.iter().map(NttTables::bytes).sum::<u64>() + self.constants.permutations_bytes()
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Reorders a row from the order of [`Ring::forward`] to reading order, or back.
    pub fn swap_order(&self, row: &[u32], out: &mut [u32]) {
        swap_order(&self.tables[0], row, out);
    }

    /// Computes `out = a + b`. Both ciphertexts have the same level and the same scale.
    pub fn add(&self, level: usize, a: Rows<'_>, b: Rows<'_>, out: RowsMut<'_, '_>) -> Result<()> {
        self.each_row(level, out, |prime, at, out| {
            pointwise::add(self.isa, self.params.primes()[prime], a[at], b[at], out);
        })
    }

    /// Computes `out = a - b`. Both ciphertexts have the same level and the same scale.
    pub fn sub(&self, level: usize, a: Rows<'_>, b: Rows<'_>, out: RowsMut<'_, '_>) -> Result<()> {
        self.each_row(level, out, |prime, at, out| {
            pointwise::sub(self.isa, self.params.primes()[prime], a[at], b[at], out);
        })
    }

    /// Computes `out = a + plain`. The polynomial `plain` has the ciphertext's scale and is added to the ciphertext's
    /// first polynomial.
    pub fn add_plain(&self, level: usize, a: Rows<'_>, plain: Rows<'_>, out: RowsMut<'_, '_>) -> Result<()> {
        self.each_row(level, out, |prime, at, out| match plain.get(at) {
            Some(plain) => pointwise::add(self.isa, self.params.primes()[prime], a[at], plain, out),
            None => out.copy_from_slice(a[at]),
        })
    }

    /// Computes `out = a plain`. The scale of the result is the product of the scales of `a` and `plain`.
    pub fn multiply_plain(&self, level: usize, a: Rows<'_>, plain: Rows<'_>, out: RowsMut<'_, '_>) -> Result<()> {
        self.each_row(level, out, |prime, at, out| {
            pointwise::multiply(self.isa, self.params.primes()[prime], a[at], plain[at % plain.len()], out);
        })
    }

    /// Computes `out = a c` for a whole number `c`.
    pub fn multiply_integer(&self, level: usize, a: Rows<'_>, c: i128, out: RowsMut<'_, '_>) -> Result<()> {
        self.each_row(level, out, |prime, at, out| {
            let modulus = self.params.primes()[prime];
            pointwise::scale(self.isa, modulus, a[at], Root::new(modulus, residue(modulus, c)), out);
        })
    }

    /// Computes `out = a + c` for a whole number `c`, which stands for the number `c / scale`. A constant polynomial
    /// has the same value at every root, so the number is added to every slot.
    pub fn add_integer(&self, level: usize, a: Rows<'_>, c: i128, out: RowsMut<'_, '_>) -> Result<()> {
        let first = self.params.level(level).primes.len();
        self.each_row(level, out, |prime, at, out| {
            let modulus = self.params.primes()[prime];
            out.copy_from_slice(a[at]);
            if at < first {
                let c = residue(modulus, c);
                out.iter_mut().for_each(|word| *word = modulus.add(*word, c));
            }
        })
    }

    /// Brings a ciphertext from `level` to the lower level `to`: multiplies it by `factor`, then divides it by
    /// [`crate::ckks::Chain::divisor`]. The scale is multiplied and divided in the same way.
    pub fn rescale(&self, level: usize, to: usize, factor: u128, a: Rows<'_>, out: RowsMut<'_, '_>) -> Result<()> {
        let division = self.constants.division(&self.params, level, to, 0, factor);
        self.divide(&division, a, None, None, out)
    }

    /// Computes `out = a b`. The level of the result, `to`, is either the level of the factors or the level below. If
    /// `to` is the level below, one division both relinearizes and rescales.
    pub fn multiply(
        &self,
        level: usize,
        to: usize,
        factors: [Rows<'_>; 2],
        relinearization: &LoadedPart,
        out: RowsMut<'_, '_>,
    ) -> Result<()> {
        self.sum_of_products(level, to, &[factors], None, relinearization, out)
    }

    /// Computes `out`, the sum of `a b` over all pairs, plus the ciphertext `plus`, with one relinearization. The level of the
    /// result is as for [`Evaluator::multiply`].
    pub fn sum_of_products(
        &self,
        level: usize,
        to: usize,
        pairs: &[[Rows<'_>; 2]],
        plus: Option<Rows<'_>>,
        relinearization: &LoadedPart,
        out: RowsMut<'_, '_>,
    ) -> Result<()> {
        let (primes, n) = (&self.params.level(level).primes, self.params.n());
        let count = primes.len();
        let mut products = self.pool.rows(3 * count)?;
        let mut rows: Vec<&mut [u32]> = products.chunks_exact_mut(n).collect();
        let mut of_primes: Vec<(usize, [&mut [u32]; 3])> = Vec::with_capacity(count);
        let mut last = rows.split_off(2 * count).into_iter();
        let mut middle = rows.split_off(count).into_iter();
        for (at, first) in rows.into_iter().enumerate() {
            of_primes.push((at, [first, middle.next().expect("a row"), last.next().expect("a row")]));
        }
        for_each(self.threads, &mut of_primes, |(at, out)| {
            let modulus = self.params.primes()[primes[*at]];
            for (pair, [a, b]) in pairs.iter().enumerate() {
                let (a, b, [d0, d1, d2]) = (both(a, *at), both(b, *at), &mut *out);
                if pair == 0 {
                    pointwise::tensor(self.isa, modulus, a, b, [d0, d1, d2]);
                } else {
                    pointwise::add_tensor(self.isa, modulus, a, b, [d0, d1, d2]);
                }
            }
            if let Some(plus) = plus {
                // the products are divided by 2^32 so far
                let divided = Root::new(modulus, modulus.inverse(modulus.pow(2 % modulus.q(), 32)));
                for (sum, row) in out.iter_mut().zip(both(plus, *at)) {
                    pointwise::add_scaled(self.isa, modulus, row, divided, sum);
                }
            }
            Ok(())
        })?;
        drop(of_primes);
        let rows: Vec<&[u32]> = products.chunks_exact(n).collect();
        let decomposed = self.decompose(level, relinearization, &rows[2 * count..])?;
        let switched = self.key_product(level, relinearization, &decomposed, &rows[2 * count..])?;
        let special = relinearization.special_count(&self.params);
        let division = self.constants.division(&self.params, level, to, special, 1);
        let switched: Vec<&[u32]> = switched.chunks_exact(n).collect();
        self.divide(&division, &switched, Some(switch::Addend::Products(&rows[..2 * count])), None, out)
    }

    /// Raises a ciphertext of level 0 to the highest level of the chain: its residues are read as the whole numbers
    /// nearest to 0.
    pub fn raise(&self, a: Rows<'_>, out: RowsMut<'_, '_>) -> Result<()> {
        let (n, params) = (self.params.n(), &self.params);
        let bottom = &params.level(0).primes;
        let raise = self.constants.raise(params);
        let mut sources = Vec::new();
        for polynomial in a.chunks_exact(bottom.len()) {
            let mut rows = self.pool.rows(bottom.len() + 1)?;
            for ((&prime, source), row) in bottom.iter().zip(polynomial).zip(rows.chunks_exact_mut(n)) {
                inverse_of(&self.tables[prime], source, row);
            }
            raise.conversion.scale(self.isa, n, &mut rows);
            sources.push(rows);
        }
        let mut rows: Vec<(usize, &mut [u32])> = out.iter_mut().map(|row| &mut row[..]).enumerate().collect();
        for_each(self.threads, &mut rows, |(at, out)| {
            let (polynomial, place) = (*at / raise.to.len(), *at % raise.to.len());
            let Raised { prime, at } = raise.to[place];
            match at {
                Some(same) => out.copy_from_slice(a[polynomial * bottom.len() + same]),
                None => {
                    raise.conversion.convert(self.isa, &sources[polynomial], place, out);
                    forward_all(&self.tables[prime], out);
                    let modulus = params.primes()[prime];
                    out.iter_mut().for_each(|word| *word = modulus.reduce_once(*word));
                }
            }
            Ok(())
        })
    }

    /// Computes `out = a(X^element)`. `key` is the part of the evaluation key for this element.
    pub fn automorphism(
        &self,
        level: usize,
        element: u32,
        a: Rows<'_>,
        key: &LoadedPart,
        out: RowsMut<'_, '_>,
    ) -> Result<()> {
        let decomposed = self.decompose(level, key, &a[a.len() / 2..])?;
        self.automorphism_of(level, element, a, &decomposed, key, out)
    }

    /// Like [`Evaluator::automorphism`], but for a ciphertext that is already decomposed. Several automorphisms of one
    /// ciphertext share its decomposition (hoisting; Halevi, Shoup, eprint 2018/244).
    pub fn automorphism_of(
        &self,
        level: usize,
        element: u32,
        a: Rows<'_>,
        decomposed: &Decomposed<'_>,
        key: &LoadedPart,
        out: RowsMut<'_, '_>,
    ) -> Result<()> {
        let n = self.params.n();
        let (first, second) = a.split_at(a.len() / 2);
        let switched = self.key_product(level, key, decomposed, second)?;
        let switched: Vec<&[u32]> = switched.chunks_exact(n).collect();
        let division = self.constants.division(&self.params, level, level, key.special_count(&self.params), 1);
        let permutation = self.constants.permutation(&self.tables[0], element);
        self.divide(&division, &switched, Some(switch::Addend::First(first)), Some(&permutation), out)
    }

    /// Calls `work(prime, at, row)` for each row of the ciphertext `out`, where `prime` is the index of the row's prime
    /// and `at` is the index of the row.
    fn each_row(
        &self,
        level: usize,
        out: RowsMut<'_, '_>,
        work: impl Fn(usize, usize, &mut [u32]) + Send + Sync,
    ) -> Result<()> {
        let primes = &self.params.level(level).primes;
        let mut rows: Vec<(usize, &mut [u32])> = out.iter_mut().map(|row| &mut row[..]).enumerate().collect();
        for_each(self.threads, &mut rows, |(at, out)| {
            work(primes[*at % primes.len()], *at, out);
            Ok(())
        })
    }
}
