//! Definitions of the results of gates (TFHE). Digits come from exact fractions.
//!
//! One constant is in no formula of the papers: the rounding of a residue to a torus word before its digits are taken
//! ([`torus_floor`]). The kernels use a rounding that costs two instructions, and that rounding is part of the
//! definition.

use kernels::tfhe::{EvaluationKey, Gate, GateRow, Lwe, ModSwitch, ParamsLiteral, RING_MODULUS};

use super::{Polynomial, add_negacyclic_product};

const Q: i128 = RING_MODULUS as i128;
/// One turn of the torus in units of a word.
const TURN: i128 = 1 << 32;
/// The encoding of a true bit, `+1/8` of a turn.
const EIGHTH: u32 = 1 << 29;

/// `X^exponent p`, exponent in `[0, 2N)`.
pub fn rotate(p: &[u32], exponent: usize) -> Polynomial {
    let n = p.len();
    let mut out = vec![0; n];
    for (i, &x) in p.iter().enumerate() {
        let at = (i + exponent) % (2 * n);
        out[at % n] = if at < n { x } else { residue(-i128::from(x)) };
    }
    out
}

/// A row of torus words, mask then body, as exponents of X: the nearest multiples of `1 / 2N` of a turn, halves up, in
/// `[0, 2N)`. The centred switch first adds half of each mask word's rounding error, rounded down, to the body.
pub fn mod_switch(p: &ParamsLiteral, row: &[u32]) -> Vec<usize> {
    let two_n = 2 * p.polynomial_size as i128;
    let multiple = |word: i128| nearest(word * two_n, TURN);
    let (&body, mask) = row.split_last().expect("a row has a body");
    // the errors are taken before exponents are reduced modulo 2N: a word that rounds up to 2N, a whole turn, has a
    // small error, although its exponent becomes 0
    let errors = mask.iter().map(|&word| multiple(word.into()) * (TURN / two_n) - i128::from(word));
    let centre = match p.mod_switch {
        ModSwitch::Nearest => 0,
        ModSwitch::Centred => errors.map(|error| error.div_euclid(2)).sum(),
    };
    let body = (i128::from(body) + centre).rem_euclid(TURN);
    mask.iter().map(|&word| word.into()).chain([body]).map(|word| (multiple(word) % two_n) as usize).collect()
}

/// A residue as a torus word before its digits are taken: `4x + floor(4x c / 2^32)` with `c = floor((2^30 - q) 2^32 /
/// q)`. The result is `x 2^32 / q` rounded down, or at most two units less.
pub fn torus_floor(x: u32) -> u32 {
    let c = ((1 << 30) - Q) * TURN / Q;
    let scaled = 4 * i128::from(x);
    (scaled + scaled * c / TURN) as u32
}

/// A residue as a torus word, `round(x 2^32 / q)`.
pub fn torus_nearest(x: u32) -> u32 {
    (nearest(i128::from(x) * TURN, Q) % TURN) as u32
}

/// The `levels` balanced digits in base `base` of `word / 2^32`, rounded to the nearest multiple of `base^-levels`
/// (halves up); level 1, the most significant, first. Even bases: `-B/2 ..= B/2 - 1`, odd ones
/// `-(B - 1)/2 ..= (B - 1)/2`. The last carry is a whole turn and is dropped. `base^levels` is at most `2^32`.
pub fn digits(word: u32, base: i128, levels: usize) -> Vec<i64> {
    let mut rest = nearest(i128::from(word) * base.pow(levels as u32), TURN);
    let mut digits = Vec::new();
    for _ in 0..levels {
        let lowest = -(base / 2);
        let digit = (rest - lowest).rem_euclid(base) + lowest;
        rest = (rest - digit) / base;
        digits.push(digit as i64);
    }
    digits.reverse();
    digits
}

