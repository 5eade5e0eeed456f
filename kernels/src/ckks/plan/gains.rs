//! The error of a polynomial, from the gains of its steps.
//!
//! Every value on the way from `x` to the result is a polynomial in the number `x` of a slot. A small error of such a
//! value changes the result by the error times a gain: the derivative of the result by this value. Gains follow from the
//! result back to `x` by the chain rule, at sample points of the range of `x`. The sum over the steps without gains
//! would count terms of opposite signs as if they could not cancel, which costs many bits for alternating
//! coefficients.
//!
//! The points are the extrema of the Chebyshev polynomial of degree `4 D`, where `D` is the degree of the result. The
//! largest magnitude of a polynomial of degree `D` on the whole range is at most `1 / cos(pi / 8)` times the largest one
//! at these points (Ehlich, Zeller, Mathematische Zeitschrift 86, 1964).

use super::builder::{Node, PlanBuilder};
use super::{Step, Value};
use crate::ckks::noise::Noise;

/// Sample points for each degree of the polynomial.
const POINTS_OF_DEGREE: usize = 4;
/// `1 / cos(pi / 8)`: bound on the ratio of the largest magnitude on the range to the largest one at a sample point.
const BETWEEN_POINTS: f64 = 1.082_392_200_292_394;

/// Computes the noise of `result`, a polynomial of this degree in the real number of each slot of `x`. All steps after
/// `x` are steps of the polynomial.
///
/// # Panics
/// When a step after `x` is none of a polynomial.
pub fn of_polynomial(builder: &PlanBuilder, x: Value, result: Value, degree: usize) -> Noise {
    let nodes = &builder.nodes[x.0..=result.0];
    let node = |value: Value| &builder.nodes[value.0];
    let bound = node(x).noise.value_bound;
    let intervals = POINTS_OF_DEGREE * degree.max(1);
    let points: Vec<f64> =
        (0..=intervals).map(|i| bound * libm::cos(std::f64::consts::PI * i as f64 / intervals as f64)).collect();
    let values = values(nodes, x.0, &points);
    let gains = gains(nodes, x.0, &values);
    let largest = |at: &[f64]| BETWEEN_POINTS * at.iter().fold(0.0f64, |largest, v| largest.max(v.abs()));

    let (first, scale) = (node(x), node(result).scale);
    let own = |(node, gains): (&Node, &Vec<f64>)| {
        let gain = largest(gains) * scale / node.scale;
        [gain * gain * node.own.variance, gain * node.own.bound]
    };
    let of_steps = nodes.iter().zip(&gains).skip(1).map(own);
    let [of_steps, fixed] = of_steps.fold([0.0; 2], |[sum, more], [variance, bound]| [sum + variance, more + bound]);
    let of_x = (largest(&gains[0]) * scale / first.scale).powi(2) * first.noise.variance;
    let value_bound = largest(&values[nodes.len() - 1]).min(node(result).noise.value_bound);
    Noise::new(value_bound, of_x + of_steps).deviate(fixed, builder.params().n())
}

/// Computes the variance of the error of `result` in a coefficient, for numbers of `x` that are known: `points` has each
/// number and its probability. All steps after `x` are steps of a polynomial.
///
/// # Panics
/// When a step after `x` is none of a polynomial.
pub fn mean_variance(builder: &PlanBuilder, x: Value, result: Value, points: &[(f64, f64)]) -> f64 {
    let nodes = &builder.nodes[x.0..=result.0];
    let numbers: Vec<f64> = points.iter().map(|(number, _)| *number).collect();
    let gains = gains(nodes, x.0, &values(nodes, x.0, &numbers));
    let scale = nodes[nodes.len() - 1].scale;
    let mean = |gains: &[f64]| gains.iter().zip(points).map(|(gain, (_, share))| share * gain * gain).sum::<f64>();
    let of_step = |(node, gains): (&Node, &Vec<f64>)| mean(gains) * (scale / node.scale).powi(2) * node.own.variance;
    let of_x = mean(&gains[0]) * (scale / nodes[0].scale).powi(2) * nodes[0].noise.variance;
    of_x + nodes.iter().zip(&gains).skip(1).map(of_step).sum::<f64>()
}

/// The number that each value holds at each sample point.
fn values(nodes: &[Node], first: usize, points: &[f64]) -> Vec<Vec<f64>> {
    let mut values: Vec<Vec<f64>> = vec![points.to_vec()];
    for node in &nodes[1..] {
        let of = |value: Value| &values[value.0 - first];
        let scale = |value: Value| nodes[value.0 - first].scale;
        let pairs = |a: Value, b: Value, with: fn(f64, f64) -> f64| {
            of(a).iter().zip(of(b)).map(|(&a, &b)| with(a, b)).collect()
        };
        let next = match *node.step.as_ref().expect("a step after the input") {
            Step::Add(a, b) => pairs(a, b, |a, b| a + b),
            Step::Sub(a, b) => pairs(a, b, |a, b| a - b),
            Step::Multiply { a, b, .. } => pairs(a, b, |a, b| a * b),
            Step::SumOfProducts { pairs: ref of, plus } => {
                let term = |point: usize| {
                    let products = of.iter().map(|&(a, b)| values[a.0 - first][point] * values[b.0 - first][point]);
                    products.sum::<f64>() + plus.map_or(0.0, |plus| values[plus.0 - first][point])
                };
                (0..points.len()).map(term).collect()
            }
            Step::MultiplyInteger(a, factor) => {
                let factor = factor as f64 * scale(a) / node.scale;
                of(a).iter().map(|a| a * factor).collect()
            }
            Step::AddInteger(a, number) => of(a).iter().map(|a| a + number as f64 / node.scale).collect(),
            Step::Divide { a, .. } => of(a).clone(),
            ref other => panic!("{other:?} is no step of a polynomial"),
        };
        values.push(next);
    }
    values
}

/// The derivative of the last value by each value, at each sample point.
fn gains(nodes: &[Node], first: usize, values: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut gains = vec![vec![0.0; values[0].len()]; nodes.len()];
    gains[nodes.len() - 1].fill(1.0);
    for (at, node) in nodes.iter().enumerate().skip(1).rev() {
        let (before, after) = gains.split_at_mut(at);
        let gain = &after[0];
        let mut pass = |to: Value, factor: &dyn Fn(usize) -> f64| {
            let to = &mut before[to.0 - first];
            to.iter_mut().zip(gain).enumerate().for_each(|(point, (to, gain))| *to += gain * factor(point));
        };
        match *node.step.as_ref().expect("a step after the input") {
            Step::Add(a, b) => [a, b].into_iter().for_each(|term| pass(term, &|_| 1.0)),
            Step::Sub(a, b) => {
                pass(a, &|_| 1.0);
                pass(b, &|_| -1.0);
            }
            Step::Multiply { a, b, .. } => {
                pass(a, &|point| values[b.0 - first][point]);
                pass(b, &|point| values[a.0 - first][point]);
            }
            Step::SumOfProducts { pairs: ref of, plus } => {
                for &(a, b) in of.iter() {
                    pass(a, &|point| values[b.0 - first][point]);
                    pass(b, &|point| values[a.0 - first][point]);
                }
                plus.into_iter().for_each(|plus| pass(plus, &|_| 1.0));
            }
            Step::MultiplyInteger(a, factor) => {
                let factor = factor as f64 * nodes[a.0 - first].scale / node.scale;
                pass(a, &|_| factor);
            }
            Step::AddInteger(a, _) | Step::Divide { a, .. } => pass(a, &|_| 1.0),
            ref other => panic!("{other:?} is no step of a polynomial"),
        }
    }
    gains
}
