//! Sums of a ciphertext and its images under automorphisms. All images share the ciphertext's decomposition (hoisting;
//! Halevi, Shoup, eprint 2018/244) and one division by the special primes (Bossuat, Mouchet, Troncoso-Pastoriza, Hubaux,
//! eprint 2020/1203, 4).

use super::key::LoadedPart;
use super::switch::Addend;
use super::{Evaluator, Rows, RowsMut};
use crate::cpu::for_each;
use crate::cpu::gadget;
use crate::error::Result;

impl Evaluator {
    /// Computes `out`, the sum of `a` and of `a(X^element)` for each element. Each element comes with its part of the
    /// evaluation key; all parts have the same digits.
    ///
    /// # Panics
    /// When there is no element, or two parts have different digits.
    pub fn add_images(
        &self,
        level: usize,
        images: &[(u32, &LoadedPart)],
        a: Rows<'_>,
        out: RowsMut<'_, '_>,
    ) -> Result<()> {
        let (n, of_level) = (self.params.n(), &self.params.level(level).primes);
        let first_part = images[0].1;
        assert!(images.iter().all(|(_, part)| part.digits == first_part.digits), "parts of the same digits");
        let special = first_part.special_count(&self.params);
        let first_special = self.params.chain().ciphertext_primes();
        let primes: Vec<usize> = of_level.iter().copied().chain(first_special..first_special + special).collect();
        let permutations: Vec<_> =
            images.iter().map(|(element, _)| self.constants.permutation(&self.tables[0], *element)).collect();
        let (first, second) = a.split_at(of_level.len());
        let decomposed = self.decompose(level, first_part, second)?;
        // both polynomials of the sum of the products with the keys, and of the sum of what needs no key
        let mut sums = self.pool.rows(2 * primes.len())?;
        let mut own = self.pool.rows(a.len())?;
        let (sums_0, sums_1) = sums.split_at_mut(primes.len() * n);
        let (own_0, own_1) = own.split_at_mut(of_level.len() * n);
        let mut of_own = own_0.chunks_exact_mut(n).zip(own_1.chunks_exact_mut(n));
        let of_sums = sums_0.chunks_exact_mut(n).zip(sums_1.chunks_exact_mut(n));
        let mut targets: Vec<_> = of_sums.map(|(b, a)| ([b, a], of_own.next())).enumerate().collect();
        for_each(self.threads, &mut targets, |(target, (sums, own))| {
            let (prime, modulus) = (primes[*target], self.params.primes()[primes[*target]]);
            let tables = &self.tables[prime];
            let mut converted = self.pool.rows(decomposed.digits.len())?;
            let mut rows = self.begun_digits((prime, *target), &decomposed, second, &mut converted);
            let mut products = self.pool.rows(2)?;
            let (product_0, product_1) = products.split_at_mut(n);
            for (at, ((_, part), permutation)) in images.iter().zip(&permutations).enumerate() {
                gadget::product(tables, &mut rows, part.of_prime(prime), [&mut *product_0, &mut *product_1]);
                // the first product has finished the transforms of the digits
                rows = rows.into_iter().map(|(number, row)| (number, row.finished())).collect();
                for (sum, product) in sums.iter_mut().zip([&*product_0, &*product_1]) {
                    match at {
                        0 => permutation.apply(product, sum),
                        _ => permutation.add_to(modulus, product, sum),
                    }
                }
            }
            if let Some((own_0, own_1)) = own {
                own_0.copy_from_slice(first[*target]);
                own_1.copy_from_slice(second[*target]);
                permutations.iter().for_each(|permutation| permutation.add_to(modulus, first[*target], own_0));
            }
            Ok(())
        })?;
        drop(targets);
        let division = self.constants.division(&self.params, level, level, special, 1);
        let (sums, own): (Vec<&[u32]>, Vec<&[u32]>) = (sums.chunks_exact(n).collect(), own.chunks_exact(n).collect());
        self.divide(&division, &sums, Some(Addend::Both(&own)), None, out)
    }
}
