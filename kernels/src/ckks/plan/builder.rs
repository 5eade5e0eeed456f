//! Collects the steps of a plan, and the level, scale and noise of every value.

use super::{Plain, Plan, SCALE_DRIFT_MAX, SCALE_TOLERANCE, Step, Term, Value};
use crate::ckks::noise::Noise;
use crate::ckks::params::{Params, PartKind};

#[derive(Clone, Debug)]
pub(super) struct Node {
    /// `None` for an input.
    pub(super) step: Option<Step>,
    pub(super) level: usize,
    pub(super) scale: f64,
    pub(super) noise: Noise,
    /// The part of the error that the step itself adds.
    pub(super) own: Own,
    /// The inputs on which the value depends: bit `i` for input `i`.
    of_inputs: u8,
}

/// The error that a step adds to the errors of the values that it reads, in units of 1 (not divided by the scale).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    /// Variance of a coefficient's error.
    pub(super) variance: f64,
    /// Bound on a further error, which may be the same in all slots: a constant, or a scale, was rounded.
    pub(super) bound: f64,
}

/// A plaintext with its words.
#[derive(Clone, Debug)]
pub(super) struct PlainNode {
    pub(super) level: usize,
    /// `[primes of the level][N]`, in the order of [`crate::ring::Ring::forward`].
    pub(super) words: Vec<u32>,
    scale: f64,
    value_bound: f64,
}

/// Collects the steps of a plan. Errors of two values are assumed to be correlated, unless the values depend on
/// different inputs, and the caller knows that all inputs have independent errors ([`PlanBuilder::independent_inputs`]).
/// So the noise of a result is an upper estimate.
///
/// # Panics
/// The methods panic on values of another plan, on levels that do not fit, and on scales that differ by more than
/// rounding, in a sum by more than [`SCALE_DRIFT_MAX`]. Callers check outside input first.
pub struct PlanBuilder {
    pub(super) params: Params,
    pub(super) nodes: Vec<Node>,
    pub(super) inputs: Vec<Value>,
    pub(super) plains: Vec<PlainNode>,
    /// Level of the key parts that the noise estimate assumes, because the estimate depends on the parts' digits.
    key_level: usize,
    /// Whether different inputs have independent errors.
    independent_inputs: bool,
}

impl PlanBuilder {
    /// Makes an empty builder.
    pub fn new(params: &Params) -> PlanBuilder {
        let key_level = params.raised_level();
        let (nodes, inputs, plains) = (Vec::new(), Vec::new(), Vec::new());
        PlanBuilder { params: params.clone(), nodes, inputs, plains, key_level, independent_inputs: false }
    }

    /// The caller knows that the inputs' errors are independent of each other.
    pub fn independent_inputs(&mut self) {
        self.independent_inputs = true;
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The level of a value.
    pub fn level(&self, value: Value) -> usize {
        self.nodes[value.0].level
    }

    /// The exact scale of a value.
    pub fn scale(&self, value: Value) -> f64 {
        self.nodes[value.0].scale
    }

    /// Bounds on a value's numbers and error.
    pub fn noise(&self, value: Value) -> Noise {
        self.nodes[value.0].noise
    }

    /// Adds the next input ciphertext.
    pub fn input(&mut self, level: usize, scale: f64, noise: Noise) -> Value {
        assert!(level <= self.params.raised_level(), "a level of the parameters");
        let value = self.push(None, level, scale, noise, Own::default());
        self.nodes[value.0].of_inputs = 1 << self.inputs.len();
        self.inputs.push(value);
        value
    }

    /// Adds a plaintext of this level and scale, with values up to `value_bound`. `words` are
    /// `[primes of the level][N]` in the order of [`crate::ring::Ring::forward`], or none in a plan that no device runs.
    pub fn plain(&mut self, level: usize, words: Vec<u32>, scale: f64, value_bound: f64) -> Plain {
        let whole = self.params.level(level).primes.len() * self.params.n();
        assert!(words.is_empty() || words.len() == whole, "a row a prime of the level");
        self.plains.push(PlainNode { level, words, scale, value_bound });
        Plain(self.plains.len() - 1)
    }

    /// Adds the step `a + b`. Both ciphertexts have the same level and, but for a drift, the same scale.
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.sum(a, b, Step::Add(a, b))
    }

