//! Bootstrapping raises a ciphertext of level 0 to the level of fresh ciphertexts (Cheon, Han, Kim, Kim, Song, eprint
//! 2018/153; sparse secrets while the modulus is small: Bossuat, Troncoso-Pastoriza, Hubaux, eprint 2022/024).
//!
//! ```text
//! (1) to sparse         switch to an ephemeral sparse secret, so that the overflow of step (2) is small
//! (2) raise             reinterpret the residues modulo the whole chain: coefficients are the message plus an overflow I q0, |I| <= 16
//! (3) from sparse       multiply by a power of two, then switch back to the key's secret: the error of the switch is relative
//!                       to the larger scale
//! (4) to slots          move coefficients to slots by two matrix factors; split real and imaginary parts into two ciphertexts
//! (5) remainder         reduce x modulo q0, as q0 / (2 pi) sin(2 pi x / q0): a Chebyshev series of the cosine, then three
//!                       doublings of the angle
//! (6) to coefficients   move slots back to coefficients by two matrix factors
//! ```

mod chebyshev;
mod precision;

use super::matrices::{Matrices, Matrix, RANGE, RemainderScales, usual_scale};
use super::noise::Noise;
use super::params::{Params, PartKind};
use super::plaintexts::Plaintexts;
use super::plan::{Plan, PlanBuilder, Value};
use super::rotation;
use super::stages::{DOUBLINGS, LEVELS};
use precision::Precision;

/// Returns the number of nonzero coefficients in the sparse secret.
pub fn sparse_weight(polynomial_size: usize) -> usize {
    (polynomial_size / 4).min(32)
}

/// `cos(2 pi (17 y - 1/4) / 8)` as a Chebyshev series in `y` on `[-1, 1]`: a least-squares fit near the whole numbers
/// `17 y`, weighted by how often an overflow occurs. The sine computed from this series has an error below `2^-37` for
/// overflows up to 6, and below `2^-22` for all.
const COSINE: [f64; 31] = [
    0.21407163104968147,
    0.0023979564726127143,
    0.4263442931403543,
    0.027804905664938935,
    0.36354766972074115,
    0.07113446807208733,
    0.0957351634568511,
    0.08825075430488494,
    -0.36943464202138976,
    0.000191885047107968,
    -0.37069558618942533,
    -0.11025776492928197,
    0.5426803709636092,
    0.08377787893421455,
    -0.2774519963786596,
    -0.031957029235407136,
    0.08355939954179362,
    0.007879210839952893,
    -0.017289218823468545,
    -0.001392732758646019,
    0.0026526323202104574,
    0.00018839952450962238,
    -0.00031798812999146606,
    -1.9837407316537832e-05,
    3.0197591517912318e-05,
    1.8438500360388268e-06,
    -2.5448813437226523e-06,
    -9.986749369250938e-08,
    1.2821121848669683e-07,
    1.2984847195207374e-08,
    -1.522015597909915e-08,
];

/// Lists the parts of a key that a bootstrap needs, each with the highest level at which it is needed.
pub fn parts(params: &Params) -> Vec<(PartKind, usize)> {
    outline(params).parts()
}

/// Makes the plan of a bootstrap from the level of fresh ciphertexts, without the words of its plaintexts. The plan tells
/// which parts and how many slots a bootstrap takes, and no device can run it.
pub fn outline(params: &Params) -> Plan {
    let mut builder = PlanBuilder::new(params);
    let level = params.level_max();
    let input = builder.input(level, params.level(level).scale, Noise::encrypt_secret(1.0));
    let output = refresh(&mut builder, &Plaintexts::without_words(params), input);
    builder.finish(&[output])
}

/// Bootstraps `value`: the result has the same numbers, the level of fresh ciphertexts and the default scale of that
/// level.
///
/// # Panics
/// When the parameters have no levels for bootstrapping.
pub fn refresh(builder: &mut PlanBuilder, plaintexts: &Plaintexts, value: Value) -> Value {
    let params = builder.params().clone();
    let top = params.raised_level();
    assert!(top == params.level_max() + LEVELS, "parameters with levels for bootstrapping");
    let value_bound = builder.noise(value).value_bound;
    let (shift, precision) = best_shift(&params, value_bound, shift_max(&params, builder.level(value)));
    let matrices = plaintexts.matrices(shift);
    let value = at_level_0(builder, value, usual_scale(&params) * (-f64::from(shift)).exp2());
    let (message_scale, before) = (builder.scale(value), builder.noise(value));
    let q0 = params.level(0).log_modulus.exp2();
    // (1), (2), (3): at scale q0, a coefficient x stands for the number x / q0, which is about I
    let sparse = builder.switch(value, PartKind::ToSparse);
    let raised = builder.raise(sparse);
    builder.read_at(raised, q0);
    let raised = to_larger_scale(builder, raised, matrices.raise);
    let raised = builder.switch(raised, PartKind::FromSparse);
    // (4): the matrices also divide by twice the range, so the values in `real`, the real parts doubled, and those in
    // `imaginary`, the imaginary parts doubled, are at most 1
    let slots = matrices.to_slots.iter().fold(raised, |value, matrix| multiply(builder, value, matrix));
    let conjugate = rotation::conjugation(params.n());
    let conjugated = builder.automorphism(slots, conjugate);
    let real = builder.add(slots, conjugated);
    let difference = builder.sub(conjugated, slots);
    let imaginary = times_i(builder, plaintexts, difference);
    // (5)
    let [real, imaginary] = [real, imaginary].map(|part| remainder(builder, part));
    let imaginary = times_i(builder, plaintexts, imaginary);
    let remainders = builder.add(real, imaginary);
    // the sine is about 2 pi x / q0, where x is the encoded message, so at this scale the slots hold the message's
    // numbers
    let scale = builder.scale(remainders) * 2.0 * std::f64::consts::PI * message_scale / q0;
    builder.read_at(remainders, scale);
    let up = (matrices.message_scale / message_scale).log2().round().max(0.0).exp2();
    let remainders = to_larger_scale(builder, remainders, up);
    // (6)
    let fresh = matrices.to_coefficients.iter().fold(remainders, |value, matrix| multiply(builder, value, matrix));
    // the result has the error from before the bootstrap and, in addition, the error of the bootstrap itself
    let scale = builder.scale(fresh);
    let kept = before.multiply_number(scale / message_scale).variance;
    let ratio = q0 / message_scale;
    let own = precision.deviation(value_bound, ratio) * scale;
    let noise = Noise::new(value_bound, kept + own * own * 2.0 / params.n() as f64);
    builder.set_noise(fresh, noise.deviate(scale * precision::of_sine(value_bound, ratio), params.n()));
    fresh
}

