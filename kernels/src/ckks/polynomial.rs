//! Polynomials of ciphertexts in the fewest levels: `ceil(log2(degree + 1))` (Paterson, Stockmeyer 1973; with exact scales as in
//! Lee, Lee, Kim, Kim, No, eprint 2020/1549).
//!
//! `p = high x^g + low`, where `g` is a power of two, is split until each part is a sum of known powers times
//! constants. Such a sum takes one level more than its highest power. A part without that spare level is split down to
//! degree 1. Products whose results have the same level and scale are relinearized and rescaled as one sum (lazy
//! relinearization).

use std::collections::HashMap;

use super::plan::{PlanBuilder, Value};

/// Largest number of coefficients (specification, Limits).
pub const COEFFICIENTS_MAX: usize = 65;

/// Returns the number of levels that a polynomial with `coefficients` coefficients takes.
pub fn levels(coefficients: usize) -> usize {
    coefficients.next_power_of_two().ilog2() as usize
}

/// Returns the coefficients without the zeros at the end, but at least one coefficient.
pub fn used(coefficients: &[f64]) -> &[f64] {
    let last = coefficients.iter().rposition(|&c| c != 0.0).unwrap_or(0);
    &coefficients[..coefficients.len().min(last + 1)]
}

/// Evaluates a polynomial at `x`. The coefficients begin with the constant. The result is [`levels`] levels below `x`,
/// at the default scale of its level. A coefficient of 0 takes no step, and only the [`used`] coefficients count.
///
/// # Panics
/// When `x` has fewer than [`levels`] levels, or a coefficient is not finite.
pub fn evaluate(builder: &mut PlanBuilder, x: Value, coefficients: &[f64]) -> Value {
    assert!(coefficients.iter().all(|c| c.is_finite()), "finite coefficients");
    let coefficients = used(coefficients);
    let level = builder.level(x).checked_sub(levels(coefficients.len())).expect("a polynomial has its levels");
    let scale = if level == builder.level(x) { builder.scale(x) } else { builder.params().level(level).scale };
    let depth = levels(coefficients.len());
    // x^k is computed for k up to `baby`; above `baby`, only if k is a power of two
    let baby = 1 << (depth / 2).max(1);
    let mut powers = Powers { builder, x, baby, known: HashMap::new(), lowered: HashMap::new() };
    if depth == 0 {
        return powers.constant(coefficients[0]);
    }
    powers.part(coefficients, level, scale)
}

/// Powers of `x`, each at the highest possible level.
struct Powers<'a> {
    builder: &'a mut PlanBuilder,
    x: Value,
    baby: usize,
    known: HashMap<usize, Value>,
    lowered: HashMap<(usize, usize), Value>,
}

