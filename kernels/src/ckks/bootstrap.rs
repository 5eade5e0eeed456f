//! Bootstrapping raises a ciphertext of level 0 to the level of fresh ciphertexts (Cheon, Han, Kim, Kim, Song, eprint
//! 2018/153; sparse secrets while the modulus is small: Bossuat, Troncoso-Pastoriza, Hubaux, eprint 2022/024).
//!
//! ```text
//! (1) to sparse         switch to an ephemeral sparse secret, so that the overflow of step (2) is small
//! (2) raise             reinterpret the residues modulo the whole chain: coefficients are the message plus an overflow I q0, |I| < 16
//! (3) from sparse       switch back to the key's secret
//! (4) to slots          move coefficients to slots by two matrix factors; split real and imaginary parts into two ciphertexts
//! (5) remainder         reduce x modulo q0, as q0 / (2 pi) sin(2 pi x / q0): a Chebyshev series of the cosine, then three
//!                       doublings of the angle
//! (6) to coefficients   move slots back to coefficients by two matrix factors
//! ```

mod chebyshev;
mod factors;

use super::encode::Complex;
use super::noise::Noise;
use super::params::{Params, PartKind};
use super::plaintexts::Plaintexts;
use super::plan::{PlanBuilder, Value};
use super::rotation;
use super::stages::{FACTORS, LEVELS, Stages};
use factors::Diagonals;

/// Bound on the overflow `I` of step (2).
const OVERFLOW_MAX: f64 = 16.0;
/// Number of times that step (5) doubles the angle.
const DOUBLINGS: usize = 3;

/// Returns the number of nonzero coefficients in the sparse secret.
pub fn sparse_weight(polynomial_size: usize) -> usize {
    (polynomial_size / 4).min(32)
}

/// `cos(2 pi (16 y - 1/4) / 8)` as a Chebyshev series in `y` on `[-1, 1]`: a least-squares fit near the whole numbers
/// `16 y`, weighted by how often an overflow occurs. The sine computed from this series has an error below `2^-35` for
/// overflows up to 8, and below `2^-25` for overflows up to 12.
const COSINE: [f64; 31] = [
    0.15447916112896684,
    -0.06029302569517946,
    0.35720193920107235,
    -0.03767637381298117,
    0.44764406933386963,
    0.019009738610160046,
    0.3716001469669193,
    0.08959452635506758,
    -0.1301996341036894,
    0.056620143813772394,
    -0.5379197173819785,
    -0.11367348881152632,
    0.46257324507907766,
    0.062055953786313345,
    -0.1829025118427718,
    -0.019008055425786794,
    0.04523632980677631,
    0.0039055476152959658,
    -0.007882844832262096,
    -0.0005862808017977531,
    0.0010331193821539082,
    6.793439708055578e-05,
    -0.0001065306189496233,
    -6.216906304044867e-06,
    8.804589660450732e-06,
    4.91074458859609e-07,
    -6.340946980233034e-07,
    -2.5096983462972285e-08,
    2.979012226201345e-08,
    2.5242205674616623e-09,
    -2.7936237618944863e-09,
];

/// Lists the parts of a key that a bootstrap needs, each with the highest level at which it is needed.
pub fn parts(params: &Params) -> Vec<(PartKind, usize)> {
    let mut builder = PlanBuilder::new(params);
    let input = builder.input(0, params.level(0).scale, Noise::encrypt_secret(1.0));
    let output = refresh(&mut builder, &Plaintexts::new(params), input);
    builder.finish(&[output]).parts()
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
    let value = match builder.level(value) {
        0 => value,
        _ => builder.lower(value, 0, params.level(0).scale * (-f64::from(best_shift(&params, value_bound))).exp2()),
    };
    let (message_scale, before) = (builder.scale(value), builder.noise(value));
    let q0 = params.level(0).log_modulus.exp2();
    // (1), (2), (3)
    let sparse = builder.switch(value, PartKind::ToSparse);
    let raised = builder.raise(sparse);
    let raised = builder.switch(raised, PartKind::FromSparse);
    // At scale q0, a coefficient x stands for the number x / q0, which is about I. Then the ciphertext is multiplied by
    // a power of two, because the next stage needs a larger scale.
    builder.read_at(raised, q0);
    let stage = f64::from(stages(&params).remainder).exp2();
    let up = (stage / q0).log2().round().max(0.0).exp2();
    let raised = builder.multiply_integer(raised, up as i128);
    builder.read_at(raised, q0 * up);
    // (4): the factors also divide by 32, so the real and the imaginary part of a slot are each about I / 32. The
    // values in `real` are the real parts doubled, and those in `imaginary` are the imaginary parts doubled.
    let inverse = factors::factors(params.slots(), FACTORS, true);
    let share = (0.5 / OVERFLOW_MAX).powf(1.0 / inverse.len() as f64);
    let slots = transform(builder, plaintexts, raised, &inverse, share, stage);
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
    // (6)
    let forward = factors::factors(params.slots(), FACTORS, false);
    let scale = params.level(params.level_max()).scale;
    let fresh = transform(builder, plaintexts, remainders, &forward, 1.0, scale);
    // the result has the error from before the bootstrap and, in addition, the error of the bootstrap itself
    let kept = Noise::new(value_bound, before.multiply_number(scale / message_scale).variance);
    let own = error(&params, value_bound, message_scale);
    builder.set_noise(fresh, kept.deviate(scale * own, params.n()));
    fresh
}