/// `rgsw [x] rlwe`: `[k + 1]` polynomials, mask then body. `rgsw` is `[l][k + 1][k + 1][N]` words, level 1 first.
pub fn external_product(p: &ParamsLiteral, rgsw: &[u32], rlwe: &[Polynomial]) -> Vec<Polynomial> {
    let (n, components) = (p.polynomial_size, p.glwe_dimension + 1);
    let base = 1 << p.bootstrap_base_log;
    let mut sums = vec![vec![0; n]; components];
    for (component, polynomial) in rlwe.iter().enumerate() {
        let coefficient_digits: Vec<Vec<i64>> =
            polynomial.iter().map(|&x| digits(torus_floor(x), base, p.bootstrap_level_count)).collect();
        for level in 0..p.bootstrap_level_count {
            let digit: Vec<i64> = coefficient_digits.iter().map(|digits| digits[level]).collect();
            let row = &rgsw[(level * components + component) * components * n..][..components * n];
            for (sums, column) in sums.iter_mut().zip(row.chunks_exact(n)) {
                add_negacyclic_product(sums, &digit, column);
            }
        }
    }
    sums.into_iter().map(|sums| sums.into_iter().map(residue).collect()).collect()
}

/// `X^-b~ (0, .., 0, q/8 (1 + .. + X^(N-1)))`, then for every key bit `acc += rgsw_i [x] (X^a~_i acc - acc)`.
/// `exponents` is `[n + 1]`, mask then body.
pub fn blind_rotate(key: &EvaluationKey, exponents: &[usize]) -> Vec<Polynomial> {
    blind_rotate_by(key, exponents, 8)
}

/// Like [`blind_rotate`], with `q / part` in place of `q / 8`.
pub fn blind_rotate_by(key: &EvaluationKey, exponents: &[usize], part: i128) -> Vec<Polynomial> {
    let p = &key.params;
    let (n, k) = (p.polynomial_size, p.glwe_dimension);
    let (&body, mask) = exponents.split_last().expect("a ciphertext has a body");
    let constant = vec![nearest(Q, part) as u32; n];
    let mut accumulator = vec![vec![0; n]; k];
    accumulator.push(rotate(&constant, (2 * n - body) % (2 * n)));
    let mut rgsw = vec![0; p.rgsw_rows() * (k + 1) * n];
    for (i, &exponent) in mask.iter().enumerate() {
        key.expand_bootstrap(i, &mut rgsw);
        let difference: Vec<Polynomial> =
            accumulator.iter().map(|x| combine(&rotate(x, exponent), x, |rotated, x| rotated - x)).collect();
        let product = external_product(p, &rgsw, &difference);
        accumulator = accumulator.iter().zip(&product).map(|(x, y)| combine(x, y, |x, y| x + y)).collect();
    }
    accumulator
}

/// Coefficient 0 of an RLWE ciphertext as an LWE ciphertext on the torus, `[kN + 1]` words.
pub fn sample_extract(accumulator: &[Polynomial]) -> Vec<u32> {
    extract_coefficient(accumulator, 0)
}

/// Coefficient `h` as an LWE ciphertext: mask word j is the coefficient of `X^(h - j)` of the mask polynomial, and `X^N
/// = -1`.
pub fn extract_coefficient(accumulator: &[Polynomial], h: usize) -> Vec<u32> {
    let (body, mask) = accumulator.split_last().expect("a ciphertext has a body");
    let mut out = Vec::new();
    for polynomial in mask {
        let n = polynomial.len();
        out.extend((0..n).map(|j| match h.checked_sub(j) {
            Some(at) => torus_nearest(polynomial[at]),
            None => torus_nearest(residue(-i128::from(polynomial[n + h - j]))),
        }));
    }
    out.push(torus_nearest(body[h]));
    out
}

