//! The operations of the specification as plans. A request is checked first: if its result would not decrypt, the
//! request is refused before any work (readings C5 to C14).

use std::cell::RefCell;
use std::collections::HashMap;

use super::bootstrap;
use super::ciphertext::Ciphertext;
use super::encode::EncodeError;
use super::matmul;
use super::noise::{Noise, Tail};
use super::params::{Params, PartKind};
use super::plaintexts::Plaintexts;
use super::plan::gains;
use super::plan::{Plain, Plan, PlanBuilder, SCALE_DRIFT_MAX, Value, drift};
use super::polynomial;
use super::room;
use super::rotation::{self, Paths};
use super::sources::Sources;

/// An operation that a client may request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The sum of two ciphertexts.
    Add,
    /// The product of two ciphertexts.
    Multiply,
    /// The sum of a ciphertext and numbers that are not encrypted.
    AddPlain,
    /// The product of a ciphertext and numbers that are not encrypted.
    MultiplyPlain,
    /// The negative.
    Negate,
    /// The same numbers one level down, at the default scale of the lower level.
    Rescale,
    /// A rotation of the slots to the left.
    Rotate,
    /// A matrix times a vector ([`matmul`]).
    Matmul,
    /// A matrix that is not encrypted times a vector ([`matmul::plain`]). Not in the specification: an operation of ours.
    MatmulPlain,
    /// The value of a polynomial at the number in each slot.
    PolyEval,
    /// A bootstrap to the level of fresh ciphertexts.
    Bootstrap,
}

impl Operation {
    /// All operations.
    pub const ALL: [Operation; 11] = [
        Operation::Add,
        Operation::Multiply,
        Operation::AddPlain,
        Operation::MultiplyPlain,
        Operation::Negate,
        Operation::Rescale,
        Operation::Rotate,
        Operation::Matmul,
        Operation::MatmulPlain,
        Operation::PolyEval,
        Operation::Bootstrap,
    ];

    /// The operation's name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Add => "add",
            Operation::Multiply => "multiply",
            Operation::AddPlain => "add-plain",
            Operation::MultiplyPlain => "multiply-plain",
            Operation::Negate => "negate",
            Operation::Rescale => "rescale",
            Operation::Rotate => "rotate",
            Operation::Matmul => "matmul",
            Operation::MatmulPlain => "matmul-plain",
            Operation::PolyEval => "poly-eval",
            Operation::Bootstrap => "bootstrap",
        }
    }

    /// Finds the operation with this name, written with hyphens or underscores (readings C6).
    pub fn from_name(name: &str) -> Option<Operation> {
        Self::ALL.into_iter().find(|operation| operation.name() == name.replace('_', "-"))
    }

    /// The number of ciphertexts that the operation takes.
    pub fn operands(self) -> usize {
        match self {
            Operation::Add | Operation::Multiply | Operation::Matmul => 2,
            _ => 1,
        }
    }
}

/// The public description of a ciphertext operand, without its words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operand {
    /// Level of the ciphertext.
    pub level: usize,
    /// Exact scale of the ciphertext.
    pub scale: f64,
    /// Bounds on the numbers and the error.
    pub noise: Noise,
}

impl From<&Ciphertext> for Operand {
    fn from(&Ciphertext { level, scale, noise, .. }: &Ciphertext) -> Operand {
        Operand { level, scale, noise }
    }
}

/// A request: an operation with all its inputs except the ciphertexts' words.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The operation.
    pub operation: Operation,
    /// The operands. Their number is [`Operation::operands`].
    pub operands: &'a [Operand],
    /// Plain numbers, one for each slot. For a rotation without `steps`, the first number is the step count. For
    /// [`Operation::MatmulPlain`], the matrix row after row.
    pub plain: Option<&'a [f64]>,
    /// Coefficients of a polynomial, beginning with the constant.
    pub coefficients: Option<&'a [f64]>,
    /// Step count of a rotation: the number of slots.
    pub steps: Option<i64>,
    /// Whether the operation also rescales a product, which gives the result the default scale of its level.
    pub scale_stable: bool,
    /// The parts of the evaluation key, each with its level.
    pub parts: &'a [(PartKind, usize)],
}

