//! Chebyshev series of a ciphertext. [`evaluate`] computes a series in `ceil(log2(degree + 1))` levels. For the degrees
//! 15, 31, 63 and so on (one less than a power of two), these levels are too few, so [`evaluate`] does not support
//! these degrees.

use std::collections::HashMap;

use crate::ckks::plan::{PlanBuilder, Value};

/// Computes the sum of `coefficients[i] T_i(y)`. `scale` returns the scale that values of a level have. The product of two
/// values of these scales has the scale of the level below. The result has the scale of its level.
pub(super) fn evaluate(
    builder: &mut PlanBuilder,
    y: Value,
    coefficients: &[f64],
    scale: &dyn Fn(usize) -> f64,
) -> Value {
    let depth = coefficients.len().next_power_of_two().ilog2() as usize;
    let level = builder.level(y) - depth;
    let mut series = Series { builder, scale, baby: 1 << (depth / 2).max(1), known: HashMap::from([(1, y)]) };
    series.part(coefficients, level, scale(level))
}

struct Series<'a> {
    builder: &'a mut PlanBuilder,
    scale: &'a dyn Fn(usize) -> f64,
    baby: usize,
    known: HashMap<usize, Value>,
}

impl Series<'_> {
    /// Computes `T_k = 2 T_a T_b - T_(a - b)`, where `a` is the largest power of two below `k`, and `b = k - a`.
    fn polynomial(&mut self, k: usize) -> Value {
        if let Some(&known) = self.known.get(&k) {
            return known;
        }
        let a = k.next_power_of_two() / 2;
        let b = k - a;
        let (of_a, of_b) = (self.polynomial(a), self.polynomial(b));
        let level = self.builder.level(of_a).min(self.builder.level(of_b));
        let (of_a, of_b) = (self.at(of_a, level), self.at(of_b, level));
        let product = self.builder.multiply_rescaled(of_a, of_b);
        let doubled = self.builder.multiply_integer(product, 2);
        let value = if a == b {
            self.builder.add_constant(doubled, -1.0)
        } else {
            let less = self.polynomial(a - b);
            let (level, scale) = (self.builder.level(doubled), self.builder.scale(doubled));
            let less = self.builder.lower(less, level, scale);
            self.builder.sub(doubled, less)
        };
        self.builder.bound_numbers(value, 1.0);
        self.known.insert(k, value);
        value
    }

    /// Brings a value down to `level`, which must not be above the value's level, and to the scale of this level.
    fn at(&mut self, value: Value, level: usize) -> Value {
        if self.builder.level(value) == level {
            return value;
        }
        let scale = (self.scale)(level);
        self.builder.lower(value, level, scale)
    }

    /// Computes one part of the series, at exactly this level and scale. A part of a high degree is split into
    /// `high T_g + low`, and `high` and `low` are computed as parts.
    fn part(&mut self, coefficients: &[f64], level: usize, scale: f64) -> Value {
        let degree = coefficients.len() - 1;
        if degree < self.baby {
            return self.sum(coefficients, level, scale);
        }
        let g = (degree + 1).next_power_of_two() / 2;
        // c T_(g + i) = 2 c T_g T_i - c T_(g - i), where c is coefficient g + i
        let mut low = coefficients[..g].to_vec();
        let mut high = vec![0.0; degree - g + 1];
        high[0] = coefficients[g];
        for i in 1..=degree - g {
            high[i] = 2.0 * coefficients[g + i];
            low[g - i] -= coefficients[g + i];
        }
        let power = self.polynomial(g);
        let power = self.at(power, level + 1);
        let divisor = self.builder.params().chain().divisor(level + 1, level);
        let high = self.part(&high, level + 1, scale * divisor / self.builder.scale(power));
        let product = self.builder.multiply_rescaled(high, power);
        let scale = self.builder.scale(product);
        let low = self.part(&low, level, scale);
        self.builder.add(product, low)
    }

    fn sum(&mut self, coefficients: &[f64], level: usize, scale: f64) -> Value {
        let divisor = self.builder.params().chain().divisor(level + 1, level);
        let mut sum: Option<Value> = None;
        for (k, &constant) in coefficients.iter().enumerate().skip(1) {
            let of_k = self.polynomial(k);
            let of_k = self.at(of_k, level + 1);
            let by = scale * divisor / self.builder.scale(of_k);
            let term = self.builder.multiply_constant(of_k, constant, by);
            sum = Some(match sum {
                None => term,
                Some(sum) => self.builder.add(sum, term),
            });
        }
        let sum = sum.unwrap_or_else(|| {
            let y = self.known[&1];
            let y = self.at(y, level + 1);
            let by = scale * divisor / self.builder.scale(y);
            self.builder.multiply_constant(y, 0.0, by)
        });
        let sum = self.builder.rescale(sum);
        self.builder.add_constant(sum, coefficients[0])
    }
}
