//! The forward transform in pairs of doubles, for keys. Its results have an error below `2^-90` of their size, so a
//! key's values are rounded only once. The transform is slow and runs only when a key is loaded.
//!
//! A pair `(high, low)` stands for the sum of both. Sums use Knuth's method. Products use fused operations (Dekker, "A
//! floating-point technique for extending the available precision", Numer. Math. 18, 1971; Ogita, Rump, Oishi,
//! "Accurate sum and dot product", SIAM J. Sci. Comput. 26, 2005). Low parts are not normalized between stages, because
//! they stay below about ten units in the last place of the high part.

use crate::cpu::simd::SimdReals;

/// Two doubles that stand for their sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The double nearest to the sum.
    pub high: f64,
    /// The remainder of the sum.
    pub low: f64,
}

impl Pair {
    /// The pair of `x` and 0.
    pub const fn of(x: f64) -> Pair {
        Pair { high: x, low: 0.0 }
    }

    /// The pair for `high + low`, where `low` has the smaller magnitude.
    fn normalised(high: f64, low: f64) -> Pair {
        let sum = high + low;
        Pair { high: sum, low: low - (sum - high) }
    }

    fn plus(self, other: Pair) -> Pair {
        let sum = self.high + other.high;
        let part = sum - self.high;
        let error = (self.high - (sum - part)) + (other.high - part);
        Pair::normalised(sum, error + (self.low + other.low))
    }

    /// The product.
    pub fn times(self, other: Pair) -> Pair {
        let product = self.high * other.high;
        let error = self.high.mul_add(other.high, -product);
        Pair::normalised(product, self.high.mul_add(other.low, self.low.mul_add(other.high, error)))
    }

    /// The quotient.
    pub fn over(self, other: Pair) -> Pair {
        let quotient = self.high / other.high;
        let rest = self.plus(other.times(Pair::of(-quotient)));
        Pair::normalised(quotient, rest.high / other.high)
    }
}

/// `2 pi`.
const TURN: Pair = Pair { high: std::f64::consts::TAU, low: 2.4492935982947064e-16 };

/// Number of terms in the series of sine and cosine. For an eighth of a turn, the error is below `2^-106`.
const TERMS: i32 = 14;

/// `exp(2 pi i turn / of)`, each part to `2^-100`; `of` is a power of two up to `2^20`. The angle is first reduced to
/// at most an eighth of a turn.
pub fn root(turn: i64, of: i64) -> [Pair; 2] {
    let turn = turn.rem_euclid(of);
    // the angle as a number of quarter turns, rounded to the nearest integer
    let quarter = (4 * turn + of / 2) / of;
    let angle = TURN.times(Pair::of((4 * turn - quarter * of) as f64 / (4 * of) as f64));
    let minus_square = angle.times(angle).times(Pair::of(-1.0));
    let series = |first: Pair, number: i32| {
        let (mut term, mut sum) = (first, first);
        for i in 1..TERMS {
            let at = f64::from(2 * i + number);
            term = term.times(minus_square).over(Pair::of(at * (at - 1.0)));
            sum = sum.plus(term);
        }
        sum
    };
    let (cosine, sine) = (series(Pair::of(1.0), 0), series(angle, 1));
    let minus = |x: Pair| Pair { high: -x.high, low: -x.low };
    match quarter % 4 {
        0 => [cosine, sine],
        1 => [minus(sine), cosine],
        2 => [minus(cosine), minus(sine)],
        _ => [sine, minus(cosine)],
    }
}

/// [`root`] with each part rounded once to a double.
pub fn rounded_root(turn: i64, of: i64) -> [f64; 2] {
    root(turn, of).map(|part| part.high)
}

/// Number of doubles that represent a complex number: real and imaginary part, each as a high and a low part.
const PARTS: usize = 4;

/// Largest number of points that stay in the L1 cache, for eight polynomials in a vector.
const CACHED_POINTS: usize = 64;

/// Roots of the stages. For group `g` of `m`, entry `m + g` is the root `w` of `X^2h - w^2 = (X^h - w)(X^h + w)`,
/// `h = M / 2m`, as [`PARTS`] numbers.
pub struct Roots {
    of_groups: Vec<[f64; PARTS]>,
    /// Number of reals in a vector, which determines how the order of the stages maps to reading order.
    reals: usize,
}

