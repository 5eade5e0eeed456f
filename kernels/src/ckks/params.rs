//! Parameters of arithmetic: the literal that a client names, and the primes and digits derived from it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex};

use super::chain::{Chain, Level, Wanted};
use super::stages::Stages;
use crate::modular::Modulus;
use crate::security::{LOG_SPARSE_MAX, log_modulus_max, security_bits, sparse_security_bits};

/// Every `poly_degree` of the specification.
pub const POLY_DEGREES: [usize; 6] = [64, 256, 4096, 8192, 16384, 32768];
/// Every `scale_bits` of the specification.
pub const SCALE_BITS: std::ops::RangeInclusive<u32> = 10..=50;
/// The degrees that support bootstrapping. The first two are for testing. At the degrees between, the levels of
/// bootstrapping leave no secure modulus.
pub const BOOTSTRAP_DEGREES: [usize; 3] = [64, 256, 32768];
/// Largest `scale_bits` with bootstrapping. A bootstrap would not keep the precision of a larger scale.
pub const BOOTSTRAP_SCALE_BITS_MAX: u32 = 40;
/// Every `max_depth` of the specification.
pub const MAX_DEPTHS: std::ops::RangeInclusive<u32> = 1..=14;
/// Smallest scale in use, in bits. A smaller `scale_bits` is raised to this number, because too few short primes exist,
/// and because smaller scales carry no precision.
pub const SCALE_BITS_MIN: u32 = 25;

/// The security level that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecurityLevel {
    /// No particular security is required.
    Testing,
    /// 128 bits.
    Bits128,
    /// 192 bits.
    Bits192,
    /// 256 bits.
    Bits256,
}

impl SecurityLevel {
    /// All levels, in the order of their codes in containers.
    pub const ALL: [SecurityLevel; 4] =
        [SecurityLevel::Testing, SecurityLevel::Bits128, SecurityLevel::Bits192, SecurityLevel::Bits256];

    /// The level's name in the specification.
    pub fn name(self) -> &'static str {
        match self {
            SecurityLevel::Testing => "testing",
            SecurityLevel::Bits128 => "128-bit",
            SecurityLevel::Bits192 => "192-bit",
            SecurityLevel::Bits256 => "256-bit",
        }
    }

    /// Finds the level with this name.
    pub fn from_name(name: &str) -> Option<SecurityLevel> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// The level's code in containers.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Finds the level with this code.
    pub fn from_code(code: u8) -> Option<SecurityLevel> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The bits of security that the level asks for.
    pub fn bits(self) -> Option<u32> {
        match self {
            SecurityLevel::Testing => None,
            SecurityLevel::Bits128 => Some(128),
            SecurityLevel::Bits192 => Some(192),
            SecurityLevel::Bits256 => Some(256),
        }
    }
}

/// The parameters that a client names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParamsLiteral {
    /// `N`: one of [`POLY_DEGREES`].
    pub poly_degree: usize,
    /// Bits of the scale: one of [`SCALE_BITS`].
    pub scale_bits: u32,
    /// Number of multiplications that are possible one after another: one of [`MAX_DEPTHS`].
    pub max_depth: u32,
    /// The security level that the parameters must reach.
    pub security: SecurityLevel,
    /// Whether the chain includes the levels that bootstrapping takes.
    pub bootstrap: bool,
}

/// The reason why parameters are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// A field is out of its range.
    #[error("{0}")]
    OutOfRange(String),
    /// The parameters do not reach the requested security (readings K1).
    #[error("{}", Self::insufficient(*.security_bits, *.log_modulus, *.depth_max, *.degree_min))]
    InsufficientSecurity {
        /// Bits of security of the best chain for these parameters, if the modulus had no bound.
        security_bits: u32,
        /// `log2 QP` of that chain, rounded up.
        log_modulus: u32,
        /// The largest secure depth at this degree, scale and security level; `None` if even depth 1 is too deep.
        depth_max: Option<u32>,
        /// The smallest secure degree for this scale, depth and security level.
        degree_min: Option<usize>,
    },
}

