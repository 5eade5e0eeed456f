//! Key switching: decomposition, product with a key, division by the special primes (Han, Ki, eprint 2019/688, 3).

use std::sync::Arc;

use super::constants::{Digit, Division};
use super::key::LoadedPart;
use super::scratch::Buffer;
use super::{Evaluator, Rows, RowsMut};
use crate::cpu::automorphism::Permutation;
use crate::cpu::gadget::{self, DigitRow};
use crate::cpu::ntt::{begin_forward, forward_all, inverse_all, inverse_of};
use crate::cpu::{for_each, pointwise};
use crate::error::Result;

/// A polynomial that is decomposed into digits. Each digit is stored in coefficient form, as residues and quotients,
/// ready for conversion to any prime.
pub struct Decomposed<'a> {
    pub(super) digits: Arc<Vec<Digit>>,
    /// For each digit: `[sources + 1][N]` words, which are a row for each prime of the digit and a row of quotients.
    rows: Vec<Buffer<'a>>,
}

/// A value that is added to a polynomial before the division.
pub(super) enum Addend<'a> {
    /// Both polynomials of a ciphertext, as [`pointwise::tensor`] leaves them. They are multiplied by `P` before they
    /// are added.
    Products(Rows<'a>),
    /// Both polynomials of a ciphertext, multiplied by `P` before they are added.
    Both(Rows<'a>),
    /// The first polynomial of a ciphertext. It is multiplied by `P` before it is added.
    First(Rows<'a>),
}

impl Evaluator {
    /// Decomposes the polynomial `x` of this level into the digits of `key`. The rows of `x` are in `[0, 2q)`.
    pub fn decompose(&self, level: usize, key: &LoadedPart, x: Rows<'_>) -> Result<Decomposed<'_>> {
        let n = self.params.n();
        let digits = self.constants.digits(&self.params, level, &key.digits, key.special_count(&self.params));
        let room = |digit| -> Result<(&Digit, Buffer<'_>)> {
            let digit: &Digit = digit;
            Ok((digit, self.pool.rows(digit.sources.len() + 1)?))
        };
        let mut rows = digits.iter().map(room).collect::<Result<Vec<_>>>()?;
        let primes = &self.params.level(level).primes;
        for_each(self.threads, &mut rows, |(digit, rows)| {
            for (&at, row) in digit.sources.iter().zip(rows.chunks_exact_mut(n)) {
                inverse_of(&self.tables[primes[at]], x[at], row);
            }
            digit.conversion.scale(self.isa, n, rows);
            Ok(())
        })?;
        let rows = rows.into_iter().map(|(_, rows)| rows).collect();
        Ok(Decomposed { digits, rows })
    }

    /// Multiplies the digits of the polynomial `x` by a key. The result is
    /// `[2][primes of the level, then the key's special primes][N]` in `[0, 2p)`. Under the key's secret, the phase of the result
    /// is `P x` times the secret that the key switches from.
    pub(super) fn key_product(
        &self,
        level: usize,
        key: &LoadedPart,
        decomposed: &Decomposed<'_>,
        x: Rows<'_>,
    ) -> Result<Buffer<'_>> {
        let (n, first_special) = (self.params.n(), self.params.chain().ciphertext_primes());
        let of_level = self.params.level(level).primes.iter();
        let special = key.primes.iter().filter(|&&prime| prime >= first_special);
        let primes: Vec<usize> = of_level.chain(special).copied().collect();
        let mut out = self.pool.rows(2 * primes.len())?;
        let (first, second) = out.split_at_mut(primes.len() * n);
        let mut targets: Vec<(usize, [&mut [u32]; 2])> =
            first.chunks_exact_mut(n).zip(second.chunks_exact_mut(n)).map(|(b, a)| [b, a]).enumerate().collect();
        for_each(self.threads, &mut targets, |(target, [b, a])| {
            let prime = primes[*target];
            let tables = &self.tables[prime];
            let mut converted = self.pool.rows(decomposed.digits.len())?;
            let mut digits = self.begun_digits((prime, *target), decomposed, x, &mut converted);
            gadget::product(tables, &mut digits, key.of_prime(prime), [b, a]);
            Ok(())
        })?;
        drop(targets);
        Ok(out)
    }

    /// Converts the digits of the polynomial `x` to a prime, and begins their transforms. `target` is the prime's place
    /// among the primes of the level and the special primes. `converted` has a row for each digit.
    pub(super) fn begun_digits<'a>(
        &self,
        (prime, target): (usize, usize),
        decomposed: &Decomposed<'_>,
        x: Rows<'a>,
        converted: &'a mut [u32],
    ) -> Vec<(usize, DigitRow<'a>)> {
        let digits = decomposed.digits.iter().zip(&decomposed.rows).zip(converted.chunks_exact_mut(self.params.n()));
        let begun = |((digit, rows), out): ((&Digit, &Buffer<'_>), &'a mut [u32])| {
            let row = match digit.targets[target] {
                Some(place) => {
                    digit.conversion.convert(self.isa, rows, place, out);
                    begin_forward(&self.tables[prime], out);
                    DigitRow::Begun(out)
                }
                // the digit's own primes need no conversion
                None => DigitRow::Whole(x[target]),
            };
            (digit.number, row)
        };
        digits.map(begun).collect()
    }

    /// Divides each polynomial of `x`, `[polynomials][primes of the input][N]` in `[0, 2q)`, and applies `permutation`
    /// if given. The results are in `[0, q)`.
    ///
    /// # Panics
    /// When a permutation is given and the input lacks a prime of the result.
    pub(super) fn divide(
        &self,
        division: &Division,
        x: Rows<'_>,
        addend: Option<Addend<'_>>,
        permutation: Option<&Permutation>,
        out: RowsMut<'_, '_>,
    ) -> Result<()> {
        let n = self.params.n();
        let (from, to) = (division.from.len(), division.to.len());
        assert!(x.len().is_multiple_of(from) && out.len() == x.len() / from * to, "polynomials of both levels");
        let of_level = division.from.iter().filter(|&&prime| prime < self.params.chain().ciphertext_primes()).count();
        // the addend's row that belongs to this row of the input, and the index of the row's factor in
        // `Remaining::addend`
        let added = |polynomial: usize, at: usize| match &addend {
            Some(Addend::Products(rows)) if at < of_level => Some((rows[polynomial * of_level + at], 1)),
            Some(Addend::Both(rows)) if at < of_level => Some((rows[polynomial * of_level + at], 0)),
            Some(Addend::First(rows)) if polynomial == 0 && at < of_level => Some((rows[at], 0)),
            _ => None,
        };
        let permutes_all = division.to.iter().all(|remaining| remaining.at.is_some());
        assert!(permutation.is_none() || permutes_all, "an automorphism stays at its level");
        let rows = |_| self.pool.rows(division.lost.len() + 1);
        let mut lost: Vec<Buffer<'_>> = (0..x.len() / from).map(rows).collect::<Result<_>>()?;
        for (polynomial, rows) in lost.iter_mut().enumerate() {
            let mut places: Vec<(usize, &mut [u32])> =
                rows.chunks_exact_mut(n).take(division.lost.len()).enumerate().collect();
            for_each(self.threads, &mut places, |(place, row)| {
                let at = division.lost[*place];
                let (prime, input) = (division.from[at], x[polynomial * from + at]);
                match (added(polynomial, at), division.lost_addends[*place]) {
                    (Some((added, 1)), Some(factor)) => {
                        pointwise::combine(self.isa, self.params.primes()[prime], input, (added, factor), None, row);
                        inverse_all(&self.tables[prime], row);
                    }
                    _ => inverse_of(&self.tables[prime], input, row),
                }
                Ok(())
            })?;
            drop(places);
            division.conversion.scale(self.isa, n, rows);
        }
        let mut rows: Vec<(usize, &mut [u32])> = out.iter_mut().map(|row| &mut row[..]).enumerate().collect();
        for_each(self.threads, &mut rows, |(at, out)| {
            let (polynomial, target) = (*at / to, *at % to);
            let remaining = &division.to[target];
            let tables = &self.tables[remaining.prime];
            let mut quotient = self.pool.rows(1)?;
            division.conversion.convert(self.isa, &lost[polynomial], target, &mut quotient);
            match remaining.at {
                Some(at) => {
                    let second = added(polynomial, at).map(|(row, of)| (row, remaining.addend[of]));
                    let first = (x[polynomial * from + at], remaining.factor);
                    begin_forward(tables, &mut quotient);
                    pointwise::combine_begun(tables, &mut quotient, first, second, permutation, out);
                }
                None => {
                    let one = crate::ring::Root::new(tables.modulus(), 1);
                    forward_all(tables, &mut quotient);
                    pointwise::scale(self.isa, tables.modulus(), &quotient, one, out);
                }
            }
            Ok(())
        })
    }
}