impl Roots {
    /// The roots for `points = N / 2` and vectors of `reals` doubles.
    pub fn new(points: usize, reals: usize) -> Roots {
        let of_group = |at: usize| {
            let groups = 1usize << at.ilog2();
            let reversed = if groups == 1 { 0 } else { (at - groups).reverse_bits() >> (usize::BITS - groups.ilog2()) };
            let [re, im] = root(1 + 4 * reversed as i64, 8 * groups as i64);
            [re.high, re.low, im.high, im.low]
        };
        Roots { of_groups: (0..points).map(|at| if at == 0 { [0.0; PARTS] } else { of_group(at) }).collect(), reals }
    }

    /// Where the real part of point `at` lies in reading order, `[M / REALS][2][REALS]`; the imaginary part lies
    /// `REALS` further. `at` is the point's number in the order of the stages.
    fn place(&self, at: usize) -> usize {
        let (square, lane, vector) = (at / (self.reals * self.reals), at / self.reals % self.reals, at % self.reals);
        (square * self.reals + vector) * 2 * self.reals + lane
    }

    /// Transforms `polynomials`, `[up to REALS][N]` signed integers, times `scale`, and rounds to doubles. Calls
    /// `take(polynomial, place, value)` for each value, with places in reading order. `values` is working memory.
    ///
    /// # Safety
    /// The CPU must support the instruction set of `S`, and the caller must have enabled it.
    #[inline(always)]
    pub unsafe fn forward<S: SimdReals>(
        &self,
        polynomials: &[u32],
        scale: Pair,
        values: &mut [f64],
        mut take: impl FnMut(usize, usize, f64),
    ) {
        let points = self.of_groups.len();
        let (n, lanes) = (2 * points, S::REALS);
        let vector = PARTS * lanes;
        values.fill(0.0);
        for (lane, polynomial) in polynomials.chunks_exact(n).enumerate() {
            for at in 0..points {
                values[at * vector + lane] = f64::from(polynomial[at] as i32);
                values[at * vector + 2 * lanes + lane] = f64::from(polynomial[at + points] as i32);
            }
        }
        // while groups are large, each stage runs over all points; the remaining stages run group by group, so that a
        // group's points stay in the cache
        let large = (points / CACHED_POINTS).max(1);
        let mut groups = 1;
        while groups < large {
            // SAFETY: `values` has all points, and the caller enabled the instruction set.
            unsafe { self.stage::<S>(values, groups, 0..groups) };
            groups *= 2;
        }
        for group in 0..large {
            let mut parts = 1;
            while large * parts < points {
                // SAFETY: `values` has all points, and the caller enabled the instruction set.
                unsafe { self.stage::<S>(values, large * parts, group * parts..(group + 1) * parts) };
                parts *= 2;
            }
        }
        for at in 0..points {
            let place = self.place(at);
            // SAFETY: `values` has all points, and the caller enabled the instruction set.
            unsafe {
                for part in 0..2 {
                    let at = values.as_mut_ptr().add(at * vector + 2 * part * lanes);
                    let x = Pairs::<S>::load(at).times(Pairs::splat(scale.high, scale.low));
                    S::store_reals(at, S::add_reals(x.high, x.low));
                }
            }
            for lane in 0..polynomials.len() / n {
                take(lane, place, values[at * vector + lane]);
                take(lane, place + lanes, values[at * vector + 2 * lanes + lane]);
            }
        }
    }

    /// Runs the stage that has `groups` groups, on some of these groups.
    #[inline(always)]
    unsafe fn stage<S: SimdReals>(&self, values: &mut [f64], groups: usize, some: std::ops::Range<usize>) {
        let (vector, half) = (PARTS * S::REALS, self.of_groups.len() / (2 * groups));
        for group in some {
            let root = &self.of_groups[groups + group];
            for at in 2 * group * half..(2 * group + 1) * half {
                // SAFETY: both points lie in `values`, and the caller enabled the instruction set.
                unsafe {
                    let x = values.as_mut_ptr().add(at * vector);
                    butterfly::<S>(x, x.add(half * vector), root);
                }
            }
        }
    }

    /// Number of doubles of working memory that [`Roots::forward`] needs.
    pub fn room(&self) -> usize {
        self.of_groups.len() * PARTS * self.reals
    }
}

