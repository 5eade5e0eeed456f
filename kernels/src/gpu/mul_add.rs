//! Launch of `mul_add`: adds products of residues to sums, for each limb of each item of a batch.

use super::source::{Text, text};
use super::stem::{Compiler, Stem, threads};
use super::{Bind, Gpu, LaunchOf, ViewOf};
use crate::error::Result;
use crate::modular::Modulus;

const MUL_ADD: Text = text!("mul_add");

/// Converts primes to the form of the kernels: `[limbs][2]` words, each a prime and its inverse modulo 2^32.
pub fn primes(primes: &[Modulus]) -> Vec<u32> {
    primes.iter().flat_map(|prime| [prime.q(), prime.montgomery_inverse()]).collect()
}

/// The kernels of the stem `mul_add`, compiled for one ring degree.
pub struct MulAdd<G: Gpu> {
    stem: Stem<G>,
    /// Number of groups that share a row.
    row_groups: u32,
    batch_groups_max: u32,
}

impl<G: Gpu> MulAdd<G> {
    /// Compiles the kernels for rows of `polynomial_size` words.
    pub fn new(gpu: &G, compiler: &Compiler<G>, polynomial_size: usize) -> Result<Self> {
        let threads = threads(gpu.properties()).min(polynomial_size as u32);
        let stem = compiler.stem(gpu, "mul_add", &[&MUL_ADD], &[("N", polynomial_size as u32)], threads, &[])?;
        let row_groups = (polynomial_size as u32).div_ceil(threads);
        Ok(MulAdd { stem, row_groups, batch_groups_max: gpu.properties().groups_max[2] })
    }

    /// Makes a launch that computes `sums += x y` modulo each limb's prime. `sums` and `x` are `[batch][limbs][N]`
    /// words in `[0, q)`; `y` is `[limbs][N]` residues multiplied by 2^32; `primes` comes from [`primes`]. `None` for
    /// an empty batch or no limbs.
    pub fn run<'a>(
        &'a self,
        [sums, x, y, primes]: [ViewOf<'a, G>; 4],
        limbs: usize,
        batch: usize,
    ) -> Option<LaunchOf<'a, G>> {
        let groups = [self.row_groups, limbs as u32, (batch as u32).min(self.batch_groups_max)];
        let bind = [Bind::write(sums), Bind::read(x), Bind::read(y), Bind::read(primes)];
        let grid = self.stem.grid(groups);
        (!groups.contains(&0)).then(|| self.stem.launch_grid("mul_add", grid, bind, [batch as u32]))
    }
}
