//! Sums of ciphertexts, each times a plaintext ([`Weights`]).

use super::{Evaluator, Rows, RowsMut};
use crate::ckks::weights::{Reduction, Weights};
use crate::cpu::automorphism::swap_order;
use crate::cpu::ntt::forward_all;
use crate::cpu::{for_each, pointwise};
use crate::error::Result;

impl Evaluator {
    /// Computes `out`, the sum of `a` times its plaintext over all terms. The ciphertexts have the same level and the
    /// same scale, and so have the plaintexts. The rows of a plaintext exist only while a prime of the level needs
    /// them.
    pub fn weighted_sum(&self, level: usize, terms: &[(Rows<'_>, &Weights)], out: RowsMut<'_, '_>) -> Result<()> {
        let (n, primes) = (self.params.n(), &self.params.level(level).primes);
        assert!(terms.iter().all(|(_, weights)| weights.polynomial_size() == n), "plaintexts of the degree");
        let (first, second) = out.split_at_mut(primes.len());
        let mut rows: Vec<(usize, [&mut [u32]; 2])> =
            first.iter_mut().zip(second).map(|(first, second)| [&mut first[..], &mut second[..]]).enumerate().collect();
        for_each(self.threads, &mut rows, |(at, [first, second])| {
            let mut plains = self.pool.rows(terms.len())?;
            let reduction = Reduction::new(self.params.primes()[primes[*at]]);
            for ((_, weights), row) in terms.iter().zip(plains.chunks_exact_mut(n)) {
                self.transformed(primes[*at], &reduction, weights, row)?;
            }
            let products = terms.iter().zip(plains.chunks_exact(n));
            let products: Vec<(&[u32], [&[u32]; 2])> =
                products.map(|((a, _), plain)| (plain, [a[*at], a[primes.len() + *at]])).collect();
            pointwise::multiply_add(self.isa, self.params.primes()[primes[*at]], &products, [first, second]);
            Ok(())
        })
    }

    /// Writes the residues of a plaintext modulo one prime, transformed, to `row`.
    fn transformed(&self, prime: usize, reduction: &Reduction, weights: &Weights, row: &mut [u32]) -> Result<()> {
        let (tables, modulus) = (&self.tables[prime], self.params.primes()[prime]);
        let [high, low] = weights.words();
        let (high, low) = ((high, reduction.high_unit), (low, reduction.low_unit));
        let mut buffer = self.pool.rows(1)?;
        let offsets = &mut buffer[..high.0.len()];
        offsets.fill(reduction.offset);
        if weights.gap() == 1 {
            pointwise::combine(self.isa, modulus, offsets, high, Some(low), row);
            forward_all(tables, row);
            row.iter_mut().for_each(|word| *word = modulus.reduce_once(*word));
            return Ok(());
        }
        // a polynomial in X^gap has the same value at `gap` neighbours in the order of `Ring::forward`
        let stored = &mut row[..high.0.len()];
        pointwise::combine(self.isa, modulus, offsets, high, Some(low), stored);
        tables.ring().forward_spaced(stored);
        for (block, &value) in buffer.chunks_exact_mut(weights.gap()).zip(stored.iter()) {
            block.fill(value);
        }
        swap_order(tables, &buffer, row);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::ckks::cpu::{Evaluator, Rows};
    use crate::ckks::weights::{STORED_MIN, Weights};
    use crate::ckks::{Params, ParamsLiteral, SecurityLevel};
    use crate::cpu::simd::Isa;
    use crate::ring::Ring;
    use crate::ring::tests::words;

    /// A coefficient of about this many bits, or one at the end of the range.
    fn coefficient(seed: u32) -> i64 {
        let [high, low] = [1, 2].map(|part| words(1, 3 * seed + part, u32::MAX)[0]);
        let whole = (i64::from(high) << 32 | i64::from(low)) >> 1;
        match seed % 7 {
            0 => 0,
            1 => (1 << 62) - 1,
            2 => -(1 << 62),
            bits => (whole - (1 << 62)) >> (8 * bits),
        }
    }

    #[test]
    fn a_weighted_sum_is_the_sum_of_the_products_with_every_plaintext() {
        for (poly_degree, scale_bits, max_depth) in [(64, 30, 2), (256, 40, 2), (4096, 45, 1)] {
            let (n, security) = (poly_degree, SecurityLevel::Testing);
            let literal = ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: false };
            let params = Params::new(literal).unwrap();
            let gaps: Vec<usize> = (0..).map(|bits| 1 << bits).take_while(|gap| n / gap >= STORED_MIN).collect();
            let plain = |term: usize| {
                let gap = gaps[term % gaps.len()];
                let coefficients: Vec<i64> = (0..n / gap).map(|i| coefficient((31 * term + i) as u32)).collect();
                Weights::of(&coefficients, gap)
            };
            let weights: Vec<Weights> = (0..14).map(plain).collect();
            for (threads, isa) in (1..).zip(Isa::available()) {
                let evaluator = Evaluator::new(&params, isa, threads);
                for (level, count) in [(0, 1), (max_depth as usize, 3), (1, 14)] {
                    let primes = &params.level(level).primes;
                    let row = |term: usize, at: usize| {
                        words(n, (40 * term + at) as u32, params.primes()[primes[at % primes.len()]].q())
                    };
                    let inputs: Vec<Vec<Vec<u32>>> =
                        (0..count).map(|term| (0..2 * primes.len()).map(|at| row(term, at)).collect()).collect();
                    let rows: Vec<Vec<&[u32]>> =
                        inputs.iter().map(|input| input.iter().map(|row| &row[..]).collect()).collect();
                    let terms: Vec<(Rows<'_>, &Weights)> = rows.iter().map(|rows| &rows[..]).zip(&weights).collect();
                    let mut out = vec![vec![7; n]; 2 * primes.len()];
                    let mut written: Vec<&mut [u32]> = out.iter_mut().map(|row| &mut row[..]).collect();
                    evaluator.weighted_sum(level, &terms, &mut written).unwrap();
                    for (at, found) in out.iter().enumerate() {
                        let modulus = params.primes()[primes[at % primes.len()]];
                        let ring = Ring::new(modulus, n);
                        let mut expected = vec![0; n];
                        for (rows, weights) in &terms {
                            let mut swapped = vec![0; n];
                            evaluator.swap_order(&weights.row(&ring), &mut swapped);
                            for (sum, (&word, &plain)) in expected.iter_mut().zip(rows[at].iter().zip(&swapped)) {
                                *sum = modulus.add(*sum, modulus.mul(word, plain));
                            }
                        }
                        assert!(*found == expected, "N {n}, {isa:?}, level {level}, {count} terms, row {at}");
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "below 2^62")]
    fn coefficients_of_63_bits_are_refused() {
        Weights::of(&[1 << 62; STORED_MIN], 1);
    }
}