impl Request<'_> {
    /// How many levels the operation takes from its operands.
    pub fn levels(&self) -> usize {
        match self.operation {
            Operation::Multiply | Operation::MultiplyPlain => usize::from(self.scale_stable),
            Operation::Rescale => 1,
            Operation::PolyEval => polynomial::levels(polynomial::used(self.coefficients.unwrap_or_default()).len()),
            // numbers behind the vector take one more level to remove
            Operation::Matmul => {
                let is_mixed = self.operands.get(1).is_some_and(|vector| vector.noise.tail == Tail::Mixed);
                matmul::LEVELS + usize::from(is_mixed)
            }
            Operation::MatmulPlain => {
                let is_mixed = self.operands.first().is_some_and(|vector| vector.noise.tail == Tail::Mixed);
                matmul::plain::LEVELS + usize::from(is_mixed)
            }
            Operation::Add | Operation::AddPlain | Operation::Negate | Operation::Rotate | Operation::Bootstrap => 0,
        }
    }
}

/// The reason why a request is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// A field is missing, superfluous or out of range.
    #[error("{0}")]
    Invalid(String),
    /// The plain numbers are missing.
    #[error("{0} needs plain_operand")]
    MissingPlain(&'static str),
    /// A polynomial has more coefficients than [`polynomial::COEFFICIENTS_MAX`].
    #[error("a polynomial has at most 65 coefficients, not {0}")]
    TooManyCoefficients(usize),
    /// The ciphertexts have different levels or scales.
    #[error("{0}")]
    MismatchedLevel(String),
    /// The result would not decrypt.
    #[error("{0}")]
    BudgetExhausted(String),
}

/// Plans a request.
///
/// # Errors
/// [`Refusal`]: why the request is refused. Nothing has been computed.
pub fn plan(plaintexts: &Plaintexts, params: &Params, request: &Request<'_>) -> Result<Plan, Refusal> {
    let Request { operation, operands, .. } = *request;
    if operands.len() != operation.operands() {
        let (name, wanted, found) = (operation.name(), operation.operands(), operands.len());
        return Err(Refusal::Invalid(format!("{name} takes {wanted} ciphertexts, not {found}")));
    }
    let mut builder = PlanBuilder::new(params);
    let mut all_sources = operands.iter().map(|operand| operand.noise.sources);
    if let (Some(first), Some(second)) = (all_sources.next(), all_sources.next())
        && first.are_disjoint(second)
    {
        builder.independent_inputs();
    }
    let inputs: Vec<Value> =
        operands.iter().map(|operand| builder.input(operand.level, operand.scale, operand.noise)).collect();
    let mut planning = Planning { builder, plaintexts, request, paths: RefCell::default() };
    let result = planning.result(&inputs)?;
    planning.check(result)?;
    let noise = Noise { tail: planning.tail(), sources: planning.sources(), ..planning.builder.noise(result) };
    planning.builder.set_noise(result, noise);
    let plan = planning.builder.finish(&[result]);
    for (kind, level) in plan.parts() {
        if !request.parts.iter().any(|&(of, highest)| of == kind && highest >= level) {
            return Err(Refusal::Invalid(format!("the evaluation key has no {} for level {level}", part_name(kind))));
        }
    }
    Ok(plan)
}

fn part_name(kind: PartKind) -> String {
    match kind {
        PartKind::Relinearization => "relinearization key".into(),
        PartKind::Galois(element) => format!("rotation key of Galois element {element}"),
        PartKind::ToSparse | PartKind::FromSparse => "key for bootstrapping".into(),
    }
}

struct Planning<'a> {
    builder: PlanBuilder,
    plaintexts: &'a Plaintexts,
    request: &'a Request<'a>,
    /// Paths of the sets of Galois elements in use: a search takes half a millisecond at the largest degree.
    paths: RefCell<HashMap<Vec<u32>, Paths>>,
}