    /// Adds the step `a - b`. Both ciphertexts have the same level and, but for a drift, the same scale.
    pub fn sub(&mut self, a: Value, b: Value) -> Value {
        self.sum(a, b, Step::Sub(a, b))
    }

    /// Adds a step that computes `-a`.
    pub fn negate(&mut self, a: Value) -> Value {
        self.multiply_integer(a, -1)
    }

    /// Adds the step `a + plain`. The plaintext has the ciphertext's level and scale.
    pub fn add_plain(&mut self, a: Value, plain: Plain) -> Value {
        let Node { level, scale, noise, .. } = self.nodes[a.0];
        let PlainNode { level: of_plain, scale: plain_scale, value_bound, .. } = self.plains[plain.0];
        assert!(of_plain == level && same_scale(scale, plain_scale), "a plaintext of the ciphertext's level and scale");
        let n = self.params.n();
        self.push_after(Step::AddPlain(a, plain), level, scale, noise, |noise| noise.add_plain(n, scale, value_bound))
    }

    /// Adds the step `a plain`. The scale of the result is the product of the scales of `a` and `plain`.
    pub fn multiply_plain(&mut self, a: Value, plain: Plain) -> Value {
        let Node { level, scale, noise, .. } = self.nodes[a.0];
        let PlainNode { level: of_plain, scale: plain_scale, value_bound, .. } = self.plains[plain.0];
        assert_eq!(of_plain, level, "a plaintext of the ciphertext's level");
        let n = self.params.n();
        let after = |noise: Noise| noise.multiply_plain(n, [scale, plain_scale], value_bound);
        self.push_after(Step::MultiplyPlain(a, plain), level, scale * plain_scale, noise, after)
    }

    /// Adds a step that computes the sum of each ciphertext times its plaintext. The ciphertexts have the same level
    /// and the same scale; the plaintexts have the scale `plain_scale` and values up to `value_bound`. The scale of the
    /// result is the product of both scales.
    ///
    /// # Panics
    /// When there is no term.
    pub fn weighted_sum(&mut self, terms: Vec<Term>, plain_scale: f64, value_bound: f64) -> Value {
        let Node { level, scale, .. } = self.nodes[terms[0].value.0];
        let n = self.params.n();
        let of_term = |term: &Term| {
            let node = &self.nodes[term.value.0];
            assert!(node.level == level && same_scale(node.scale, scale), "terms of one level and one scale");
            let sized = term.weights.as_ref().is_none_or(|weights| weights.polynomial_size() == n);
            assert!(sized, "a plaintext of the degree");
            let product = |noise: Noise| noise.multiply_plain(n, [scale, plain_scale], value_bound);
            let own = product(Noise { variance: 0.0, ..node.noise }).variance;
            (product(node.noise), Own { variance: own, bound: 0.0 })
        };
        let scale = scale * plain_scale;
        let add = |(sum, own): (Noise, Own), (noise, more): (Noise, Own)| {
            (sum.add(noise, [scale; 2], n), Own { variance: own.variance + more.variance, bound: 0.0 })
        };
        let (noise, own) = terms.iter().map(of_term).reduce(add).expect("a term");
        self.push(Some(Step::WeightedSum(terms.into())), level, scale, noise, own)
    }

    /// Adds a step that multiplies `a` by a whole number. The scale stays the same.
    pub fn multiply_integer(&mut self, a: Value, factor: i128) -> Value {
        let Node { level, scale, noise, .. } = self.nodes[a.0];
        let after = |noise: Noise| noise.multiply_number(factor as f64);
        self.push_after(Step::MultiplyInteger(a, factor), level, scale, noise, after)
    }