/// Largest `2 pi x / q0`, where `x` is an encoded message, at which the sine still stands for the message.
const ARGUMENT_MAX: f64 = 0.5;
/// A ciphertext above level 0 is brought to level 0 at a scale that may be this many bits smaller than the default.
const SHIFT_MAX: u32 = 20;

/// Returns the largest bound on numbers that can be bootstrapped from this level.
pub fn largest_bound(params: &Params, level: usize) -> f64 {
    let shift = if level == 0 { 0 } else { SHIFT_MAX };
    ARGUMENT_MAX / argument(params, 1.0, params.level(0).scale * (-f64::from(shift)).exp2())
}

/// Chooses by how many bits the scale at level 0 is smaller than the default. A smaller scale makes the error of the
/// sine smaller and all other errors larger.
fn best_shift(params: &Params, value_bound: f64) -> u32 {
    let scale = |shift: u32| params.level(0).scale * (-f64::from(shift)).exp2();
    let allowed = (0..=SHIFT_MAX).filter(|&shift| argument(params, value_bound, scale(shift)) <= ARGUMENT_MAX);
    let error = |shift: &u32| error(params, value_bound, scale(*shift));
    allowed.min_by(|a, b| error(a).total_cmp(&error(b))).unwrap_or(SHIFT_MAX)
}

/// `2 pi x / q0` for a message `x` of the largest number, encoded at this scale.
fn argument(params: &Params, value_bound: f64, message_scale: f64) -> f64 {
    2.0 * std::f64::consts::PI * value_bound * message_scale / params.level(0).log_modulus.exp2()
}

/// Bound on the error of a bootstrap in each slot, for numbers up to `value_bound` that are encoded at `message_scale`
/// at level 0. The error has four parts:
///
/// - The sine of the argument `t` is off by at most `t^3 / 6`. The coefficients `m` of numbers up to `v` have
///   `sum m^2 <= v^2`, so the errors of all coefficients add up to at most `v t^2 / 6` in a slot; equal numbers in all
///   slots reach this bound.
/// - The steps up to (5) have errors relative to `q0`.
/// - The plaintexts of step (6) are rounded, which causes an error relative to the numbers.
/// - The results of step (6) are rounded. The coarsest rounding is at the least scale of this step.
///
/// The constants of the last three parts are fits to measurements: both degrees, scales of 25 to 40 bits, numbers up to
/// 1/1024 to 16, random and chosen messages. Each bound is 1.1 to 1.5 bits above the largest measured error.
fn error(params: &Params, value_bound: f64, message_scale: f64) -> f64 {
    let size = params.n() as f64;
    let ratio = params.level(0).log_modulus.exp2() / message_scale;
    let scale = f64::from(params.scale_bits_effective()).exp2();
    // the scale at which step (6) begins, and the scale after its first matrix
    let first = f64::from(stages(params).remainder).exp2() * 2.0 * std::f64::consts::PI / ratio;
    let middle = (first * scale).sqrt();
    let of_sine = value_bound * argument(params, value_bound, message_scale).powi(2) / 6.0;
    let of_steps = size.powf(1.5) * (-46.7f64).exp2() * ratio;
    let of_plaintexts = value_bound * size.sqrt() * 1.2f64.exp2() * first / (middle * scale);
    let of_roundings = size * 2.4f64.exp2() / scale.min(middle);
    of_sine + of_steps + of_plaintexts + of_roundings
}