impl ParamsError {
    fn insufficient(bits: u32, log_modulus: u32, depth: Option<u32>, degree: Option<usize>) -> String {
        let depth = match depth {
            Some(depth) => format!("the largest max_depth at this poly_degree and scale_bits is {depth}"),
            None => "no max_depth is secure at this poly_degree and scale_bits".into(),
        };
        let degree = match degree {
            Some(degree) => format!("the smallest poly_degree for this max_depth is {degree}"),
            None => "no poly_degree is large enough for this max_depth".into(),
        };
        format!("these parameters have {bits} bits of security ({log_modulus} bits of modulus); {depth}; {degree}")
    }
}

/// The kind of a part of an evaluation key: the secrets that the part switches between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PartKind {
    /// From `s^2` to `s`; used after a product.
    Relinearization,
    /// From `s` to its image under the inverse of this Galois element, an odd number below `2N`. The automorphism
    /// follows the switch.
    Galois(u32),
    /// From `s` to the sparse secret of bootstrapping.
    ToSparse,
    /// From the sparse secret of bootstrapping to `s`.
    FromSparse,
}

/// Checked parameters. Clones are cheap. Two values are equal when their literals are equal.
#[derive(Clone)]
pub struct Params(Arc<Inner>);

struct Inner {
    literal: ParamsLiteral,
    chain: Chain,
    stages: Option<Stages>,
    log_modulus: f64,
    /// How many special primes a part to the sparse secret has.
    sparse_special: usize,
    security_bits: u32,
}

impl PartialEq for Params {
    fn eq(&self, other: &Params) -> bool {
        self.0.literal == other.0.literal
    }
}

impl Eq for Params {}

impl std::fmt::Debug for Params {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.literal.fmt(f)
    }
}

/// Cached results of [`Params::new`].
type Remembered = HashMap<ParamsLiteral, Result<Params, ParamsError>>;
/// Largest number of literals whose results are cached. A result takes some kilobytes.
const REMEMBERED_MAX: usize = 1024;

impl Params {
    /// Derives the parameters of a literal. The result is the same on every machine. The first call for a literal takes
    /// up to some tenths of a second; later calls use the cache.
    ///
    /// # Errors
    /// When a field is out of range, or the parameters do not reach the security level.
    pub fn new(literal: ParamsLiteral) -> Result<Params, ParamsError> {
        static REMEMBERED: LazyLock<Mutex<Remembered>> = LazyLock::new(Mutex::default);
        check(&literal)?;
        let remembered = || REMEMBERED.lock().expect("no thread panics with the lock");
        if let Some(found) = remembered().get(&literal) {
            return found.clone();
        }
        let found = Params::search(literal);
        let mut remembered = remembered();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(literal, found.clone());
        found
    }

    /// Like [`Params::new`], but for any degree, and without the cache.
    pub(in crate::ckks) fn search(literal: ParamsLiteral) -> Result<Params, ParamsError> {
        let found = match literal.security.bits() {
            // a chain with 128 bits of security if one exists, otherwise the best chain without regard to security
            None => chain(&literal, Some(SecurityLevel::Bits128)).or_else(|| chain(&literal, None)),
            Some(_) => chain(&literal, Some(literal.security)),
        };
        let (chain, stages) = found.ok_or_else(|| insufficient(&literal))?;
        let log_modulus = chain.log_modulus();
        let sparse_special = chain.special_at_least(chain.levels[0].log_modulus);
        let mut security_bits = security_bits(literal.poly_degree, log_modulus);
        if literal.bootstrap {
            let log_sparse = chain.levels[0].log_modulus + chain.log_special_of(sparse_special);
            security_bits = security_bits.min(sparse_security_bits(literal.poly_degree, log_sparse));
        }
        if literal.security.bits().is_some_and(|wanted| security_bits < wanted) {
            return Err(insufficient(&literal));
        }
        Ok(Params(Arc::new(Inner { literal, chain, stages, log_modulus, sparse_special, security_bits })))
    }

    /// The literal of these parameters.
    pub fn literal(&self) -> ParamsLiteral {
        self.0.literal
    }

    /// `N`: the number of coefficients of a polynomial.
    pub fn n(&self) -> usize {
        self.0.literal.poly_degree
    }