    /// Adds a step that multiplies `a` by a constant, the same for every slot and rounded to a multiple of `1 / by`.
    /// The scale of the result is `by` times the scale of `a`.
    pub fn multiply_constant(&mut self, a: Value, constant: f64, by: f64) -> Value {
        let Node { level, scale, noise, .. } = self.nodes[a.0];
        let factor = (constant * by).round();
        let scaled = noise.multiply_number(factor);
        // the rounding error of the factor
        let off = (constant * by - factor).abs() * scale * noise.value_bound;
        let rounded = scaled.deviate(off, self.params.n());
        let noise = Noise { value_bound: noise.value_bound * constant.abs(), ..rounded };
        let own = Own { variance: 0.0, bound: off };
        self.push(Some(Step::MultiplyInteger(a, factor as i128)), level, scale * by, noise, own)
    }

    /// Adds a step that adds a constant to `a`, the same for every slot and rounded to a multiple of 1 divided by the
    /// scale of `a`.
    pub fn add_constant(&mut self, a: Value, constant: f64) -> Value {
        let Node { level, scale, noise, .. } = self.nodes[a.0];
        let number = (constant * scale).round() as i128;
        let n = self.params.n();
        let after = |noise: Noise| noise.add_plain(n, scale, constant.abs());
        self.push_after(Step::AddInteger(a, number), level, scale, noise, after)
    }

    /// Adds the step `a b`. The result has the level of `a` and `b`, and its scale is the product of their scales.
    pub fn multiply(&mut self, a: Value, b: Value) -> Value {
        let (level, scale, product) = self.product(a, b);
        let after = |noise: Noise| noise.key_switch(&self.params, PartKind::Relinearization, self.key_level, level);
        let (noise, own) = (after(product.noise), Own { variance: after(product.small).variance, bound: 0.0 });
        self.push(Some(Step::Multiply { a, b, to: level }), level, scale, noise, own)
    }

    /// Adds a step that multiplies `a` by `b` and rescales the product to the level below.
    pub fn multiply_rescaled(&mut self, a: Value, b: Value) -> Value {
        let (level, scale, product) = self.product(a, b);
        assert!(level > 0, "factors of a level above 0");
        let scale = scale / self.params.chain().divisor(level, level - 1);
        let after = |noise: Noise| noise.relinearize_rescale(&self.params, self.key_level, level, level - 1);
        let (noise, own) = (after(product.noise), Own { variance: after(product.small).variance, bound: 0.0 });
        self.push(Some(Step::Multiply { a, b, to: level - 1 }), level - 1, scale, noise, own)
    }

    /// Adds a step that computes the sum of `a b` over all pairs and of `plus`, and rescales the sum to the level below.
    /// All factors and `plus` have one level. All products and `plus` have, but for a drift, the same scale.
    ///
    /// # Panics
    /// When there is no pair, or the level is 0.
    pub fn sum_of_products(&mut self, pairs: &[(Value, Value)], plus: Option<Value>) -> Value {
        let n = self.params.n();
        let mut terms: Vec<(usize, f64, Product)> = pairs.iter().map(|&(a, b)| self.product(a, b)).collect();
        terms.extend(plus.map(|plus| {
            let Node { level, scale, noise, .. } = self.nodes[plus.0];
            (level, scale, Product { noise, small: Noise::new(0.0, 0.0) })
        }));
        let level = terms[0].0;
        assert!(level > 0, "factors of a level above 0");
        // as in a sum, the scale of the largest numbers is that of the result, because a drift is an error relative to them
        let bound = |(_, _, product): &(usize, f64, Product)| product.noise.value_bound;
        let largest = terms.iter().max_by(|a, b| bound(a).total_cmp(&bound(b))).expect("a pair").1;
        let mut own = Own::default();
        let (mut sum, mut small) = (Noise::new(0.0, 0.0), Noise::new(0.0, 0.0));
        for (of, scale, product) in &terms {
            assert_eq!(*of, level, "terms of one level");
            assert!(drift(*scale, largest) < SCALE_DRIFT_MAX, "terms of one scale: {scale} and {largest}");
            sum = sum.add(product.noise, [largest, *scale], n);
            small = small.add(product.small, [largest, *scale], n);
            own.bound +=
                product.noise.value_bound * (scale - largest).abs() / self.params.chain().divisor(level, level - 1);
        }
        let after = |noise: Noise| noise.relinearize_rescale(&self.params, self.key_level, level, level - 1);
        own.variance = after(Noise::new(0.0, small.variance)).variance;
        let (noise, scale) = (after(sum), largest / self.params.chain().divisor(level, level - 1));
        self.push(Some(Step::SumOfProducts { pairs: pairs.into(), plus }), level - 1, scale, noise, own)
    }