fn stages(params: &Params) -> Stages {
    params.stages().expect("parameters with levels for bootstrapping")
}

/// Computes `sin(2 pi 16 y)` in each slot, where `y` is the number in the slot.
fn remainder(builder: &mut PlanBuilder, y: Value) -> Value {
    let mut cosine = chebyshev::evaluate(builder, y, &COSINE);
    for _ in 0..DOUBLINGS {
        let square = builder.multiply_rescaled(cosine, cosine);
        let doubled = builder.multiply_integer(square, 2);
        cosine = builder.add_constant(doubled, -1.0);
    }
    cosine
}

fn times_i(builder: &mut PlanBuilder, plaintexts: &Plaintexts, value: Value) -> Value {
    let level = builder.level(value);
    let unit = builder.plain(level, plaintexts.imaginary_unit(level), 1.0, 1.0);
    builder.multiply_plain(value, unit)
}

/// Multiplies a ciphertext by the matrices `factors`, one after another. Each matrix is first multiplied by the number
/// `share`, and takes one level. The ciphertext's scale changes by the same ratio at each level, and is `scale` at the
/// end.
fn transform(
    builder: &mut PlanBuilder,
    plaintexts: &Plaintexts,
    value: Value,
    factors: &[Diagonals],
    share: f64,
    scale: f64,
) -> Value {
    let first = builder.scale(value);
    let count = factors.len() as f64;
    factors.iter().enumerate().fold(value, |value, (at, matrix)| {
        let target = first * (scale / first).powf((at + 1) as f64 / count);
        multiply(builder, plaintexts, value, matrix, share, target)
    })
}

/// Multiplies a ciphertext by a matrix that is stored as diagonals. Each baby step rotates the result of the previous
/// baby step, and the giant steps use Horner's rule (the idea of ARK, Kim et al., MICRO 2022), so three rotation keys
/// are enough.
fn multiply(
    builder: &mut PlanBuilder,
    plaintexts: &Plaintexts,
    value: Value,
    matrix: &Diagonals,
    share: f64,
    target: f64,
) -> Value {
    let (slots, level) = (builder.params().slots() as i64, builder.level(value));
    let divisor = builder.params().chain().divisor(level, level - 1);
    let scale = target * divisor / builder.scale(value);
    let rotate = |builder: &mut PlanBuilder, value: Value, steps: i64| {
        let element = rotation::element(builder.params().n(), steps);
        if element == 1 { value } else { builder.automorphism(value, element) }
    };
    // an offset above slots / 2 counts as a negative one, a rotation in the other direction. Every offset is then the
    // lowest one plus a multiple of `step`
    let centred = |offset: usize| if 2 * offset as i64 <= slots { offset as i64 } else { offset as i64 - slots };
    let mut offsets: Vec<i64> = matrix.keys().map(|&offset| centred(offset)).collect();
    offsets.sort_unstable();
    let (lowest, highest) = (offsets[0], offsets[offsets.len() - 1]);
    let step = offsets.iter().copied().filter(|offset| *offset != 0).map(i64::abs).min().unwrap_or(1);
    let count = ((highest - lowest) / step + 1) as usize;
    let babies = 1usize << ((count as f64).sqrt().log2().round() as u32);
    let mut turned = vec![rotate(builder, value, lowest)];
    for _ in 1..babies.min(count) {
        let next = rotate(builder, turned[turned.len() - 1], step);
        turned.push(next);
    }
    let mut sum: Option<Value> = None;
    for giant in (0..count.div_ceil(babies)).rev() {
        sum = sum.map(|sum| rotate(builder, sum, babies as i64 * step));
        for baby in 0..babies {
            let offset = lowest + (giant * babies + baby) as i64 * step;
            let diagonal = matrix.get(&(offset.rem_euclid(slots) as usize)).filter(|_| offset <= highest);
            let Some(diagonal) = diagonal else { continue };
            let back = (giant * babies) as i64 * step;
            let mut values: Vec<Complex> = diagonal.iter().map(|&value| value * share).collect();
            values.rotate_right(back.rem_euclid(slots) as usize);
            let words = plaintexts.encode(&values, level, scale).expect("a matrix of small numbers");
            let plain = builder.plain(level, words, scale, 1.0);
            let term = builder.multiply_plain(turned[baby], plain);
            sum = Some(match sum {
                None => term,
                Some(sum) => builder.add(sum, term),
            });
        }
    }
    let sum = sum.expect("a matrix has a diagonal");
    builder.rescale(sum)
}