    /// `N / 2`: the number of slots of a plaintext.
    pub fn slots(&self) -> usize {
        self.n() / 2
    }

    /// The level of fresh ciphertexts.
    pub fn level_max(&self) -> usize {
        self.0.literal.max_depth as usize
    }

    /// The highest level of the chain. With bootstrapping, this level is above the level of fresh ciphertexts.
    pub fn raised_level(&self) -> usize {
        self.0.chain.levels.len() - 1
    }

    /// The primes of each level.
    pub fn chain(&self) -> &Chain {
        &self.0.chain
    }

    /// The sizes of the bootstrap's levels; `None` without bootstrapping.
    pub(in crate::ckks) fn stages(&self) -> Option<Stages> {
        self.0.stages
    }

    /// All primes, the special ones last.
    pub fn primes(&self) -> &[Modulus] {
        &self.0.chain.primes
    }

    /// How many primes are special.
    pub fn special_count(&self) -> usize {
        self.0.chain.special
    }

    /// The primes and scale of a level.
    ///
    /// # Panics
    /// When `level` is above [`Params::raised_level`].
    pub fn level(&self, level: usize) -> &Level {
        &self.0.chain.levels[level]
    }

    /// `log2` of the product of all primes.
    pub fn log_modulus(&self) -> f64 {
        self.0.log_modulus
    }

    /// Bits of security of keys of these parameters (readings K17); 0 at the testing degrees. With bootstrapping, the
    /// least of the secret key's bits and those of the sparse secret.
    pub fn security_bits(&self) -> u32 {
        self.0.security_bits
    }

    /// Bits of the scale in use: the requested number, but at least [`SCALE_BITS_MIN`].
    pub fn scale_bits_effective(&self) -> u32 {
        effective(self.0.literal.scale_bits)
    }

    /// The indices of the special primes of a part of this kind. A part to the sparse secret has only as many as make a
    /// product that is at least the modulus of level 0, because a sparse secret is secure under a small modulus only.
    pub fn special_primes(&self, kind: PartKind) -> Range<usize> {
        let count = if kind == PartKind::ToSparse { self.0.sparse_special } else { self.special_count() };
        let first = self.chain().ciphertext_primes();
        first..first + count
    }

    /// `log2` of the product of the special primes of a part of this kind.
    pub fn log_special(&self, kind: PartKind) -> f64 {
        self.chain().log_special_of(self.special_primes(kind).len())
    }

    /// Lists the indices of the primes of a part of this kind and level: the primes of ciphertexts up to the level, then
    /// the part's special primes.
    pub fn key_primes(&self, kind: PartKind, level: usize) -> Vec<usize> {
        self.chain().primes_up_to(level).into_iter().chain(self.special_primes(kind)).collect()
    }

    /// Lists the digits of a key of this kind and level, each as indices of primes. The key has one row for each digit.
    /// A relinearization key may have wider digits than a rotation key, because a product is divided by its scale after
    /// the switch.
    pub fn digits(&self, kind: PartKind, level: usize) -> Vec<Vec<usize>> {
        let excess = match kind {
            PartKind::Relinearization => super::chain::product_excess_bits(self.scale_bits_effective()),
            _ => super::chain::ROTATION_EXCESS_BITS,
        };
        self.chain().digits(level, self.log_special(kind) + excess)
    }
}

/// Returns the largest depth at which the security of `literal` is reached with its other fields; `None` if even depth 1
/// is too deep.
pub fn depth_max(literal: ParamsLiteral) -> Option<u32> {
    MAX_DEPTHS.rev().find(|&max_depth| is_secure(&ParamsLiteral { max_depth, ..literal }))
}

/// Returns the smallest degree at which the security of `literal` is reached with its other fields.
pub fn degree_min(literal: ParamsLiteral) -> Option<usize> {
    POLY_DEGREES.into_iter().find(|&poly_degree| is_secure(&ParamsLiteral { poly_degree, ..literal }))
}

fn is_secure(literal: &ParamsLiteral) -> bool {
    check(literal).is_ok() && chain(literal, Some(literal.security)).is_some()
}