impl Powers<'_> {
    /// Computes `x^k`, `ceil(log2 k)` levels below `x`.
    fn power(&mut self, k: usize) -> Value {
        if k == 1 {
            return self.x;
        }
        if let Some(&known) = self.known.get(&k) {
            return known;
        }
        let half = k.next_power_of_two() / 2;
        let (a, b) = (self.power(half), self.power(k - half));
        let level = self.builder.level(a).min(self.builder.level(b));
        let (a, b) = (self.at(a, level), self.at(b, level));
        let product = self.builder.multiply_rescaled(a, b);
        self.known.insert(k, product);
        product
    }

    /// Brings a value down to `level`, which must not be above the value's level. A lowered value gets the default
    /// scale of `level`.
    fn at(&mut self, value: Value, level: usize) -> Value {
        if self.builder.level(value) == level {
            return value;
        }
        let scale = self.builder.params().level(level).scale;
        self.builder.lower(value, level, scale)
    }

    /// Computes `x^k` and brings it down to a level.
    fn power_at(&mut self, k: usize, level: usize) -> Value {
        if let Some(&found) = self.lowered.get(&(k, level)) {
            return found;
        }
        let power = self.power(k);
        let found = self.at(power, level);
        self.lowered.insert((k, level), found);
        found
    }

    /// Computes one part of the split polynomial, at exactly this level and scale. All products of the part whose results
    /// have this level are relinearized and rescaled as one sum.
    fn part(&mut self, coefficients: &[f64], level: usize, scale: f64) -> Value {
        let mut sum = Sum::default();
        self.add_part(&mut sum, coefficients, level, scale);
        let plus = sum.terms.into_iter().reduce(|a, b| self.builder.add(a, b));
        let value = match (&sum.pairs[..], plus) {
            ([], plus) => self.builder.rescale(plus.expect("a part has a term")),
            (&[(a, b)], None) => self.builder.multiply_rescaled(a, b),
            (pairs, plus) => self.builder.sum_of_products(pairs, plus),
        };
        match sum.constant {
            0.0 => value,
            constant => self.builder.add_constant(value, constant),
        }
    }

    /// Adds the products, terms and constant of a part to `sum`. The part has this level and scale after the rescale.
    fn add_part(&mut self, sum: &mut Sum, coefficients: &[f64], level: usize, scale: f64) {
        let coefficients = used(coefficients);
        let degree = coefficients.len() - 1;
        if self.is_sum(degree, level) {
            return self.add_powers(sum, coefficients, level, scale);
        }
        let g = (degree + 1).next_power_of_two() / 2;
        let (low, high) = coefficients.split_at(g);
        let power = self.power_at(g, level + 1);
        // with `high` at this scale, the rescaled product has the requested scale
        let divisor = self.builder.params().chain().divisor(level + 1, level);
        let high_scale = scale * divisor / self.builder.scale(power);
        let high = self.part(high, level + 1, high_scale);
        sum.pairs.push((high, power));
        if low.iter().any(|&c| c != 0.0) {
            let scale = self.builder.scale(high) * self.builder.scale(power) / divisor;
            self.add_part(sum, low, level, scale);
        }
    }

    /// Whether a part is computed as a sum of powers. This is so if the part has few terms, and one level is left for
    /// the constants.
    fn is_sum(&self, degree: usize, level: usize) -> bool {
        let powers = degree.max(1).next_power_of_two().ilog2() as usize;
        degree <= 1 || (degree < self.baby && level + 1 + powers <= self.builder.level(self.x))
    }

    /// Adds the terms of the sum of `coefficients[i] x^i`, which has this level and scale after a rescale.
    fn add_powers(&mut self, sum: &mut Sum, coefficients: &[f64], level: usize, scale: f64) {
        let scale = scale * self.builder.params().chain().divisor(level + 1, level);
        for (k, &constant) in coefficients.iter().enumerate().skip(1).filter(|(_, c)| **c != 0.0) {
            let power = self.power_at(k, level + 1);
            let by = scale / self.builder.scale(power);
            sum.terms.push(self.builder.multiply_constant(power, constant, by));
        }
        if sum.terms.is_empty() && sum.pairs.is_empty() {
            // a constant is computed as x times 0, plus the constant
            let x = self.power_at(1, level + 1);
            let by = scale / self.builder.scale(x);
            sum.terms.push(self.builder.multiply_constant(x, 0.0, by));
        }
        sum.constant += coefficients[0];
    }

    /// Computes a polynomial of degree 0, at the level and scale of `x`.
    fn constant(&mut self, constant: f64) -> Value {
        let zero = self.builder.multiply_constant(self.x, 0.0, 1.0);
        if constant == 0.0 { zero } else { self.builder.add_constant(zero, constant) }
    }
}

/// A part of the polynomial before its rescale: a sum of products and of terms, one level above the part. The constant is
/// added after the rescale.
#[derive(Default)]
struct Sum {
    pairs: Vec<(Value, Value)>,
    terms: Vec<Value>,
    constant: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckks::noise::Noise;
    use crate::ckks::plan::{Plan, Step};
    use crate::ckks::{Params, ParamsLiteral, SecurityLevel};