/// Brings a value to level 0 and to the scale at which its message is bootstrapped.
fn at_level_0(builder: &mut PlanBuilder, value: Value, scale: f64) -> Value {
    if builder.level(value) > 0 {
        return builder.lower(value, 0, scale);
    }
    let factor = (scale / builder.scale(value)).log2().round().max(0.0).exp2();
    to_larger_scale(builder, value, factor)
}

/// Multiplies a value by `factor`, a power of two, and reads the result at a scale that is as many times larger. The
/// numbers stay.
fn to_larger_scale(builder: &mut PlanBuilder, value: Value, factor: f64) -> Value {
    if factor == 1.0 {
        return value;
    }
    let scale = builder.scale(value) * factor;
    let multiplied = builder.multiply_integer(value, factor as i128);
    builder.read_at(multiplied, scale);
    multiplied
}

/// Largest `2 pi x / q0`, where `x` is an encoded message, at which the sine still stands for the message.
const ARGUMENT_MAX: f64 = 0.5;
/// A ciphertext above level 0 is brought to level 0 at a scale that may be this many bits smaller than the usual one.
const SHIFT_MAX: u32 = 20;

/// Returns by how many bits the scale of a message may be smaller than the usual one. A ciphertext of level 0 keeps its
/// scale at least.
fn shift_max(params: &Params, level: usize) -> u32 {
    match level {
        0 => (usual_scale(params) / params.level(0).scale).log2().round() as u32,
        _ => SHIFT_MAX,
    }
}

/// The modulus of level 0, in multiples of the scale of a message.
fn ratio(params: &Params, shift: u32) -> f64 {
    params.level(0).log_modulus.exp2() / usual_scale(params) * f64::from(shift).exp2()
}

/// Returns the largest bound on numbers that can be bootstrapped from this level.
pub fn largest_bound(params: &Params, level: usize) -> f64 {
    ARGUMENT_MAX / precision::argument(1.0, ratio(params, shift_max(params, level)))
}

/// Chooses by how many bits the scale of a message is smaller than the usual one, and returns the precision with that
/// scale. A smaller scale makes the error of the sine smaller and the errors of all steps before the last larger.
fn best_shift(params: &Params, value_bound: f64, shift_max: u32) -> (u32, Precision) {
    let relative = precision::relative(params);
    let precision = |shift: u32| Precision::new(params, relative, Matrices::made_for(params, shift));
    let allowed =
        (0..=shift_max).filter(|&shift| precision::argument(value_bound, ratio(params, shift)) <= ARGUMENT_MAX);
    let error = |shift: &u32| precision(*shift).error_bound(value_bound, ratio(params, *shift));
    let shift = allowed.min_by(|a, b| error(a).total_cmp(&error(b))).unwrap_or(shift_max);
    (shift, precision(shift))
}

/// Computes `sin(2 pi 17 y)` in each slot, where `y` is the number in the slot.
fn remainder(builder: &mut PlanBuilder, y: Value) -> Value {
    let scales = RemainderScales::new(builder.params());
    let mut cosine = chebyshev::evaluate(builder, y, &COSINE, &|level| scales.of(level));
    builder.bound_numbers(cosine, 1.0);
    for _ in 0..DOUBLINGS {
        let square = builder.multiply_rescaled(cosine, cosine);
        let doubled = builder.multiply_integer(square, 2);
        cosine = builder.add_constant(doubled, -1.0);
        builder.bound_numbers(cosine, 1.0);
    }
    cosine
}

fn times_i(builder: &mut PlanBuilder, plaintexts: &Plaintexts, value: Value) -> Value {
    let level = builder.level(value);
    let unit = builder.plain(level, plaintexts.imaginary_unit(level), 1.0, 1.0);
    builder.multiply_plain(value, unit)
}

/// Multiplies a ciphertext by a matrix, and takes one level.
fn multiply(builder: &mut PlanBuilder, value: Value, matrix: &Matrix) -> Value {
    let product = matrix.sum_of_diagonals(builder, value, &mut |builder, value, steps| {
        let element = rotation::element(builder.params().n(), steps);
        if element == 1 { value } else { builder.automorphism(value, element) }
    });
    builder.rescale(product)
}
