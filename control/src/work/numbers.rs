//! Arithmetic on encrypted numbers: converts parameters to the form of answers, and containers of requests to types.

mod containers;
mod open_key;
mod planning;
mod shared_plaintexts;
mod stored_key;

use api::Code;
use api::encryption_keys::KeyParams;
use api::params::{ArithmeticFacts, BootstrapNeeds, ChainLevel, SecurityLevel};
use engine::ckks::container::{self, Form};
use engine::ckks::cpu::Evaluator;
use engine::ckks::params::{POLY_DEGREES, depth_max};
use engine::ckks::plan::same_scale;
use engine::ckks::{Level, ParamsError, ParamsLiteral, PartKind, PartShape, bootstrap};

use super::Usage;
use crate::web::error::ApiError;

pub use containers::{
    CiphertextFacts, EvaluationKeyHead, KEY_HEAD_BYTES, PublicKeyFacts, ROW_BYTES_MAX, ROW_HEADER_BYTES, RowFacts,
    read_ciphertext, read_public_key,
};
pub use engine::ckks::noise::Tail;
pub use engine::ckks::sources::Sources;
pub use engine::ckks::{Noise, Params};
pub use open_key::{OpenNumbersKey, PlannedOperation};
pub(super) use planning::NumbersShape;
pub use planning::{Asked, Operation, Outlook, ResultFacts, StoredOperand, outlook};
pub(super) use shared_plaintexts::SharedPlaintexts;
pub use stored_key::{ReadRow, StoredNumbersKey, StoredRow, key_head};

/// Smallest degree of the ring that is not only for testing (readings K16).
const SECURE_DEGREE_MIN: usize = 4096;
/// A rotation by one slot.
const ROTATION: PartKind = PartKind::Galois(5);

/// Returns the parameters that have this security level, depth and scale, the smallest degree first. Searches for the
/// primes of all these parameters, which takes CPU time, so call this outside the async threads.
pub fn suggested(level: SecurityLevel, max_depth: u32, scale_bits: u32, bootstrap: bool) -> Vec<ArithmeticFacts> {
    let security = kernels_level(level);
    let degrees =
        POLY_DEGREES.into_iter().filter(|&degree| level == SecurityLevel::Testing || degree >= SECURE_DEGREE_MIN);
    let literals = degrees.map(|poly_degree| ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap });
    literals.filter_map(|literal| Params::new(literal).ok()).map(|params| facts(&params)).collect()
}

/// Returns the properties and costs of parameters.
fn facts(params: &Params) -> ArithmeticFacts {
    let literal = params.literal();
    let top = params.level_max();
    let key_bytes = |kind| (KEY_HEAD_BYTES + container::part_bytes(params, kind, top)) as u64;
    let deepest = depth_max(literal);
    ArithmeticFacts {
        poly_degree: literal.poly_degree as u64,
        scale_bits: u64::from(literal.scale_bits),
        max_depth: u64::from(literal.max_depth),
        max_depth_possible: u64::from(deepest.unwrap_or(literal.max_depth)),
        slot_count: params.slots() as u64,
        security_bits: u64::from(params.security_bits()),
        total_q_bits: total_q_bits(params),
        bootstrap: literal.bootstrap,
        precision_bits: fresh_precision_bits(params, Noise::encrypt_public(params.n(), 1.0)),
        seeded_precision_bits: fresh_precision_bits(params, Noise::encrypt_secret(1.0)),
        public_key_bytes: container::public_key_bytes(params, top) as u64,
        relinearization_key_bytes: key_bytes(PartKind::Relinearization),
        rotation_key_bytes: key_bytes(ROTATION),
        seeded_ciphertext_bytes: container::ciphertext_bytes(params, top, Form::Seeded) as u64,
        ciphertext_bytes: ciphertext_bytes_max(params),
        modulus_chain: modulus_chain(params),
        special_primes: params.special_count() as u64,
        levels: levels(params),
        bootstrap_needs: literal.bootstrap.then(|| bootstrap_needs(params)),
        warnings: warnings(params),
    }
}

fn bootstrap_needs(params: &Params) -> BootstrapNeeds {
    let plan = bootstrap::outline(params);
    let shapes = plan.parts().into_iter().map(|(kind, level)| PartShape { params: params.clone(), kind, level });
    let bytes = shapes.map(|shape| {
        let uploaded = container::part_bytes(params, shape.kind, shape.level) as u64;
        // a prepared part has the masks beside the bodies
        [uploaded, (2 * size_of::<u32>() * shape.digits().len() * shape.body_words()) as u64]
    });
    let tables = [0, Evaluator::tables_bytes(params)];
    let [key_bytes, prepared_key_bytes] = bytes.fold(tables, |sum, of| [sum[0] + of[0], sum[1] + of[1]]);
    let value_bytes = (plan.slots() * params.n() * size_of::<u32>()) as u64;
    BootstrapNeeds { key_bytes, prepared_key_bytes, value_bytes }
}