    fn plan(coefficients: &[f64]) -> Plan {
        let security = SecurityLevel::Testing;
        let literal = ParamsLiteral { poly_degree: 64, scale_bits: 40, max_depth: 7, security, bootstrap: false };
        let params = Params::new(literal).unwrap();
        let mut builder = PlanBuilder::new(&params);
        let x = builder.input(7, params.level(7).scale, Noise::encrypt_secret(1.0));
        let value = evaluate(&mut builder, x, coefficients);
        builder.finish(&[value])
    }

    /// Computes the plan's steps in plain numbers, with `x` as the input, and returns the result.
    fn value(plan: &Plan, x: f64) -> f64 {
        let mut values: HashMap<usize, f64> = HashMap::new();
        let slot = |value| plan.value(value).slots[0] as usize;
        values.insert(plan.inputs().next().unwrap().slots[0] as usize, x);
        for step in plan.steps() {
            let read: Vec<f64> = step.step.reads().map(|read| values[&slot(read)]).collect();
            let scales: Vec<f64> = step.step.reads().map(|read| plan.value(read).scale).collect();
            let scale = plan.value(step.result).scale;
            let result = match step.step.clone() {
                Step::Add(..) => read[0] + read[1],
                Step::Multiply { .. } => read[0] * read[1],
                Step::SumOfProducts { pairs, .. } => {
                    let products = read.chunks(2).take(pairs.len()).map(|pair| pair[0] * pair[1]);
                    products.sum::<f64>() + read[2 * pairs.len()..].iter().sum::<f64>()
                }
                Step::MultiplyInteger(_, c) => read[0] * scales[0] * c as f64 / scale,
                Step::AddInteger(_, c) => read[0] + c as f64 / scale,
                Step::Divide { .. } => read[0],
                other => panic!("no polynomial has {other:?}"),
            };
            values.insert(slot(step.result), result);
        }
        values[&(plan.outputs().next().unwrap().slots[0] as usize)]
    }

    #[test]
    fn every_degree_is_evaluated_in_the_fewest_levels_at_the_default_scale() {
        for count in 1..=COEFFICIENTS_MAX {
            let coefficients: Vec<f64> = (0..count).map(|i| ((i * 37 % 19) as f64 - 9.0) / 9.5).collect();
            let plan = plan(&coefficients);
            let output = plan.outputs().next().unwrap();
            let used = coefficients.iter().rposition(|&c| c != 0.0).unwrap_or(0) + 1;
            assert_eq!(output.level, 7 - levels(used), "{count} coefficients");
            let default = if used == 1 { output.scale } else { plan.params().level(output.level).scale };
            assert!((output.scale / default - 1.0).abs() < 1e-9, "{count}: {} {default}", output.scale);
            for x in [0.0, 0.5, -0.9, 1.0] {
                let expected = coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c);
                assert!((value(&plan, x) - expected).abs() < 1e-8, "{count} coefficients at {x}");
            }
        }
    }

    #[test]
    fn a_polynomial_takes_few_relinearizations() {
        let products = |plan: &Plan| plan.key_switches();
        assert_eq!([4, 8, 16, 32, 64, 65].map(|count| products(&plan(&vec![1.0; count]))), [2, 4, 7, 10, 15, 14]);
        assert!(products(&plan(&[0.5, 0.2, 0.0, -0.01, 0.0, 0.001, 0.0, -1e-5])) <= 5);
    }

    #[test]
    fn polynomials_of_nothing_are_constants_and_leading_zeros_take_no_level() {
        let constant = plan(&[3.0, 0.0, 0.0]);
        assert_eq!((constant.outputs().next().unwrap().level, (value(&constant, 0.7) * 1e9).round()), (7, 3e9));
        let zero = plan(&[0.0]);
        assert_eq!(value(&zero, 0.7), 0.0);
        let line = plan(&[1.0, 2.0, 0.0, 0.0, 0.0]);
        assert_eq!(line.outputs().next().unwrap().level, 6);
    }
}