fn effective(scale_bits: u32) -> u32 {
    scale_bits.max(SCALE_BITS_MIN)
}

fn check(literal: &ParamsLiteral) -> Result<(), ParamsError> {
    let ParamsLiteral { poly_degree, scale_bits, max_depth, .. } = *literal;
    let out_of_range = |why: String| Err(ParamsError::OutOfRange(why));
    if !POLY_DEGREES.contains(&poly_degree) {
        return out_of_range(format!("poly_degree must be one of {POLY_DEGREES:?}, not {poly_degree}"));
    }
    if !SCALE_BITS.contains(&scale_bits) {
        return out_of_range(format!("scale_bits must be 10 to 50, not {scale_bits}"));
    }
    if !MAX_DEPTHS.contains(&max_depth) {
        return out_of_range(format!("max_depth must be 1 to 14, not {max_depth}"));
    }
    if literal.bootstrap && !BOOTSTRAP_DEGREES.contains(&poly_degree) {
        return out_of_range(format!(
            "bootstrapping needs poly_degree 32768, or 64 or 256 for testing, not {poly_degree}: the degrees between are too \
             small for the levels of bootstrapping at 128 bits of security"
        ));
    }
    if literal.bootstrap && scale_bits > BOOTSTRAP_SCALE_BITS_MAX {
        return out_of_range(format!(
            "bootstrapping needs scale_bits of at most {BOOTSTRAP_SCALE_BITS_MAX}, not {scale_bits}"
        ));
    }
    Ok(())
}

/// Finds the best chain that reaches `security`, and the sizes of its levels of bootstrapping. If `security` is `None`,
/// security is ignored.
fn chain(literal: &ParamsLiteral, security: Option<SecurityLevel>) -> Option<(Chain, Option<Stages>)> {
    let scale_bits = effective(literal.scale_bits);
    let log_modulus_max = match security.and_then(SecurityLevel::bits) {
        Some(bits) => Some(f64::from(log_modulus_max(literal.poly_degree, bits)?) + 0.05),
        None => None,
    };
    let search = |stages: Option<Stages>| {
        let chain = Chain::search(&Wanted {
            polynomial_size: literal.poly_degree,
            scale_bits,
            headroom_min: stages.map_or(0, |stages| stages.headroom),
            steps: match stages {
                Some(stages) => stages.steps(scale_bits, literal.max_depth),
                None => vec![scale_bits; literal.max_depth as usize],
            },
            log_modulus_max,
            log_sparse_max: stages.and(log_modulus_max).map(|_| LOG_SPARSE_MAX),
        })?;
        Some((chain, stages))
    };
    match literal.bootstrap {
        true => Stages::choices(literal.poly_degree, scale_bits).into_iter().find_map(|equal| {
            let found = equal.into_iter().filter_map(|stages| search(Some(stages)));
            found.min_by_key(|(chain, _)| {
                let bits = chain.log_special() + super::chain::ROTATION_EXCESS_BITS;
                chain.digits(chain.levels.len() - 1, bits).len()
            })
        }),
        false => search(None),
    }
}