/// The sum that a cell bootstraps or returns: the sum of the wires is key-switched once, then the inputs and the
/// constant are added.
pub fn cell_sum(key: &EvaluationKey, eighths: i64, wires: &[(i64, &[u32])], inputs: &[(i64, &[u32])]) -> Vec<u32> {
    let mut out = match wires {
        [] => vec![0; key.params.lwe_dimension + 1],
        _ => key_switch(key, &weighted_sum(wires)),
    };
    if !inputs.is_empty() {
        out = weighted_sum(&[&[(1, &out[..])], inputs].concat());
    }
    let body = out.last_mut().expect("a row has a body");
    *body = body.wrapping_add((eighths as u32).wrapping_mul(EIGHTH));
    out
}

fn weighted_sum(terms: &[(i64, &[u32])]) -> Vec<u32> {
    let word = |at: usize| {
        let sum: i128 = terms.iter().map(|(factor, row)| i128::from(*factor) * i128::from(row[at])).sum();
        sum.rem_euclid(TURN) as u32
    };
    (0..terms[0].1.len()).map(word).collect()
}

/// Bootstraps a sum. Returns one or two wires of amplitude `1 / part`.
pub fn cell_wires(key: &EvaluationKey, sum: &[u32], part: i128, wires: usize) -> Vec<Vec<u32>> {
    let accumulator = blind_rotate_by(key, &mod_switch(&key.params, sum), part);
    (0..wires).map(|wire| extract_coefficient(&accumulator, wire * key.params.polynomial_size / 2)).collect()
}

/// Modulus switch, blind rotation and extraction: from `[n + 1]` torus words to `[kN + 1]`.
pub fn bootstrap(key: &EvaluationKey, input: &[u32]) -> Vec<u32> {
    sample_extract(&blind_rotate(key, &mod_switch(&key.params, input)))
}

/// `(0, .., 0, b) - sum over i, j of d_ij row_ij`: from `[kN + 1]` torus words to `[n + 1]`.
pub fn key_switch(key: &EvaluationKey, input: &[u32]) -> Vec<u32> {
    let p = &key.params;
    let (words, levels) = (p.lwe_dimension + 1, p.key_switch_level_count);
    let (&body, mask) = input.split_last().expect("a sample has a body");
    let mut out = vec![0u32; words];
    out[words - 1] = body;
    let mut rows = vec![0; levels * words];
    for (i, &a) in mask.iter().enumerate() {
        key.expand_key_switch(i, &mut rows);
        for (digit, row) in digits(a, i128::from(p.key_switch_base), levels).into_iter().zip(rows.chunks_exact(words)) {
            for (out, &word) in out.iter_mut().zip(row) {
                *out = (i128::from(*out) - i128::from(digit) * i128::from(word)).rem_euclid(TURN) as u32;
            }
        }
    }
    out
}

/// A gate's result: folded if the gate folds, otherwise by its formula.
pub fn gate(key: &EvaluationKey, row: &GateRow) -> Lwe {
    folded(key, row).unwrap_or_else(|| formula(key, row))
}

/// The folded result of a gate, seen as a function of the different values among its operands: a constant, a value or
/// its negation, or a gate of two values in place of three. This function folds by truth tables, the kernels by rules.
fn folded(key: &EvaluationKey, row: &GateRow) -> Option<Lwe> {
    let mut values: Vec<&Lwe> = Vec::new();
    let operands: Vec<Operand> = row.operands.iter().map(|lwe| operand(lwe, &mut values)).collect();
    let plain = |bits: usize| {
        let bit = |operand: &Operand| match *operand {
            Operand::Constant(bit) => bit,
            Operand::Value(at, negated) => (bits >> at & 1 == 1) != negated,
        };
        row.gate.plain(&operands.iter().map(bit).collect::<Vec<_>>())
    };
    let table: Vec<bool> = (0..1 << values.len()).map(plain).collect();
    if table.iter().all(|&bit| bit == table[0]) {
        return Some(Lwe::trivial(row.operands[0].dimension(), table[0]));
    }
    for (at, value) in values.iter().enumerate() {
        if (0..table.len()).all(|bits| table[bits] == (bits >> at & 1 == 1)) {
            return Some(Lwe::new(value.words().to_vec()));
        }
        if (0..table.len()).all(|bits| table[bits] != (bits >> at & 1 == 1)) {
            return Some(Lwe::new(linear(0, &[(value.words(), -1)])));
        }
    }
    if row.gate != Gate::Mux || values.len() == 3 {
        return None;
    }
    let sum = match table.iter().filter(|&&bit| bit).count() {
        // here a = not b
        2 => linear(-2, &[(row.operands[0].words(), -2), (row.operands[2].words(), -2)]),
        trues => {
            // the gate is true for exactly one choice of the two values, or false for exactly one
            let odd = trues == 1;
            let lone = table.iter().position(|&bit| bit == odd).expect("one of the four");
            let factor = |at: usize| if (lone >> at & 1 == 1) == odd { 1 } else { -1 };
            linear(if odd { -1 } else { 1 }, &[(values[0].words(), factor(0)), (values[1].words(), factor(1))])
        }
    };
    Some(Lwe::new(key_switch(key, &bootstrap(key, &sum))))
}