    /// Adds a step that brings `a` to the level below. The scale is divided by [`super::super::Chain::divisor`].
    pub fn rescale(&mut self, a: Value) -> Value {
        let Node { level, scale, noise, .. } = self.nodes[a.0];
        assert!(level > 0, "level 0 has none below");
        let scale = scale / self.params.chain().divisor(level, level - 1);
        let params = self.params.clone();
        let after = |noise: Noise| noise.rescale(&params, level, level - 1, 1.0);
        self.push_after(Step::Divide { a, to: level - 1, factor: 1 }, level - 1, scale, noise, after)
    }

    /// Adds a step that brings `a` to the lower level `to` and to the scale `scale`, by a whole factor. The factor is
    /// rounded, so the result's scale has a relative difference of about `2^-40` from `scale`, or of `2^-scale_bits` for
    /// the level directly below ([`super::super::Chain::divided`]).
    pub fn lower(&mut self, a: Value, to: usize, scale: f64) -> Value {
        let Node { level, scale: before, noise, .. } = self.nodes[a.0];
        assert!(to < level, "a lower level");
        let divisor = self.params.chain().divisor(level, to);
        let factor = (scale * divisor / before).round().max(1.0);
        assert!(factor < (1u128 << 120) as f64, "a scale that the levels between have room for");
        let params = self.params.clone();
        let after = |noise: Noise| noise.rescale(&params, level, to, factor);
        self.push_after(Step::Divide { a, to, factor: factor as u128 }, to, before * factor / divisor, noise, after)
    }

    /// Adds a step that raises `a`, a ciphertext of level 0, to the highest level of the chain.
    pub fn raise(&mut self, a: Value) -> Value {
        let Node { level, scale, noise, .. } = self.nodes[a.0];
        assert_eq!(level, 0, "level 0 is raised");
        let top = self.params.raised_level();
        self.push_after(Step::Raise(a), top, scale, noise, |noise| noise)
    }

    /// Adds a step that switches `a` to another secret.
    pub fn switch(&mut self, a: Value, kind: PartKind) -> Value {
        let Node { level, scale, noise, .. } = self.nodes[a.0];
        let key_level = if kind == PartKind::ToSparse { 0 } else { self.key_level };
        let params = self.params.clone();
        let after = |noise: Noise| noise.key_switch(&params, kind, key_level, level);
        self.push_after(Step::Switch { a, kind }, level, scale, noise, after)
    }

    /// Adds a step that computes `a(X^element)`.
    pub fn automorphism(&mut self, a: Value, element: u32) -> Value {
        let Node { level, scale, noise, .. } = self.nodes[a.0];
        let (params, key_level) = (self.params.clone(), self.key_level);
        let after = |noise: Noise| noise.key_switch(&params, PartKind::Galois(element), key_level, level);
        self.push_after(Step::Automorphism { a, element }, level, scale, noise, after)
    }

    /// Adds a step that computes the sum of `a` and of `a(X^element)` for each element.
    ///
    /// # Panics
    /// When there is no element.
    pub fn add_images(&mut self, a: Value, elements: &[u32]) -> Value {
        let Node { level, scale, noise, .. } = self.nodes[a.0];
        let (params, key_level) = (self.params.clone(), self.key_level);
        let (kind, count) = (PartKind::Galois(elements[0]), elements.len() as f64);
        // all terms have the error of `a`, at other places
        let after = |noise: Noise| {
            let switched = Noise::new(0.0, 0.0).key_switch(&params, kind, key_level, level).variance;
            let sum = noise.multiply_number(count + 1.0);
            Noise { variance: sum.variance + count * switched, ..sum }
        };
        self.push_after(Step::AddImages { a, elements: elements.into() }, level, scale, noise, after)
    }

    /// Reinterprets a value at another scale: the value's numbers change by the ratio of both scales, without a
    /// computation.
    pub fn read_at(&mut self, value: Value, scale: f64) {
        let node = &mut self.nodes[value.0];
        node.noise.value_bound *= node.scale / scale;
        node.scale = scale;
    }