fn insufficient(literal: &ParamsLiteral) -> ParamsError {
    let log_modulus = chain(literal, None).map_or(0.0, |(chain, _)| chain.log_modulus());
    ParamsError::InsufficientSecurity {
        security_bits: security_bits(literal.poly_degree, log_modulus),
        log_modulus: libm::ceil(log_modulus) as u32,
        depth_max: depth_max(*literal),
        degree_min: degree_min(*literal),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::conversion::SOURCES_MAX;

    fn params(
        poly_degree: usize,
        scale_bits: u32,
        max_depth: u32,
        security: SecurityLevel,
    ) -> Result<Params, ParamsError> {
        Params::new(ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: false })
    }

    #[test]
    fn the_guidance_of_the_readings_is_secure_and_that_of_the_specification_is_not() {
        use SecurityLevel::{Bits128, Testing};
        // readings K1
        for (n, scale, depth) in [(8192, 30, 4), (16384, 40, 8), (32768, 40, 12), (32768, 50, 14)] {
            let params = params(n, scale, depth, Bits128).unwrap();
            assert!(params.security_bits() >= 128 && params.chain().value_bits == 9, "{params:?}");
        }
        for (n, scale, depth, depth_max, degree_min) in [
            (4096, 30, 5, Some(1), Some(16384)),
            (8192, 40, 8, Some(3), Some(16384)),
            (16384, 40, 12, Some(8), Some(32768)),
        ] {
            let Err(ParamsError::InsufficientSecurity { depth_max: found, degree_min: degree, security_bits, .. }) =
                params(n, scale, depth, Bits128)
            else {
                panic!("({n}, {scale}, {depth}) is not secure")
            };
            assert_eq!((found, degree), (depth_max, degree_min), "({n}, {scale}, {depth})");
            let testing = params(n, scale, depth, Testing).unwrap();
            assert!(testing.security_bits() < 128 && testing.security_bits().abs_diff(security_bits) < 10);
        }
    }

    #[test]
    fn the_deepest_secure_chains_reach_those_of_the_literature() {
        use SecurityLevel::{Bits128, Bits192, Bits256};
        let deepest = |poly_degree, scale_bits, security| {
            depth_max(ParamsLiteral { poly_degree, scale_bits, max_depth: 1, security, bootstrap: false })
        };
        // (security, degree, bits of the scale, depth): depths from independent tables, which are for nested chains
        // whose levels have one long prime each
        let known = [
            (Bits128, 4096, 30, 1),
            (Bits128, 8192, 30, 4),
            (Bits128, 8192, 40, 3),
            (Bits128, 8192, 50, 2),
            (Bits128, 16384, 30, 11),
            (Bits128, 16384, 40, 8),
            (Bits128, 16384, 50, 6),
            (Bits128, 32768, 30, 14),
            (Bits128, 32768, 50, 14),
            (Bits192, 8192, 30, 2),
            (Bits192, 16384, 40, 5),
            (Bits192, 32768, 40, 12),
            (Bits256, 16384, 30, 5),
            (Bits256, 32768, 30, 13),
            (Bits256, 32768, 50, 7),
        ];
        for (security, n, scale, depth) in known {
            assert!(deepest(n, scale, security).is_some_and(|found| found >= depth), "{security:?} {n} {scale}");
        }
        assert_eq!([64, 256].map(|n| deepest(n, 40, Bits128)), [None, None], "testing degrees protect nothing");
    }

    #[test]
    fn chains_keep_what_they_promise() {
        for (params, literal) in samples() {
            let (chain, n) = (params.chain(), params.n());
            let words: Vec<u32> = chain.primes.iter().map(|prime| prime.q()).collect();
            assert!(words.iter().enumerate().all(|(at, q)| !words[..at].contains(q)), "{literal:?} repeats a prime");
            assert!(words.iter().all(|q| q % (2 * n as u32) == 1), "{literal:?}");
            assert_eq!(params.level_max(), literal.max_depth as usize);
            let scale_bits = f64::from(params.scale_bits_effective());
            for (at, level) in chain.levels.iter().enumerate() {
                assert!(level.primes.is_sorted() && *level.primes.last().unwrap() < chain.ciphertext_primes());
                assert!(
                    (level.scale.log2() - scale_bits).abs() < 2.5,
                    "{literal:?} level {at}: {}",
                    level.scale.log2()
                );
                let head = level.log_modulus - level.scale.log2() - scale_bits * at as f64;
                let deviation = if at == 0 { 0.75 } else { 3.75 };
                assert!(head > f64::from(chain.value_bits + 1) - deviation, "{literal:?} level {at}: {head}");
            }
            for kind in [PartKind::Relinearization, PartKind::Galois(5)] {
                let digits = params.digits(kind, params.level_max());
                assert!(digits.concat().into_iter().eq(0..chain.ciphertext_primes()), "every prime is of one digit");
            }
        }
    }

    #[test]
    fn a_product_has_the_scale_of_the_level_below() {
        for (params, literal) in samples() {
            for pair in params.chain().levels.windows(2) {
                let of = |a: &Level, b: &Level| -> f64 {
                    let only = a.primes.iter().filter(|at| !b.primes.contains(at));
                    only.map(|&at| f64::from(params.primes()[at].q())).product()
                };
                let product = pair[1].scale * pair[1].scale * of(&pair[0], &pair[1]) / of(&pair[1], &pair[0]);
                assert!((product / pair[0].scale - 1.0).abs() < 1e-14, "{literal:?}");
            }
        }
    }

    #[test]
    fn a_division_after_a_switch_has_no_more_primes_than_a_conversion_takes() {
        for (params, literal) in samples() {
            for level in 1..=params.raised_level() {
                let lost = params.special_count() + params.chain().divided(level, level - 1).len();
                assert!(lost <= SOURCES_MAX, "{literal:?}, level {level}: {lost}");
            }
        }
    }

    #[test]
    fn chains_of_a_version_never_change() {
        let bootstrapped = [64, 256].into_iter().flat_map(|poly_degree| {
            [(10, 3), (28, 1), (30, 3), (33, 9), (40, 14)].map(|(scale_bits, max_depth)| {
                let security = SecurityLevel::Testing;
                Params::new(ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: true }).unwrap()
            })
        });
        let version = crate::ckks::chain::chain_version;
        let found = digest(samples().into_iter().map(|(params, _)| params));
        assert_eq!(found, "976a1faebbdf5efc", "containers name version {}", version(false));
        assert_eq!(digest(bootstrapped), "dee8537d78cc75ca", "containers name version {}", version(true));
        let secure = [(28, 6), (30, 4), (33, 2), (36, 1), (40, 2), (40, 3)].map(|(scale_bits, max_depth)| {
            Params::new(ParamsLiteral { scale_bits, max_depth, ..literal_of_boot() }).unwrap()
        });
        assert_eq!(digest(secure.into_iter()), "b214dabe9fad5aaa", "containers name version {}", version(true));
    }

    #[test]
    fn the_largest_degree_has_secure_chains_with_the_levels_of_bootstrapping() {
        let secure = |scale_bits: u32, max_depth: u32| {
            let (poly_degree, security) = (32768, SecurityLevel::Bits128);
            Params::search(ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: true })
        };
        // (scale, depth, bits of the levels of the remainder, digits at most)
        for (scale_bits, max_depth, remainder, digits) in
            [(30, 4, 52, 6), (40, 2, 54, 6), (28, 6, 49, 8), (30, 8, 49, 40)]
        {
            let params = secure(scale_bits, max_depth).unwrap();
            let case = format!("{params:?}: {:.1} bits", params.log_modulus());
            assert!(params.security_bits() >= 128 && params.log_modulus() < 868.05, "{case}");
            assert_eq!(params.stages().map(|stages| stages.remainder), Some(remainder), "{case}");
            let [rotation, product] = [PartKind::FromSparse, PartKind::Relinearization]
                .map(|kind| params.digits(kind, params.raised_level()));
            assert!(rotation.len() <= digits && product.len() <= rotation.len(), "{case}: {} digits", rotation.len());
            assert!(params.chain().value_bits >= 9, "{case}");
        }
        assert!(matches!(secure(30, 9), Err(ParamsError::InsufficientSecurity { .. })));
    }

    #[test]
    fn both_secrets_of_bootstrapping_are_secure_in_every_secure_set() {
        for scale_bits in [10, 28, 29, 30, 33, 36, 38, 40] {
            let literal = |max_depth| ParamsLiteral {
                poly_degree: 32768,
                scale_bits,
                max_depth,
                security: SecurityLevel::Bits128,
                bootstrap: true,
            };
            let deepest = depth_max(literal(1)).unwrap();
            for max_depth in [1, 2, 3, 4, deepest] {
                let params = Params::new(literal(max_depth)).unwrap();
                let log_sparse = params.level(0).log_modulus + params.log_special(PartKind::ToSparse);
                let rows = params.digits(PartKind::ToSparse, 0).len();
                let case = format!("{params:?}: {log_sparse:.1} bits, {rows} rows");
                assert!(params.security_bits() >= 128 && log_sparse <= 112.0, "{case}");
                let specials = params.special_primes(PartKind::ToSparse).len();
                let is_short = |of: usize| params.chain().log_special_of(of) < params.level(0).log_modulus;
                assert!(specials == params.special_count() || (!is_short(specials) && rows == 1), "{case}");
                assert!(specials == 1 || is_short(specials - 1), "{case}: a special prime too many");
            }
            let Err(ParamsError::InsufficientSecurity { depth_max: found, degree_min, .. }) =
                Params::new(literal(deepest + 1))
            else {
                panic!("scale {scale_bits}, depth {deepest} and one more")
            };
            assert_eq!((found, degree_min), (Some(deepest), None));
        }
        for poly_degree in [64, 256] {
            let literal = ParamsLiteral { poly_degree, ..literal_of_boot() };
            let Err(ParamsError::InsufficientSecurity { degree_min, .. }) = Params::new(literal) else {
                panic!("degree {poly_degree} has no security")
            };
            assert_eq!(degree_min, Some(32768));
        }
        for poly_degree in [4096, 8192, 16384] {
            for security in SecurityLevel::ALL {
                let refused = Params::new(ParamsLiteral { poly_degree, security, ..literal_of_boot() });
                assert!(matches!(refused, Err(ParamsError::OutOfRange(why)) if why.contains("32768")), "{poly_degree}");
            }
        }
        let refused = Params::new(ParamsLiteral { scale_bits: 41, ..literal_of_boot() });
        assert!(matches!(refused, Err(ParamsError::OutOfRange(why)) if why.contains("at most 40")));
    }

    fn literal_of_boot() -> ParamsLiteral {
        let security = SecurityLevel::Bits128;
        ParamsLiteral { poly_degree: 32768, scale_bits: 30, max_depth: 4, security, bootstrap: true }
    }

    fn digest(sets: impl Iterator<Item = Params>) -> String {
        use sha2::{Digest, Sha256};
        let mut hash = Sha256::new();
        for params in sets {
            let chain = params.chain();
            chain.primes.iter().for_each(|prime| hash.update(prime.q().to_le_bytes()));
            hash.update([chain.special as u8, chain.value_bits as u8]);
            for level in &chain.levels {
                level.primes.iter().for_each(|&at| hash.update([at as u8]));
                hash.update(level.scale.to_le_bytes());
            }
        }
        hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn fields_out_of_range_and_small_scales() {
        for (n, scale, depth) in
            [(128, 40, 3), (65536, 40, 3), (4096, 9, 1), (4096, 51, 1), (4096, 30, 0), (4096, 30, 15)]
        {
            let refused = params(n, scale, depth, SecurityLevel::Testing);
            assert!(matches!(refused, Err(ParamsError::OutOfRange(_))), "({n}, {scale}, {depth})");
        }
        let small = params(4096, 15, 5, SecurityLevel::Testing).unwrap();
        assert_eq!((small.literal().scale_bits, small.scale_bits_effective()), (15, 25));
    }

    /// Lists parameters of every degree, with short and long scales, shallow and deep.
    fn samples() -> Vec<(Params, ParamsLiteral)> {
        static SAMPLES: LazyLock<Vec<(Params, ParamsLiteral)>> = LazyLock::new(searched);
        SAMPLES.clone()
    }

    fn searched() -> Vec<(Params, ParamsLiteral)> {
        let mut out = Vec::new();
        for poly_degree in POLY_DEGREES {
            for (scale_bits, max_depth) in [(10, 5), (25, 14), (30, 5), (33, 9), (37, 3), (40, 14), (45, 8), (50, 14)] {
                let literal = ParamsLiteral {
                    poly_degree,
                    scale_bits,
                    max_depth,
                    security: SecurityLevel::Testing,
                    bootstrap: false,
                };
                out.push((Params::new(literal).unwrap(), literal));
            }
        }
        for (poly_degree, scale_bits, max_depth) in [(8192, 40, 3), (16384, 40, 8), (32768, 50, 14)] {
            let literal = ParamsLiteral {
                poly_degree,
                scale_bits,
                max_depth,
                security: SecurityLevel::Bits128,
                bootstrap: false,
            };
            out.push((Params::new(literal).unwrap(), literal));
        }
        out
    }
}