/// Returns a warning if a node with this usage has too little memory for a bootstrap.
pub fn bootstrap_warning(needs: &BootstrapNeeds, usage: &Usage) -> Option<String> {
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
    let [key, value] = [needs.prepared_key_bytes, needs.value_bytes].map(megabytes);
    let [key_max, value_max] = [usage.resident_bytes_max, usage.arena_bytes_max].map(|bytes| bytes / 1_000_000);
    (needs.prepared_key_bytes > usage.resident_bytes_max || needs.value_bytes > usage.arena_bytes_max).then(|| {
        format!(
            "this node cannot bootstrap with these parameters: a bootstrap takes {key} MB for its key and {value} MB for its \
             values on a device, and the node has at most {key_max} MB and {value_max} MB for them"
        )
    })
}

/// Returns the parameters with this degree, scale and depth, for a new key or for a key that was made earlier. The
/// error says why no such parameters exist. The first call for a set of parameters searches for the primes, which takes
/// CPU time, so call this outside the async threads.
pub fn params_of(
    (poly_degree, scale_bits, max_depth): (u64, u64, u64),
    level: SecurityLevel,
    bootstrap: bool,
) -> Result<Params, ApiError> {
    let whole = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let literal = ParamsLiteral {
        poly_degree: usize::try_from(poly_degree).unwrap_or(usize::MAX),
        scale_bits: whole(scale_bits),
        max_depth: whole(max_depth),
        security: kernels_level(level),
        bootstrap,
    };
    Params::new(literal).map_err(|error| match &error {
        ParamsError::OutOfRange(why) => ApiError::new(Code::InvalidParams, why.clone()).at("params", why.clone()),
        ParamsError::InsufficientSecurity { .. } => {
            ApiError::new(Code::InsufficientSecurity, error.to_string()).at("params", "not secure enough")
        }
    })
}

/// Returns the parameters that a key's record describes.
pub fn params_on_record(params: &KeyParams) -> Result<Params, ApiError> {
    let level =
        SecurityLevel::from_name(&params.security_level).ok_or_else(|| ApiError::internal("a level on record"))?;
    params_of((params.poly_degree, params.scale_bits, params.max_depth), level, params.bootstrap)
        .map_err(|error| ApiError::internal(error.message))
}

/// Converts parameters to the form in which answers and records contain them.
pub fn key_params(params: &Params, scheme: &str) -> KeyParams {
    let literal = params.literal();
    KeyParams {
        poly_degree: literal.poly_degree as u64,
        scale_bits: literal.scale_bits.into(),
        security_level: literal.security.name().to_owned(),
        max_depth: literal.max_depth.into(),
        bootstrap: literal.bootstrap,
        scheme: scheme.to_owned(),
        modulus_chain: modulus_chain(params),
        special_primes: params.special_count() as u64,
        levels: levels(params),
        total_q_bits: total_q_bits(params),
        security_bits: params.security_bits().into(),
    }
}

fn modulus_chain(params: &Params) -> Vec<u64> {
    params.primes().iter().map(|prime| prime.q().into()).collect()
}

/// Returns all levels of the chain, those of bootstrapping too, from level 0.
fn levels(params: &Params) -> Vec<ChainLevel> {
    let level =
        |level: &Level| ChainLevel { primes: level.primes.iter().map(|&at| at as u64).collect(), scale: level.scale };
    params.chain().levels.iter().map(level).collect()
}

/// Returns the size in bytes of a ciphertext of two polynomials at the highest level (readings K12).
pub fn ciphertext_bytes_max(params: &Params) -> u64 {
    container::ciphertext_bytes(params, params.level_max(), Form::Whole) as u64
}

/// Returns the size in bytes of the largest useful evaluation key for these parameters. Its parts are at the highest
/// level: relinearization, conjugation, rotations by powers of two in both directions, and as many for matrix
/// products. With bootstrapping, the key has at most 128 further parts: as many parts again, and the rotations of the
/// bootstrapping matrices (readings K4).
pub fn evaluation_key_bytes_max(params: &Params) -> u64 {
    const BOOTSTRAP_PARTS: u64 = 128;
    let part = container::part_bytes(params, ROTATION, params.raised_level()) as u64;
    let parts =
        4 * u64::from(params.slots().ilog2()) + 4 + if params.literal().bootstrap { BOOTSTRAP_PARTS } else { 0 };
    parts * part + KEY_HEAD_BYTES as u64
}