enum Operand {
    Constant(bool),
    /// The value's index, and whether it is negated.
    Value(usize, bool),
}

fn operand<'a>(lwe: &'a Lwe, values: &mut Vec<&'a Lwe>) -> Operand {
    for bit in [false, true] {
        if *lwe == Lwe::trivial(lwe.dimension(), bit) {
            return Operand::Constant(bit);
        }
    }
    let negation = Lwe::new(linear(0, &[(lwe.words(), -1)]));
    if let Some(at) = values.iter().position(|&value| value == lwe) {
        return Operand::Value(at, false);
    }
    if let Some(at) = values.iter().position(|&value| *value == negation) {
        return Operand::Value(at, true);
    }
    values.push(lwe);
    Operand::Value(values.len() - 1, false)
}

/// A gate of different operands by its formula: sum, bootstrap, sum, key switch.
pub fn formula(key: &EvaluationKey, row: &GateRow) -> Lwe {
    let x = |at: usize, factor: i64| (row.operands[at].words(), factor);
    let bootstrapped = |eighths: i64, terms: [(&[u32], i64); 2]| bootstrap(key, &linear(eighths, &terms));
    let sample = match row.gate {
        Gate::Nand => bootstrapped(1, [x(0, -1), x(1, -1)]),
        Gate::And => bootstrapped(-1, [x(0, 1), x(1, 1)]),
        Gate::Or => bootstrapped(1, [x(0, 1), x(1, 1)]),
        Gate::Nor => bootstrapped(-1, [x(0, -1), x(1, -1)]),
        Gate::Xor => bootstrapped(2, [x(0, 2), x(1, 2)]),
        Gate::Xnor => bootstrapped(-2, [x(0, -2), x(1, -2)]),
        Gate::Mux => {
            let chosen = bootstrapped(-1, [x(2, 1), x(0, 1)]);
            let other = bootstrapped(-1, [x(2, -1), x(1, 1)]);
            let bit = Lwe::new(key_switch(key, &linear(1, &[(&chosen, 1), (&other, 1)])));
            bootstrap(key, bit.words())
        }
        Gate::Not => return Lwe::new(linear(0, &[x(0, -1)])),
    };
    Lwe::new(key_switch(key, &sample))
}

/// `eighths / 8 + sum of factor * ciphertext`.
fn linear(eighths: i64, terms: &[(&[u32], i64)]) -> Vec<u32> {
    let words = terms[0].0.len();
    let constant = |at: usize| if at == words - 1 { eighths * i64::from(EIGHTH) } else { 0 };
    let sum = |at: usize| terms.iter().map(|(words, factor)| factor * i64::from(words[at])).sum::<i64>();
    (0..words).map(|at| (constant(at) + sum(at)).rem_euclid(TURN as i64) as u32).collect()
}

fn combine(x: &[u32], y: &[u32], f: impl Fn(i128, i128) -> i128) -> Polynomial {
    x.iter().zip(y).map(|(&x, &y)| residue(f(x.into(), y.into()))).collect()
}

