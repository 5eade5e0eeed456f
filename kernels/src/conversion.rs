//! The numbers of a base conversion, for every device. [`crate::cpu::base_convert`] has the steps.

use crate::modular::Modulus;

/// Largest number of source primes. With this many primes, the sum of step (3) still fits a word after its reduction.
pub const SOURCES_MAX: usize = 11;

/// The numbers of one conversion.
pub struct Conversion {
    /// The source primes, in order.
    pub sources: Vec<Source>,
    /// The target primes, in order.
    pub targets: Vec<Target>,
}

/// A source prime `a_i`. `A` is the product of all source primes.
pub struct Source {
    /// The prime.
    pub modulus: Modulus,
    /// `(A / a_i)^-1`, times a given factor, modulo the prime.
    pub scale: u32,
    /// `floor(2^(30 + bits) / a_i)`, where `bits` is the number of bits of `a_i`. The high word of this value times
    /// `y_i 2^(30 - bits)` is the fraction of step (2).
    pub fraction: u32,
}

/// A target prime `p`.
pub struct Target {
    /// The prime.
    pub modulus: Modulus,
    /// `(A / a_i) factor` for each source, then `-A factor`, modulo the prime.
    pub factors: Vec<u32>,
}

impl Conversion {
    /// Returns the numbers of a conversion from source primes to target primes. Each source has a factor for its
    /// residues. Each target `p` has a factor in `[0, p)` for its result.
    ///
    /// # Panics
    /// When there are no sources, or more than [`SOURCES_MAX`].
    pub fn new(sources: &[(Modulus, u32)], targets: &[(Modulus, u32)]) -> Conversion {
        assert!((1..=SOURCES_MAX).contains(&sources.len()), "a conversion has 1 to {SOURCES_MAX} sources");
        let product_but = |at: usize, p: Modulus| {
            let others = sources.iter().enumerate().filter(|(other, _)| *other != at);
            others.fold(1 % p.q(), |product, (_, (a, _))| p.mul(product, a.q() % p.q()))
        };
        let source = |(at, &(a, factor)): (usize, &(Modulus, u32))| Source {
            modulus: a,
            scale: a.mul(factor, a.inverse(product_but(at, a))),
            fraction: ((1u64 << (Modulus::BITS_MAX + a.bits())) / u64::from(a.q())) as u32,
        };
        let target = |&(p, factor): &(Modulus, u32)| {
            let of_sources = (0..sources.len()).map(|at| p.mul(product_but(at, p), factor));
            let of_quotient = p.sub(0, p.mul(product_but(usize::MAX, p), factor));
            Target { modulus: p, factors: of_sources.chain([of_quotient]).collect() }
        };
        Conversion {
            sources: sources.iter().enumerate().map(source).collect(),
            targets: targets.iter().map(target).collect(),
        }
    }
}