impl Planning<'_> {
    fn result(&mut self, inputs: &[Value]) -> Result<Value, Refusal> {
        let first = inputs[0];
        match self.request.operation {
            Operation::Add => {
                self.same_level(inputs)?;
                self.same_scale(inputs)?;
                Ok(self.builder.add(first, inputs[1]))
            }
            Operation::Multiply => {
                self.same_level(inputs)?;
                if self.request.scale_stable {
                    self.needs_levels(first, 1)?;
                    self.fits_before_the_end(first, inputs[1])?;
                    Ok(self.builder.multiply_rescaled(first, inputs[1]))
                } else {
                    Ok(self.builder.multiply(first, inputs[1]))
                }
            }
            Operation::AddPlain => {
                let scale = self.builder.scale(first);
                let plain = self.plain(first, scale)?;
                Ok(self.builder.add_plain(first, plain))
            }
            Operation::MultiplyPlain => self.multiply_plain(first),
            Operation::Negate => Ok(self.builder.negate(first)),
            Operation::Rescale => self.rescale(first),
            Operation::Rotate => {
                let steps = self.steps()?;
                self.rotate(first, steps)
            }
            Operation::Matmul => self.matmul([first, inputs[1]]),
            Operation::MatmulPlain => self.matmul_plain(first),
            Operation::PolyEval => self.polynomial(first),
            Operation::Bootstrap => {
                if !self.builder.params().literal().bootstrap {
                    let why = "the key's parameters have no levels for bootstrapping: make a key with params.bootstrap";
                    return Err(Refusal::Invalid(why.into()));
                }
                let value = self.at_default_scale(first)?;
                self.bootstraps(value)?;
                Ok(bootstrap::refresh(&mut self.builder, self.plaintexts, value))
            }
        }
    }

    /// The slots of the result behind the first `d` ([`matmul`]).
    fn tail(&self) -> Tail {
        let Request { operation, operands, plain, coefficients, steps, .. } = *self.request;
        let slots = self.builder.params().slots();
        let plain_has_tail =
            || plain.is_some_and(|plain| plain.iter().skip(matmul::dimension(slots)).any(|x| *x != 0.0));
        let is_mixed = operands.iter().any(|operand| operand.noise.tail == Tail::Mixed);
        let is_mixed = match operation {
            Operation::Add | Operation::Multiply | Operation::Negate | Operation::Rescale | Operation::Bootstrap => {
                is_mixed
            }
            Operation::AddPlain => is_mixed || plain_has_tail(),
            Operation::MultiplyPlain => is_mixed && plain_has_tail(),
            Operation::Rotate => is_mixed || steps.is_none_or(|steps| steps.rem_euclid(slots as i64) != 0),
            Operation::PolyEval => is_mixed || coefficients.is_some_and(|c| c.first().is_some_and(|c| *c != 0.0)),
            Operation::Matmul | Operation::MatmulPlain => true,
        };
        if is_mixed { Tail::Mixed } else { Tail::AsSent }
    }

    /// The fresh encryptions behind the result. Unknown if the operation itself adds an error that follows from the
    /// numbers: the error of a sine, of rounded constants, plaintexts or masks, or of scales that differ. Ciphertexts
    /// from different encryptions of equal numbers then have equal errors.
    fn sources(&self) -> Sources {
        let Request { operation, operands, .. } = *self.request;
        let keeps = match operation {
            Operation::Add => operands.windows(2).all(|pair| pair[0].scale == pair[1].scale),
            Operation::Multiply | Operation::Negate | Operation::Rescale | Operation::Rotate => true,
            Operation::AddPlain
            | Operation::MultiplyPlain
            | Operation::Matmul
            | Operation::MatmulPlain
            | Operation::PolyEval
            | Operation::Bootstrap => false,
        };
        let all = operands.iter().map(|operand| operand.noise.sources).reduce(Sources::union);
        all.filter(|_| keeps).unwrap_or(Sources::UNKNOWN)
    }

    /// Checks that the numbers are in the range of a bootstrap.
    fn bootstraps(&self, value: Value) -> Result<(), Refusal> {
        let (level, bound) = (self.builder.level(value), self.builder.noise(value).value_bound);
        let largest = bootstrap::largest_bound(self.builder.params(), level);
        if bound <= largest {
            return Ok(());
        }
        let why = format!(
            "bootstrap takes numbers up to {largest:.1} from level {level}, but these may be up to {bound}: \
             give a smaller result_bound with the operation before, or multiply by a small number first"
        );
        Err(Refusal::BudgetExhausted(why))
    }

    /// Checks rule 1 of the specification: all operands have the same level.
    fn same_level(&self, inputs: &[Value]) -> Result<(), Refusal> {
        let levels: Vec<usize> = inputs.iter().map(|&input| self.builder.level(input)).collect();
        if levels.windows(2).all(|pair| pair[0] == pair[1]) {
            return Ok(());
        }
        let why =
            format!("the ciphertexts have the levels {levels:?}: rescale the ciphertext of the higher level first");
        Err(Refusal::MismatchedLevel(why))
    }

    /// Checks that both operands have the same scale (readings C13), or scales that differ by no more than rounding
    /// explains. The difference is an error of the sum, relative to the numbers.
    fn same_scale(&self, inputs: &[Value]) -> Result<(), Refusal> {
        let [a, b] = [0, 1].map(|at| self.builder.scale(inputs[at]));
        let [of_a, of_b] = [0, 1].map(|at| self.builder.noise(inputs[at]));
        let n = self.builder.params().n();
        let drifted = of_a.value_bound.min(of_b.value_bound) * drift(a, b);
        let costs_at_most_a_bit = drifted <= of_a.add(of_b, [a, a], n).error_bound(n, a);
        if is_rounding(self.builder.params(), a, b) || (drift(a, b) < SCALE_DRIFT_MAX && costs_at_most_a_bit) {
            return Ok(());
        }
        let [a, b] = digits_that_differ([a, b].map(f64::log2));
        let why =
            format!("the ciphertexts' scales have {a} and {b} bits: rescale the ciphertext of the larger scale first");
        Err(Refusal::MismatchedLevel(why))
    }

    fn needs_levels(&self, value: Value, levels: usize) -> Result<(), Refusal> {
        let there = self.builder.level(value);
        if there >= levels {
            return Ok(());
        }
        let name = self.request.operation.name();
        Err(Refusal::BudgetExhausted(format!("{name} takes {levels} levels, but the ciphertext has {there} left")))
    }

    /// Checks that a product fits the modulus before it is rescaled.
    fn fits_before_the_end(&self, a: Value, b: Value) -> Result<(), Refusal> {
        let builder = &self.builder;
        let (scales, n) = ([builder.scale(a), builder.scale(b)], builder.params().n());
        let product = builder.noise(a).multiply_dependent(builder.noise(b), scales, n);
        self.fits(product, builder.level(a), scales[0] * scales[1])
    }

    fn fits(&self, noise: Noise, level: usize, scale: f64) -> Result<(), Refusal> {
        if noise.fits(self.builder.params(), level, scale) {
            return Ok(());
        }
        let why = format!(
            "numbers up to {} at a scale of {:.0} bits may wrap around the modulus of level {level}",
            noise.value_bound,
            scale.log2()
        );
        Err(Refusal::BudgetExhausted(why))
    }

    /// Checks that the result can be decrypted with some precision.
    fn check(&self, result: Value) -> Result<(), Refusal> {
        let (level, scale, noise) =
            (self.builder.level(result), self.builder.scale(result), self.builder.noise(result));
        self.fits(noise, level, scale)?;
        room::check_record(self.builder.params(), level, scale, [noise.value_bound, noise.variance])
            .map_err(|why| Refusal::BudgetExhausted(format!("the result could not be read back: {why}")))?;
        if noise.relative_precision_bits(self.builder.params().n(), scale) > 0.0 || noise.value_bound == 0.0 {
            return Ok(());
        }
        Err(Refusal::BudgetExhausted("the error of the result would be as large as the result's numbers".into()))
    }

    /// Encodes the plain numbers at a value's level.
    fn plain(&mut self, value: Value, scale: f64) -> Result<Plain, Refusal> {
        let name = self.request.operation.name();
        let numbers = self.request.plain.ok_or(Refusal::MissingPlain(name))?;
        let slots = self.builder.params().slots();
        if numbers.len() != slots {
            let found = numbers.len();
            return Err(Refusal::Invalid(format!(
                "plain_operand must have a number for each of {slots} slots, not {found}"
            )));
        }
        let level = self.builder.level(value);
        let words = self.plaintexts.encode_reals(numbers, level, scale).map_err(plain_error)?;
        let bound = numbers.iter().fold(0.0f64, |bound, number| bound.max(number.abs()));
        Ok(self.builder.plain(level, words, scale, bound))
    }

    fn multiply_plain(&mut self, value: Value) -> Result<Value, Refusal> {
        let level = self.builder.level(value);
        if !self.request.scale_stable {
            let scale = self.builder.params().level(level).scale;
            let plain = self.plain(value, scale)?;
            return Ok(self.builder.multiply_plain(value, plain));
        }
        self.needs_levels(value, 1)?;
        let plain_scale = self.scale_for_rescaling(value);
        let plain = self.plain(value, plain_scale)?;
        let product = self.builder.multiply_plain(value, plain);
        self.check(product)?;
        Ok(self.builder.rescale(product))
    }

    /// Returns the scale that a plaintext needs, so that its product with `value` has the default scale after the
    /// rescale.
    fn scale_for_rescaling(&self, value: Value) -> f64 {
        let (params, level) = (self.builder.params(), self.builder.level(value));
        params.level(level - 1).scale * params.chain().divisor(level, level - 1) / self.builder.scale(value)
    }

    /// Brings a value one level down. A product that was not rescaled yet ([`super::Chain::is_unscaled`]) is only
    /// divided. Any other value is first multiplied by a factor, which gives it the default scale of the lower level
    /// after the division.
    fn rescale(&mut self, value: Value) -> Result<Value, Refusal> {
        self.needs_levels(value, 1)?;
        let level = self.builder.level(value);
        if self.builder.params().chain().is_unscaled(level, self.builder.scale(value)) {
            return Ok(self.builder.rescale(value));
        }
        let below = self.builder.params().level(level - 1).scale;
        Ok(self.builder.lower(value, level - 1, below))
    }

    /// Brings a value to the default scale of its level, or of the level below.
    fn at_default_scale(&mut self, value: Value) -> Result<Value, Refusal> {
        let level = self.builder.level(value);
        if is_rounding(self.builder.params(), self.builder.scale(value), self.builder.params().level(level).scale) {
            return Ok(value);
        }
        let rescaled = self.rescale(value)?;
        let (level, scale) = (self.builder.level(rescaled), self.builder.scale(rescaled));
        if (scale / self.builder.params().level(level).scale).log2().abs() < 1.0 {
            return Ok(rescaled);
        }
        let why = format!(
            "one rescale would lead to a scale of {:.1} bits, which is not the scale of the new level: rescale the ciphertext first",
            scale.log2()
        );
        Err(Refusal::MismatchedLevel(why))
    }

    /// Returns the step count of the requested rotation: `steps`, or the first plain number (readings C8). If both are
    /// given, they must agree.
    fn steps(&self) -> Result<i64, Refusal> {
        let Some(plain) = self.request.plain else {
            return self.request.steps.ok_or_else(|| Refusal::Invalid("rotate needs rotation_steps".into()));
        };
        let first = plain.first().copied().unwrap_or(f64::NAN);
        if first.fract() != 0.0 || first.abs() >= (1u64 << 53) as f64 {
            return Err(Refusal::Invalid(
                "the first number of plain_operand, the steps of the rotation, must be a whole number".into(),
            ));
        }
        match self.request.steps {
            Some(steps) if steps != first as i64 => Err(Refusal::Invalid(format!(
                "rotation_steps is {steps}, but the first number of plain_operand is {first}: give one of them"
            ))),
            _ => Ok(first as i64),
        }
    }

    fn rotate(&mut self, value: Value, steps: i64) -> Result<Value, Refusal> {
        let path = self.path(steps, self.builder.level(value))?;
        Ok(turned(&mut self.builder, value, &path))
    }

    /// Finds the shortest sequence of rotations that together rotate by `steps`, and returns their Galois elements. For
    /// each of these elements, the key has a part of this level or of a higher level. A sequence of more than
    /// `2 log2(slots)` rotations is refused (readings K10).
    fn path(&self, steps: i64, level: usize) -> Result<Vec<u32>, Refusal> {
        let element = |&(kind, highest): &(PartKind, usize)| match kind {
            PartKind::Galois(element) if highest >= level => Some(element),
            _ => None,
        };
        let elements: Vec<u32> = self.request.parts.iter().filter_map(element).collect();
        let params = self.builder.params();
        let most = 2 * params.slots().ilog2() as usize;
        let missing = |why: String| {
            let element = rotation::element(params.n(), steps);
            Refusal::Invalid(format!(
                "{why}: add a key part for the Galois element {element} at level {level} to the evaluation key"
            ))
        };
        let mut known = self.paths.borrow_mut();
        let paths = known.entry(elements).or_insert_with_key(|elements| Paths::new(params.n(), elements));
        match paths.to(steps) {
            Some(path) if path.len() <= most => Ok(path),
            Some(path) => Err(missing(format!(
                "a rotation by {steps} slots would take {} of the key's rotations, more than {most}",
                path.len()
            ))),
            None => Err(missing(format!(
                "the evaluation key has no rotations that add up to a rotation by {steps} slots at level {level}"
            ))),
        }
    }

    fn matmul(&mut self, operands: [Value; 2]) -> Result<Value, Refusal> {
        self.same_level(&operands)?;
        let d = matmul::dimension(self.builder.params().slots());
        let operands = match self.builder.noise(operands[1]).tail {
            Tail::AsSent => operands,
            Tail::Mixed => {
                let vector = self.with_zeros_behind(operands[1], d, matmul::LEVELS)?;
                [self.rescale(operands[0])?, vector]
            }
        };
        self.needs_levels(operands[0], matmul::LEVELS)?;
        self.fits_before_the_end(operands[0], operands[1])?;
        let (slots, level) = (self.builder.params().slots(), self.builder.level(operands[0]));
        let mut paths: HashMap<(i64, usize), Vec<u32>> = HashMap::new();
        for (steps, down) in matmul::doublings(slots) {
            paths.insert((steps, level - down), self.path(steps, level - down)?);
        }
        let params = self.builder.params().clone();
        let divisor = |level: usize| params.chain().divisor(level, level - 1);
        // with a mask of this scale, the masked sums have the default scale after the rescale
        let sums_scale = self.builder.scale(operands[0]) * self.builder.scale(operands[1]) / divisor(level);
        let scale = self.plain_scale(params.level(level - 2).scale * divisor(level - 1) / sums_scale)?;
        let words =
            self.plaintexts.encode_reals(&matmul::mask(slots), level - 1, scale).map_err(|_| self.odd_scales())?;
        let mask = self.builder.plain(level - 1, words, scale, 1.0);
        let mut turns = KeyTurns { parts: self.request.parts, paths };
        Ok(matmul::multiply(&mut self.builder, operands, mask, &mut turns))
    }

    fn matmul_plain(&mut self, vector: Value) -> Result<Value, Refusal> {
        let numbers = self.request.plain.ok_or(Refusal::MissingPlain(self.request.operation.name()))?;
        let params = self.builder.params().clone();
        let Some(n) = matmul::plain::dimension(numbers.len(), params.slots()) else {
            let most = matmul::plain::DIMENSION_MAX.min(params.slots());
            return Err(Refusal::Invalid(format!(
                "plain_operand must have n * n numbers, the rows of a matrix, where n is a power of two from 2 to {most}, not {}",
                numbers.len()
            )));
        };
        let vector = match self.builder.noise(vector).tail {
            Tail::AsSent => vector,
            Tail::Mixed => self.with_zeros_behind(vector, n, matmul::plain::LEVELS)?,
        };
        self.needs_levels(vector, matmul::plain::LEVELS)?;
        let level = self.builder.level(vector);
        let mut paths: HashMap<(i64, usize), Vec<u32>> = HashMap::new();
        for steps in matmul::plain::rotations(n, params.slots()) {
            paths.insert((steps, level), self.path(steps, level)?);
        }
        let scale = self.plain_scale(self.scale_for_rescaling(vector))?;
        let diagonals = matmul::plain::Diagonals::new(&params, numbers, level, scale).map_err(plain_error)?;
        let hops = paths.values().map(Vec::len).max().unwrap_or(0);
        let has_random_errors = self.request.operands[0].noise.sources != Sources::UNKNOWN;
        let mut turns = KeyTurns { parts: self.request.parts, paths };
        let product = diagonals.multiply(&mut self.builder, vector, (hops, has_random_errors), &mut turns);
        self.check(product)?;
        Ok(self.builder.rescale(product))
    }

    /// The scale of a plaintext, if a plaintext can have this scale.
    fn plain_scale(&self, scale: f64) -> Result<f64, Refusal> {
        if (1.0..1e18).contains(&scale) { Ok(scale) } else { Err(self.odd_scales()) }
    }

    fn odd_scales(&self) -> Refusal {
        let name = self.request.operation.name();
        Refusal::MismatchedLevel(format!("{name} cannot use these scales: rescale the ciphertexts first"))
    }

    /// Multiplies the slots behind the first `d` of a vector by 0, one level down. `levels` is the number of levels that
    /// the operation takes after this.
    fn with_zeros_behind(&mut self, vector: Value, d: usize, levels: usize) -> Result<Value, Refusal> {
        let (slots, level) = (self.builder.params().slots(), self.builder.level(vector));
        if level <= levels {
            let (name, wanted) = (self.request.operation.name(), levels + 1);
            return Err(Refusal::BudgetExhausted(format!(
                "{name} takes {wanted} levels here, but the ciphertexts have {level} left: behind the vector's first {d} slots \
                 stand other numbers, which take a level to remove. Bootstrap the ciphertexts, or multiply the vector by ones \
                 in its first {d} slots and zeros behind them earlier"
            )));
        }
        let scale = self.plain_scale(self.scale_for_rescaling(vector))?;
        let ones: Vec<f64> = (0..slots).map(|slot| if slot < d { 1.0 } else { 0.0 }).collect();
        let words = self.plaintexts.encode_reals(&ones, level, scale).map_err(|_| self.odd_scales())?;
        let mask = self.builder.plain(level, words, scale, 1.0);
        let masked = self.builder.multiply_plain(vector, mask);
        self.check(masked)?;
        Ok(self.builder.rescale(masked))
    }

    /// Plans the evaluation of a polynomial (readings C9).
    fn polynomial(&mut self, value: Value) -> Result<Value, Refusal> {
        let coefficients = self.request.coefficients.unwrap_or_default();
        if coefficients.is_empty() {
            return Err(Refusal::Invalid("polynomial_coeffs must have 1 to 65 numbers".into()));
        }
        if coefficients.len() > polynomial::COEFFICIENTS_MAX {
            return Err(Refusal::TooManyCoefficients(coefficients.len()));
        }
        if !coefficients.iter().all(|c| c.is_finite() && c.abs() < COEFFICIENT_MAX) {
            return Err(Refusal::Invalid("a coefficient is not finite, or its magnitude is 2^50 or more".into()));
        }
        let value = self.at_default_scale(value)?;
        self.needs_levels(value, polynomial::levels(polynomial::used(coefficients).len()))?;
        let result = polynomial::evaluate(&mut self.builder, value, coefficients);
        let degree = polynomial::used(coefficients).len() - 1;
        let noise = gains::of_polynomial(&self.builder, value, result, degree);
        self.builder.set_noise(result, noise);
        Ok(result)
    }
}