/// Returns the number of bits of the product of all primes, rounded up.
pub fn total_q_bits(params: &Params) -> u64 {
    params.log_modulus().ceil() as u64
}

/// Returns the precision, in bits after the binary point, that a ciphertext with this noise has in every slot when it
/// was just encrypted at the highest level.
fn fresh_precision_bits(params: &Params, noise: Noise) -> f64 {
    let scale = params.level(params.level_max()).scale;
    ciphertext_precision_bits(params.n(), scale, noise.encoded(params.n(), scale))
}

/// Returns the precision, in bits after the binary point, that answers tell of a ciphertext of degree `n`.
pub fn ciphertext_precision_bits(n: usize, scale: f64, noise: Noise) -> f64 {
    precision_told(noise.precision_bits(n, scale))
}

/// Rounds a precision down to one decimal. Without any noise the precision is infinite, which JSON cannot express:
/// 1074 bits are told instead, because a double has no more bits after the binary point.
fn precision_told(bits: f64) -> f64 {
    tenths(bits.clamp(-1074.0, 1074.0))
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).floor() / 10.0
}

/// Returns warnings about parameters (readings K3).
pub fn warnings(params: &Params) -> Vec<String> {
    let (asked, effective) = (params.literal().scale_bits, params.scale_bits_effective());
    let mut warnings = Vec::new();
    if effective != asked {
        warnings.push(format!("scale_bits {asked} is too small for this service, so the scale has {effective} bits"));
    }
    let precision = fresh_precision_bits(params, Noise::encrypt_public(params.n(), 1.0));
    if precision < 10.0 {
        let bits = precision.max(0.0).floor();
        warnings.push(format!(
            "a fresh ciphertext has about {bits} bits of precision: for more than 10 bits, use larger scale_bits"
        ));
    }
    if params.n() < SECURE_DEGREE_MIN {
        warnings.push(format!("poly_degree {} is only for testing, because it gives no security", params.n()));
    }
    warnings
}

/// Returns warnings about an uploaded ciphertext: a scale that is not that of its level.
pub fn ciphertext_warnings(params: &Params, facts: &CiphertextFacts) -> Vec<String> {
    let &CiphertextFacts { level, scale, .. } = facts;
    let of_level = params.level(level).scale;
    if same_scale(scale, of_level) {
        return Vec::new();
    }
    let owed = params.chain().owed(level, scale);
    vec![match owed {
        0 => format!(
            "the scale is {scale}, but level {level} has the scale {of_level}: with another scale, every product loses \
             precision, so encrypt at the scale that the key's params.levels tell"
        ),
        _ => format!(
            "the scale is {scale}, but level {level} has the scale {of_level}: like a product that was not rescaled, the \
             ciphertext takes {owed} of its levels for rescales"
        ),
    }]
}

