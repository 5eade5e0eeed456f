//! Arithmetic on encrypted numbers: converts parameters to the form of answers, and containers of requests to types.

mod containers;
mod running;

use api::Code;
use api::encryption_keys::KeyParams;
use api::params::{ArithmeticFacts, SecurityLevel};
use engine::ckks::container::{self, Form};
use engine::ckks::params::{POLY_DEGREES, depth_max};
use engine::ckks::{ParamsError, ParamsLiteral, PartKind};

use crate::web::error::ApiError;

pub use containers::{
    CiphertextFacts, EvaluationKeyHead, KEY_HEAD_BYTES, PublicKeyFacts, ROW_BYTES_MAX, ROW_HEADER_BYTES, RowFacts,
    read_ciphertext, read_public_key,
};
pub use engine::ckks::Params;
pub use running::{
    Asked, NumbersEnd, OpenNumbersKey, Operation, PlannedOperation, ResultFacts, StoredNumbersKey, StoredRow, key_head,
};

/// Smallest degree of the ring that is not only for testing (readings K16).
const SECURE_DEGREE_MIN: usize = 4096;
/// A rotation by one slot.
const ROTATION: PartKind = PartKind::Galois(5);

/// Returns the parameters that have this security level, depth and scale, the smallest degree first. Searches for the
/// primes of all these parameters, which takes CPU time, so call this outside the async threads.
pub fn suggested(level: SecurityLevel, max_depth: u32, scale_bits: u32) -> Vec<ArithmeticFacts> {
    let security = kernels_level(level);
    let degrees =
        POLY_DEGREES.into_iter().filter(|&degree| level == SecurityLevel::Testing || degree >= SECURE_DEGREE_MIN);
    let literals =
        degrees.map(|poly_degree| ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: false });
    literals.filter_map(|literal| Params::new(literal).ok()).map(|params| facts(&params)).collect()
}

/// Returns the properties and costs of parameters.
fn facts(params: &Params) -> ArithmeticFacts {
    let literal = params.literal();
    let top = params.level_max();
    let key_bytes = |kind| (KEY_HEAD_BYTES + container::part_bytes(params, kind, top)) as u64;
    let deepest = depth_max(literal.poly_degree, literal.scale_bits, literal.security);
    ArithmeticFacts {
        poly_degree: literal.poly_degree as u64,
        scale_bits: u64::from(literal.scale_bits),
        max_depth: u64::from(literal.max_depth),
        max_depth_possible: u64::from(deepest.unwrap_or(literal.max_depth)),
        slot_count: params.slots() as u64,
        security_bits: u64::from(params.security_bits()),
        total_q_bits: total_q_bits(params),
        precision_bits: (10.0 * precision_bits(params)).floor() / 10.0,
        public_key_bytes: container::public_key_bytes(params, top) as u64,
        relinearization_key_bytes: key_bytes(PartKind::Relinearization),
        rotation_key_bytes: key_bytes(ROTATION),
        seeded_ciphertext_bytes: container::ciphertext_bytes(params, top, Form::Seeded) as u64,
        ciphertext_bytes: ciphertext_bytes_max(params),
        warnings: warnings(params),
    }
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
        modulus_chain: params.primes().iter().map(|prime| prime.q().into()).collect(),
        total_q_bits: total_q_bits(params),
        security_bits: params.security_bits().into(),
    }
}

/// Returns the size in bytes of a ciphertext of two polynomials at the highest level (readings K12).
pub fn ciphertext_bytes_max(params: &Params) -> u64 {
    container::ciphertext_bytes(params, params.level_max(), Form::Whole) as u64
}

/// Returns the size in bytes of the largest useful evaluation key for these parameters. Its parts are at the highest
/// level: relinearization, conjugation, and rotations by powers of two in both directions. With bootstrapping, the key
/// has at most 128 further parts: as many parts again, and the rotations of the bootstrapping matrices (readings K4).
pub fn evaluation_key_bytes_max(params: &Params) -> u64 {
    const BOOTSTRAP_PARTS: u64 = 128;
    let part = container::part_bytes(params, ROTATION, params.raised_level()) as u64;
    let parts =
        2 * u64::from(params.slots().ilog2()) + 4 + if params.literal().bootstrap { BOOTSTRAP_PARTS } else { 0 };
    parts * part + KEY_HEAD_BYTES as u64
}

/// Returns the number of bits of the product of all primes, rounded up.
pub fn total_q_bits(params: &Params) -> u64 {
    params.log_modulus().ceil() as u64
}

/// Returns the precision, in bits after the binary point, of the worst slot of a ciphertext that was just encrypted
/// with a public key (facts on parameters, 2.5).
fn precision_bits(params: &Params) -> f64 {
    /// bits that encryption with the public key loses at N = 1, and bits by which the worst slot is less precise than
    /// most slots
    const FRESH: f64 = 1.4;
    const WORST_SLOT: f64 = 3.1;
    f64::from(params.scale_bits_effective()) - (params.n() as f64).log2() - FRESH - WORST_SLOT
}

/// Returns warnings about parameters (readings K3).
pub fn warnings(params: &Params) -> Vec<String> {
    let (asked, effective) = (params.literal().scale_bits, params.scale_bits_effective());
    let mut warnings = Vec::new();
    if effective != asked {
        warnings.push(format!("scale_bits {asked} is too small for this service, so the scale has {effective} bits"));
    }
    let precision = precision_bits(params);
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
            let suggested = suggested(SecurityLevel::Bits128, max_depth, scale_bits);
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
            let all = suggested(SecurityLevel::Testing, 2, scale_bits);
            all.into_iter().find(|facts| facts.poly_degree == degree).unwrap().warnings
        };
        assert!(told(8192, 40).is_empty());
        let low = told(8192, 15);
        assert!(low.len() == 2 && low[0].contains("25 bits") && low[1].contains("bits of precision"), "{low:?}");
        assert!(told(64, 40)[0].contains("no security"));
    }

    #[test]
    fn sizes_grow_with_the_depth() {
        let of =
            |depth| suggested(SecurityLevel::Bits128, depth, 40).into_iter().find(|facts| facts.poly_degree == 32768);
        let (small, large) = (of(4).unwrap(), of(12).unwrap());
        assert!(small.ciphertext_bytes < large.ciphertext_bytes && small.total_q_bits < large.total_q_bits);
        assert!(small.relinearization_key_bytes < large.relinearization_key_bytes);
        assert!(large.relinearization_key_bytes <= large.rotation_key_bytes);
        assert_eq!(large.slot_count, 16384);
    }
}