    /// Lowers the bound on a value's numbers, because the caller knows more than the steps imply.
    pub fn bound_numbers(&mut self, value: Value, value_bound: f64) {
        let noise = &mut self.nodes[value.0].noise;
        noise.value_bound = noise.value_bound.min(value_bound);
    }

    /// Replaces the noise estimate of a value. Callers use this when they know more than the steps imply.
    pub fn set_noise(&mut self, value: Value, noise: Noise) {
        self.nodes[value.0].noise = noise;
    }

    /// Makes the plan that computes these values.
    pub fn finish(self, outputs: &[Value]) -> Plan {
        Plan::of(self, outputs)
    }

    fn sum(&mut self, a: Value, b: Value, step: Step) -> Value {
        let independent = self.are_independent(a, b);
        let (a, b) = (&self.nodes[a.0], &self.nodes[b.0]);
        assert_eq!(a.level, b.level, "terms of one level");
        assert!(drift(a.scale, b.scale) < SCALE_DRIFT_MAX, "terms of one scale: {} and {}", a.scale, b.scale);
        // the result has the scale of the larger numbers, because a drift is an error relative to the numbers
        let (large, small) = if a.noise.value_bound < b.noise.value_bound { (b, a) } else { (a, b) };
        let (level, scale, scales, n) = (a.level, large.scale, [large.scale, small.scale], self.params.n());
        let noise = match independent {
            true => large.noise.add_independent(small.noise, scales, n),
            false => large.noise.add(small.noise, scales, n),
        };
        let own = Own { variance: 0.0, bound: small.noise.value_bound * (large.scale - small.scale).abs() };
        self.push(Some(step), level, scale, noise, own)
    }

    fn product(&self, a: Value, b: Value) -> (usize, f64, Product) {
        let independent = self.are_independent(a, b);
        let (a, b) = (&self.nodes[a.0], &self.nodes[b.0]);
        assert_eq!(a.level, b.level, "factors of one level");
        let (scales, n) = ([a.scale, b.scale], self.params.n());
        let product = |a: Noise, b: Noise| match independent {
            true => a.multiply(b, scales, n),
            false => a.multiply_dependent(b, scales, n),
        };
        // without the numbers, only the product of the errors is left
        let [alone_a, alone_b] = [a, b].map(|factor| Noise { value_bound: 0.0, ..factor.noise });
        (a.level, a.scale * b.scale, Product { noise: product(a.noise, b.noise), small: product(alone_a, alone_b) })
    }

    /// Whether the errors of two values are independent.
    fn are_independent(&self, a: Value, b: Value) -> bool {
        self.independent_inputs && self.nodes[a.0].of_inputs & self.nodes[b.0].of_inputs == 0
    }

    /// Adds a step on one value. `after` computes the noise of the result from the noise of this value.
    fn push_after(
        &mut self,
        step: Step,
        level: usize,
        scale: f64,
        before: Noise,
        after: impl Fn(Noise) -> Noise,
    ) -> Value {
        let own = after(Noise { variance: 0.0, ..before }).variance;
        self.push(Some(step), level, scale, after(before), Own { variance: own, bound: 0.0 })
    }

    fn push(&mut self, step: Option<Step>, level: usize, scale: f64, noise: Noise, own: Own) -> Value {
        let of_inputs = step.iter().flat_map(Step::reads).map(|read| self.nodes[read.0].of_inputs);
        let of_inputs = of_inputs.fold(0, |all, of| all | of);
        self.nodes.push(Node { step, level, scale, noise: noise.normal(), own, of_inputs });
        Value(self.nodes.len() - 1)
    }
}

/// The noise of a product, and its part that is left when both factors are zero: the product of both errors.
struct Product {
    noise: Noise,
    small: Noise,
}

/// Whether two scales are equal, apart from rounding.
pub fn same_scale(a: f64, b: f64) -> bool {
    drift(a, b) < SCALE_TOLERANCE
}

/// The relative difference of two scales.
pub fn drift(a: f64, b: f64) -> f64 {
    (a / b - 1.0).abs()
}