fn residue(x: i128) -> u32 {
    super::residue(RING_MODULUS, x)
}

/// The integer nearest to `x / y`, halves up; `x >= 0`.
fn nearest(x: i128, y: i128) -> i128 {
    (2 * x + y) / (2 * y)
}

#[cfg(test)]
mod tests {
    use kernels::tfhe::Preset;

    use super::*;
    use crate::naive::negacyclic_product;

    #[test]
    fn digits_add_up_to_the_rounded_word() {
        for (base, levels) in [(3, 7), (8, 4), (5, 6), (2, 8), (256, 2), (65536, 2)] {
            let whole = i128::pow(base, levels as u32);
            for i in 0..1000u32 {
                let word = i.wrapping_mul(0x9e37_79b9);
                let digits = digits(word, base, levels);
                assert!(
                    digits.iter().all(|&d| (-(base / 2)..=(base - 1) / 2).contains(&d.into())),
                    "{base} {digits:?}"
                );
                let sum = digits.iter().fold(0, |sum, &digit| sum * base + i128::from(digit));
                // |word / 2^32 - sum / B^l| is at most B^-l / 2, modulo a turn
                let distance = (i128::from(word) * whole - sum * TURN).rem_euclid(TURN * whole);
                assert!(distance.min(TURN * whole - distance) * 2 <= TURN, "{base} {word}");
            }
        }
    }

    #[test]
    fn torus_words_are_near_the_fraction() {
        for i in 0..1000u32 {
            let x = i.wrapping_mul(0x9e37_79b9) % RING_MODULUS;
            let low = torus_nearest(x).wrapping_sub(torus_floor(x));
            assert!(low <= 2, "{x}");
            assert!((i128::from(torus_nearest(x)) * Q - i128::from(x) * TURN).abs() * 2 <= Q, "{x}");
        }
    }

    /// Under a secret of ones, the centred switch moves the phase, up or down, by half of the sum of the mask's
    /// rounding errors. The test has errors of every size and sign.
    #[test]
    fn the_centred_switch_takes_half_of_the_mask_s_errors_from_the_phase() {
        let literal = ParamsLiteral { lwe_dimension: 3, ..*Preset::Fast128.params() };
        for i in 0..1000u32 {
            let mask = [i, i + 1000, i + 2000].map(|i| i.wrapping_mul(0x9e37_79b9));
            let row = [mask[0], mask[1], mask[2], 0];
            let exponents = mod_switch(&literal, &row);
            let nearest = mod_switch(&ParamsLiteral { mod_switch: ModSwitch::Nearest, ..literal }, &row);
            assert_eq!((&exponents[..3], nearest[3]), (&nearest[..3], 0));
            // the rounding errors of the mask's words, in units of 1 / 2N of a turn
            let errors = mask.iter().zip(&exponents).map(|(&word, &exponent)| {
                let error = exponent as f64 - f64::from(word) / f64::from(1 << 21);
                if error < -1.0 { error + 2048.0 } else { error }
            });
            let half = errors.sum::<f64>() / 2.0;
            let body = if exponents[3] > 1024 { exponents[3] as f64 - 2048.0 } else { exponents[3] as f64 };
            assert!((body - half).abs() <= 0.5001, "{i}: {body} {half}");
        }
    }

    #[test]
    fn x_to_the_n_is_minus_one() {
        let p = vec![1, 2, 3, 4];
        let x = [0, 1, 0, 0];
        assert_eq!(negacyclic_product(RING_MODULUS, &x, &p), vec![RING_MODULUS - 4, 1, 2, 3]);
        assert_eq!(rotate(&p, 1), negacyclic_product(RING_MODULUS, &x, &p));
        assert_eq!(rotate(&p, 4), negacyclic_product(RING_MODULUS, &[-1, 0, 0, 0], &p));
        assert_eq!(rotate(&p, 7), negacyclic_product(RING_MODULUS, &[0, 0, 0, -1], &rotate(&p, 0)));
    }
}