/// A vector of pairs of doubles.
#[derive(Clone, Copy)]
struct Pairs<S: SimdReals> {
    high: S::R,
    low: S::R,
}

impl<S: SimdReals> Pairs<S> {
    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: the caller promises that the processor supports `S` and that two vectors are at the pointer.
        unsafe { Pairs { high: S::load_reals(from), low: S::load_reals(from.add(S::REALS)) } }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the caller promises that the processor supports `S` and that two vectors are at the pointer.
        unsafe {
            S::store_reals(to, self.high);
            S::store_reals(to.add(S::REALS), self.low);
        }
    }

    #[inline(always)]
    unsafe fn splat(high: f64, low: f64) -> Self {
        // SAFETY: the caller promises that the processor supports `S`.
        unsafe { Pairs { high: S::splat_real(high), low: S::splat_real(low) } }
    }

    #[inline(always)]
    unsafe fn times(self, other: Self) -> Self {
        // SAFETY: the caller promises that the processor supports `S`.
        unsafe {
            let high = S::mul_reals(self.high, other.high);
            let error = S::mul_sub(self.high, other.high, high);
            let low = S::mul_add(self.high, other.low, S::mul_add(self.low, other.high, error));
            Pairs { high, low }
        }
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: the caller promises that the processor supports `S`.
        unsafe {
            let high = S::add_reals(self.high, other.high);
            let part = S::sub_reals(high, self.high);
            let error = S::add_reals(S::sub_reals(self.high, S::sub_reals(high, part)), S::sub_reals(other.high, part));
            Pairs { high, low: S::add_reals(error, S::add_reals(self.low, other.low)) }
        }
    }

    #[inline(always)]
    unsafe fn minus(self, other: Self) -> Self {
        // SAFETY: the caller promises that the processor supports `S`.
        unsafe {
            let zero = S::splat_real(0.0);
            self.plus(Pairs { high: S::sub_reals(zero, other.high), low: S::sub_reals(zero, other.low) })
        }
    }
}

/// Maps `(x, y)` to `(x + w y, x - w y)`, for vectors of complex numbers, each stored as [`PARTS`] doubles.
#[inline(always)]
unsafe fn butterfly<S: SimdReals>(x: *mut f64, y: *mut f64, w: &[f64; PARTS]) {
    // SAFETY: the caller promises that the processor supports `S` and that `PARTS` vectors are at each pointer.
    unsafe {
        let imaginary = 2 * S::REALS;
        let (re, im) = (Pairs::<S>::splat(w[0], w[1]), Pairs::<S>::splat(w[2], w[3]));
        let (y_re, y_im) = (Pairs::<S>::load(y), Pairs::<S>::load(y.add(imaginary)));
        let (x_re, x_im) = (Pairs::<S>::load(x), Pairs::<S>::load(x.add(imaginary)));
        let turned_re = y_re.times(re).minus(y_im.times(im));
        let turned_im = y_re.times(im).plus(y_im.times(re));
        x_re.plus(turned_re).store(x);
        x_im.plus(turned_im).store(x.add(imaginary));
        x_re.minus(turned_re).store(y);
        x_im.minus(turned_im).store(y.add(imaginary));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_multiply_to_each_other_beyond_the_precision_of_doubles() {
        let of = 4096;
        for turn in [0, 1, 7, 511, 512, 513, 1024, 1500, 2048, 3000, 4095] {
            let [c, s] = root(turn, of);
            let [c2, s2] = root(2 * turn, of);
            let minus = |x: Pair| x.times(Pair::of(-1.0));
            let off =
                [c.times(c).plus(minus(s.times(s))).plus(minus(c2)), c.times(s).times(Pair::of(2.0)).plus(minus(s2))];
            for off in off {
                assert!(off.high.abs() < f64::exp2(-99.0), "{turn}: {off:?}");
            }
            let angle = std::f64::consts::TAU * turn as f64 / of as f64;
            assert!((c.high - angle.cos()).abs() < 1e-15 && (s.high - angle.sin()).abs() < 1e-15, "{turn}");
        }
    }

    #[test]
    fn quotients_undo_products() {
        let (x, y) = (root(1, 9), root(2, 7));
        let back = x[0].times(y[1]).over(y[1]);
        assert!((back.high - x[0].high).abs() + (back.low - x[0].low).abs() < f64::exp2(-100.0));
    }
}