fn kernels_level(level: SecurityLevel) -> engine::ckks::SecurityLevel {
    match level {
        SecurityLevel::Testing => engine::ckks::SecurityLevel::Testing,
        SecurityLevel::Bits128 => engine::ckks::SecurityLevel::Bits128,
        SecurityLevel::Bits192 => engine::ckks::SecurityLevel::Bits192,
        SecurityLevel::Bits256 => engine::ckks::SecurityLevel::Bits256,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k1_the_corrected_guidance_meets_128_bits_and_that_of_the_specification_does_not() {
        for (poly_degree, scale_bits, max_depth, possible) in [
            (8192, 30, 4, true),
            (16384, 40, 8, true),
            (32768, 40, 12, true),
            (32768, 50, 14, true),
            (4096, 30, 5, false),
            (8192, 40, 8, false),
            (16384, 40, 12, false),
        ] {
            let suggested = suggested(SecurityLevel::Bits128, max_depth, scale_bits, false);
            let found = suggested.iter().find(|facts| facts.poly_degree == poly_degree);
            assert_eq!(found.is_some(), possible, "{poly_degree} {scale_bits} {max_depth}");
            assert!(
                found.is_none_or(|facts| facts.security_bits >= 128 && facts.max_depth_possible >= max_depth.into())
            );
            assert!(suggested.iter().all(|facts| facts.poly_degree >= 4096));
        }
    }

    #[test]
    fn k3_low_precision_and_degrees_for_testing_are_told() {
        let told = |degree: u64, scale_bits| {
            let all = suggested(SecurityLevel::Testing, 2, scale_bits, false);
            all.into_iter().find(|facts| facts.poly_degree == degree).unwrap().warnings
        };
        assert!(told(8192, 40).is_empty());
        let low = told(8192, 15);
        assert!(low.len() == 2 && low[0].contains("25 bits") && low[1].contains("bits of precision"), "{low:?}");
        assert!(told(64, 40)[0].contains("no security"));
    }

    #[test]
    fn f1_levels_are_told_with_their_exact_scales_and_follow_the_rules_of_the_page() {
        // docs/wire-format.md 14
        for (level, max_depth, scale_bits, bootstrap) in [
            (SecurityLevel::Bits128, 3, 40, false),
            (SecurityLevel::Testing, 5, 15, false),
            (SecurityLevel::Testing, 14, 50, false),
            (SecurityLevel::Testing, 3, 40, true),
        ] {
            let all = suggested(level, max_depth, scale_bits, bootstrap);
            assert!(!all.is_empty());
            for ArithmeticFacts { poly_degree, modulus_chain, special_primes, levels, bootstrap: told, .. } in all {
                let what = format!("{poly_degree} {scale_bits} {max_depth}");
                assert_eq!((told, levels.len() > max_depth as usize + 1), (bootstrap, bootstrap), "{what}");
                let of_ciphertexts = modulus_chain.len() as u64 - special_primes;
                assert!(special_primes > 0 && modulus_chain.iter().all(|q| q % (2 * poly_degree) == 1), "{what}");
                assert_eq!(levels[0].scale, f64::from(scale_bits.max(25)).exp2(), "{what}");
                for pair in levels.windows(2) {
                    let only = |a: &ChainLevel, b: &ChainLevel| -> f64 {
                        let only = a.primes.iter().filter(|at| !b.primes.contains(at));
                        only.map(|&at| modulus_chain[at as usize] as f64).product()
                    };
                    let scale = (pair[0].scale * only(&pair[1], &pair[0]) / only(&pair[0], &pair[1])).sqrt();
                    assert!((scale / pair[1].scale - 1.0).abs() < 1e-12, "{what}: {scale} {}", pair[1].scale);
                    assert!(pair[1].primes.is_sorted() && pair[1].primes.iter().all(|&at| at < of_ciphertexts));
                }
            }
        }
        let secure = |scale_bits| {
            suggested(SecurityLevel::Bits128, 3, scale_bits, true).into_iter().map(|facts| facts.poly_degree)
        };
        assert_eq!(secure(40).collect::<Vec<_>>(), [32768], "one secure degree has bootstrapping");
        assert_eq!(secure(41).count(), 0);
    }

    #[test]
    fn the_memory_of_a_bootstrap_is_told_and_a_node_without_it_says_so() {
        let [testing, secure] =
            [(SecurityLevel::Testing, 256), (SecurityLevel::Bits128, 32768)].map(|(level, degree)| {
                let all = suggested(level, 4, 30, true);
                all.into_iter().find(|facts| facts.poly_degree == degree).unwrap().bootstrap_needs.unwrap()
            });
        // nine parts, of which one is small: within 0.25 GB, seeded and packed
        assert!((150_000_000..250_000_000).contains(&secure.key_bytes), "{secure:?}");
        assert!(
            secure.prepared_key_bytes > 2 * secure.key_bytes && secure.prepared_key_bytes < 500_000_000,
            "{secure:?}"
        );
        assert!((100_000_000..400_000_000).contains(&secure.value_bytes), "{secure:?}");
        assert!(suggested(SecurityLevel::Bits128, 4, 30, false).iter().all(|facts| facts.bootstrap_needs.is_none()));

        let node =
            |resident_bytes_max, arena_bytes_max| Usage { resident_bytes_max, arena_bytes_max, ..Usage::default() };
        let enough = node(secure.prepared_key_bytes, secure.value_bytes);
        assert_eq!(bootstrap_warning(&secure, &enough), None);
        assert_eq!(bootstrap_warning(&testing, &enough), None);
        for little in [node(secure.prepared_key_bytes - 1, u64::MAX), node(u64::MAX, secure.value_bytes - 1)] {
            let warning = bootstrap_warning(&secure, &little).unwrap();
            assert!(warning.contains("cannot bootstrap") && warning.contains(" MB for its values"), "{warning}");
        }
    }

    #[test]
    fn sizes_grow_with_the_depth() {
        let of = |depth| {
            suggested(SecurityLevel::Bits128, depth, 40, false).into_iter().find(|facts| facts.poly_degree == 32768)
        };
        let (small, large) = (of(4).unwrap(), of(12).unwrap());
        assert!(small.ciphertext_bytes < large.ciphertext_bytes && small.total_q_bits < large.total_q_bits);
        assert!(small.relinearization_key_bytes < large.relinearization_key_bytes);
        assert!(large.relinearization_key_bytes <= large.rotation_key_bytes);
        assert_eq!(large.slot_count, 16384);
    }
}