/// Why plain numbers of a request cannot be encoded.
fn plain_error(error: EncodeError) -> Refusal {
    Refusal::Invalid(match error {
        EncodeError::NotFinite => "plain_operand has a number that is not finite".into(),
        EncodeError::TooLarge => "plain_operand has a number that is too large for the scale and the level".into(),
    })
}

/// Bound on coefficients. With this bound, a coefficient times any scale fits a whole number of 127 bits.
const COEFFICIENT_MAX: f64 = (1u64 << 50) as f64;

/// Whether rounding explains the difference of two scales. The factor by which [`PlanBuilder::lower`] multiplies has as
/// many bits as the scale, and 40 at most; some products double the difference.
fn is_rounding(params: &Params, a: f64, b: f64) -> bool {
    drift(a, b) < f64::from(8 - (params.scale_bits_effective() as i32).min(40)).exp2()
}

/// Two different numbers with as many digits as show the difference, at least three behind the point.
fn digits_that_differ([a, b]: [f64; 2]) -> [String; 2] {
    let written = |digits: usize| [a, b].map(|number| format!("{number:.digits$}"));
    (3..16).map(written).find(|[a, b]| a != b).unwrap_or_else(|| written(16))
}

/// The rotations of a request's key.
struct KeyTurns<'a> {
    parts: &'a [(PartKind, usize)],
    /// The Galois elements that together rotate, by number of slots and level.
    paths: HashMap<(i64, usize), Vec<u32>>,
}

impl matmul::Turns for KeyTurns<'_> {
    fn rotate(&mut self, builder: &mut PlanBuilder, value: Value, steps: i64) -> Value {
        turned(builder, value, &self.paths[&(steps, builder.level(value))])
    }

    fn together(&self, params: &Params, steps: &[i64], level: usize) -> Option<Vec<u32>> {
        let elements: Vec<u32> = steps.iter().map(|&steps| rotation::element(params.n(), steps)).collect();
        let digits = |&element: &u32| {
            let kind = PartKind::Galois(element);
            let (_, highest) = self.parts.iter().find(|&&(of, highest)| of == kind && highest >= level)?;
            Some(params.digits(kind, *highest))
        };
        let all: Vec<_> = elements.iter().map(digits).collect::<Option<_>>()?;
        all.windows(2).all(|pair| pair[0] == pair[1]).then_some(elements)
    }
}

fn turned(builder: &mut PlanBuilder, value: Value, path: &[u32]) -> Value {
    path.iter().fold(value, |value, &element| builder.automorphism(value, element))
}

#[cfg(test)]
mod tests;
