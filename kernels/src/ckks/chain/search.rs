//! The search for a chain. Two families are tried. In *nested* chains, each level adds as few primes of equal size as
//! its step needs. In *set* chains, all levels share long primes, and each level uses a subset of up to three short
//! primes.
//!
//! Every machine finds the same chain, because the search uses only `libm`'s logarithms and the basic operations and
//! square roots of IEEE 754.

use std::collections::HashMap;

use super::{Chain, Level, Wanted, count_at_least, group, log_product, product_excess_bits};
use crate::modular::Modulus;
use crate::ring::primes::nearest_to_power;

/// Headrooms in the order in which they are tried. A headroom is the number of bits that level 0 has above its scale,
/// for a value and the value's sign. A headroom of 10 or more gives at least 9 bits of value. Smaller headrooms are
/// tried only when no larger headroom fits the bound on the modulus.
const HEADROOMS: [&[u32]; 2] = [&[10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20], &[9, 8, 7, 6]];
/// Largest deviations of a level's modulus from its target, in bits, in the order in which they are tried. Scales
/// follow the moduli, so the precision of a level deviates by at most as many bits.
const DEVIATIONS: [f64; 3] = [0.7, 1.5, 2.5];
/// Largest deviation of level 0's modulus from its target, in bits. The bound is tight because level 0 promises its
/// headroom.
const DEVIATION_OF_LEVEL_0: f64 = 0.7;
/// Bits of the shortest primes in the search.
const PRIME_BITS_MIN: u32 = 18;
/// Largest number of special primes.
const SPECIAL_MAX: usize = 7;
/// Largest number of bits by which a digit of a rotation key may exceed `P`. The error of a key switch grows by as many
/// bits.
pub(in super::super) const ROTATION_EXCESS_BITS: f64 = 2.0;
/// Margin in bits for products. After the key switch, a product is divided by its scale, so the digits of a
/// relinearization key may exceed `P` by the bits of the scale minus this margin.
pub(super) const PRODUCT_MARGIN_BITS: f64 = 12.0;

/// Lists of primes, by the number of bits.
struct Pool {
    polynomial_size: usize,
    lists: HashMap<u32, Vec<u32>>,
}

impl Pool {
    /// Returns primes near `2^bits`, nearest first.
    fn near(&mut self, bits: u32) -> &[u32] {
        let n = self.polynomial_size;
        self.lists.entry(bits).or_insert_with(|| nearest_to_power(n, bits, 96))
    }
}

/// The ciphertext primes of each level, from level 0.
type Sets = Vec<Vec<u32>>;

pub(super) fn search(wanted: &Wanted) -> Option<Chain> {
    let mut pool = Pool { polynomial_size: wanted.polynomial_size, lists: HashMap::new() };
    let choices = HEADROOMS.into_iter().flat_map(|headrooms| {
        DEVIATIONS.into_iter().flat_map(move |deviation| headrooms.iter().map(move |&headroom| (headroom, deviation)))
    });
    choices
        .into_iter()
        .filter(|(headroom, _)| *headroom >= wanted.headroom_min)
        .find_map(|(headroom, deviation)| within(&mut pool, wanted, headroom, deviation))
}

/// Finds the cheapest chain of this headroom whose moduli deviate by at most `deviation` bits from their targets.
fn within(pool: &mut Pool, wanted: &Wanted, headroom: u32, deviation: f64) -> Option<Chain> {
    let mut targets = vec![f64::from(wanted.scale_bits + headroom)];
    targets.extend(wanted.steps.iter().scan(targets[0], |sum, &step| {
        *sum += f64::from(step);
        Some(*sum)
    }));
    // the fewest bits that the highest level and one special prime need
    let least = targets[targets.len() - 1] - deviation + f64::from(PRIME_BITS_MIN) - 0.5;
    if wanted.log_modulus_max.is_some_and(|max| least > max) {
        return None;
    }
    let mut candidates: Vec<Sets> = nested(pool, &targets, deviation).into_iter().collect();
    candidates.extend(sets(pool, &targets, deviation));
    let mut best: Option<(f64, Chain)> = None;
    for sets in candidates {
        if let Some((cost, chain)) = completed(pool, wanted, headroom, sets)
            && best.as_ref().is_none_or(|(least, _)| cost < *least)
        {
            best = Some((cost, chain));
        }
    }
    best.map(|(_, chain)| chain)
}

/// Makes the nested chain, in which each level adds primes of equal size.
fn nested(pool: &mut Pool, targets: &[f64], deviation: f64) -> Option<Sets> {
    let mut sets: Sets = Vec::new();
    let mut all: Vec<u32> = Vec::new();
    let mut have = 0.0;
    for &target in targets {
        let parts = libm::ceil((target - have - deviation) / 30.0) as usize;
        for part in 0..parts {
            let bits = (target - have) / (parts - part) as f64;
            let nearest = libm::round(bits) as u32;
            let sizes = [nearest, nearest + 1, nearest.saturating_sub(1)].map(|size| size.clamp(1, 30));
            let free: Vec<u32> =
                sizes.iter().flat_map(|&size| pool.near(size).to_vec()).filter(|q| !all.contains(q)).collect();
            let distance = |q: u32| libm::fabs(libm::log2(f64::from(q)) - bits);
            let prime = free.into_iter().min_by(|&a, &b| distance(a).total_cmp(&distance(b)))?;
            all.push(prime);
            have += libm::log2(f64::from(prime));
        }
        let deviation = if sets.is_empty() { DEVIATION_OF_LEVEL_0 } else { deviation };
        if libm::fabs(have - target) > deviation {
            return None;
        }
        sets.push(all.clone());
    }
    Some(sets)
}

/// Makes set chains. Each level takes a prefix of the long primes and a subset of up to three short primes. The result
/// has one entry for each choice of prime sizes with which the modulus of every level comes near its target.
fn sets(pool: &mut Pool, targets: &[f64], deviation: f64) -> Vec<Sets> {
    let mut found = Vec::new();
    for long in (25..=30).rev() {
        let mut longs: Vec<u32> = pool.near(long).to_vec();
        if long == 30 {
            longs.sort_unstable_by(|a, b| b.cmp(a));
        }
        for shorts in short_sizes() {
            let sums: Vec<f64> =
                subsets(&shorts).map(|subset| subset.iter().map(|&size| f64::from(size)).sum()).collect();
            let is_near = |target: f64| {
                sums.iter().any(|sum| {
                    let rest = target - sum;
                    let longs = libm::round(rest / f64::from(long)).max(0.0);
                    libm::fabs(rest - longs * f64::from(long)) <= deviation
                })
            };
            if targets.iter().all(|&target| is_near(target)) {
                found.extend(sets_of(pool, targets, deviation, &longs, &shorts));
            }
        }
    }
    found
}

/// Lists every choice of sizes, in bits, for up to three short primes. The sizes of a choice are ascending.
fn short_sizes() -> Vec<Vec<u32>> {
    let sizes = || PRIME_BITS_MIN..30;
    let mut out = vec![vec![]];
    out.extend(sizes().map(|a| vec![a]));
    out.extend(sizes().flat_map(|a| (a..30).map(move |b| vec![a, b])));
    out.extend(sizes().flat_map(|a| (a..30).flat_map(move |b| (b..30).map(move |c| vec![a, b, c]))));
    out
}

/// Lists all subsets of `items`.
fn subsets<T: Copy>(items: &[T]) -> impl Iterator<Item = Vec<T>> {
    (0..1usize << items.len())
        .map(|mask| items.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1).map(|(_, &item)| item).collect())
}

/// Chooses the primes of each level: a prefix of the long primes `longs` and a subset of short primes, whose numbers of
/// bits are `sizes`. `None` if the modulus of some level would not come near its target.
fn sets_of(pool: &mut Pool, targets: &[f64], deviation: f64, longs: &[u32], sizes: &[u32]) -> Option<Sets> {
    let mut shorts: Vec<u32> = Vec::new();
    for &size in sizes {
        // if the long primes come from this list too, the short prime is taken from the list's end, because the levels
        // take long primes from its start
        let list = pool.near(size);
        let free = |q: &&u32| !shorts.contains(q);
        let prime = if longs.contains(&list[..].first().copied()?) {
            list.iter().rev().find(free)
        } else {
            list.iter().find(free)
        };
        shorts.push(*prime?);
    }
    let longs: Vec<u32> = longs.iter().copied().filter(|q| !shorts.contains(q)).collect();
    // entry i is log2 of the product of the first i long primes
    let mut sums = vec![0.0];
    let mut sum = 0.0;
    sums.extend(longs.iter().map(|&q| {
        sum += libm::log2(f64::from(q));
        sum
    }));
    let mut levels = Vec::new();
    for &target in targets {
        let deviation = if levels.is_empty() { DEVIATION_OF_LEVEL_0 } else { deviation };
        let mut best: Option<((u32, usize, f64), Vec<u32>)> = None;
        for subset in subsets(&shorts) {
            let of_shorts = log_product(subset.iter().copied());
            // the longest prefix below the target, and the prefix that is longer by one
            let next = sums.partition_point(|sum| sum + of_shorts < target);
            for count in [next.saturating_sub(1), next] {
                let Some(sum) = sums.get(count) else { continue };
                let distance = libm::fabs(sum + of_shorts - target);
                if count + subset.len() == 0 || distance > deviation {
                    continue;
                }
                // the smallest key wins: first the deviation in half bits, then the number of primes, then the exact
                // deviation
                let key = (libm::round(2.0 * distance) as u32, count + subset.len(), distance);
                if best.as_ref().is_none_or(|(least, _)| key < *least) {
                    best = Some((key, subset.iter().chain(&longs[..count]).copied().collect()));
                }
            }
        }
        levels.push(best?.1);
    }
    Some(levels)
}

/// Makes a chain of these sets by adding special primes and scales. Returns the chain with its cost, which is the
/// number of transforms that one rotation and one product take together.
fn completed(pool: &mut Pool, wanted: &Wanted, headroom: u32, sets: Sets) -> Option<(f64, Chain)> {
    // the short primes come first in the union, because they come first in each set
    let mut union: Vec<u32> = Vec::new();
    for set in sets.iter().rev() {
        union.extend(set.iter().filter(|q| !union.contains(q)).copied().collect::<Vec<_>>());
    }
    let room = wanted.log_modulus_max.map_or(f64::INFINITY, |max| max - log_product(union.iter().copied()));
    let top = sets.last().expect("level 0 at least").len();
    let bottom = log_product(sets[0].iter().copied());
    let mut best: Option<(usize, Vec<u32>)> = None;
    for count in 1..=SPECIAL_MAX {
        let Some(special) = specials(pool, &union, count, room) else { continue };
        let log_special = log_product(special.iter().copied());
        let of_sparse = &special[..count_at_least(special.iter().copied(), bottom)];
        if wanted.log_sparse_max.is_some_and(|max| bottom + log_product(of_sparse.iter().copied()) > max) {
            continue;
        }
        let digits = |bits: f64| group(&union, |&q| f64::from(q), bits);
        let rotation = digits(log_special + ROTATION_EXCESS_BITS);
        let widest = rotation.iter().map(|digit| log_product(digit.iter().copied())).fold(0.0, f64::max);
        if widest > log_special + ROTATION_EXCESS_BITS {
            continue;
        }
        let product_bits = log_special + product_excess_bits(wanted.scale_bits);
        // a switch transforms the input, the result, and each digit under all primes outside the digit
        let transforms = |digits: usize| 2 * top + digits * (top + count) + 2 * count;
        let cost = transforms(rotation.len()) + transforms(digits(product_bits).len());
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, special));
        }
    }
    let (cost, special) = best?;
    let at = |q: &u32| union.iter().position(|of| of == q).expect("of the union");
    let mut levels: Vec<Level> = Vec::new();
    for set in &sets {
        let mut primes: Vec<usize> = set.iter().map(at).collect();
        primes.sort_unstable();
        let log_modulus = log_product(set.iter().copied());
        let scale = match (levels.last(), sets.get(levels.len().wrapping_sub(1))) {
            (Some(below), Some(lower)) => libm::sqrt(below.scale * ratio(set, lower)),
            _ => libm::exp2(f64::from(wanted.scale_bits)),
        };
        levels.push(Level { primes, log_modulus, scale });
    }
    let primes = union.iter().chain(&special).map(|&q| Modulus::new(q)).collect();
    Some((cost as f64, Chain { primes, special: special.len(), levels, value_bits: headroom - 1 }))
}

/// Finds `count` primes outside `union` and below `2^30`, all of one length. They are as long as possible with at most
/// `room` bits together.
fn specials(pool: &mut Pool, union: &[u32], count: usize, room: f64) -> Option<Vec<u32>> {
    (PRIME_BITS_MIN..=30).rev().find_map(|bits| {
        if (count as f64) * (f64::from(bits) - 0.5) > room {
            return None;
        }
        let mut free: Vec<u32> = pool.near(bits).iter().copied().filter(|q| !union.contains(q)).collect();
        free.truncate(count);
        (free.len() == count && log_product(free.iter().copied()) <= room).then_some(free)
    })
}

/// Divides the product of `upper` by the product of `lower`. Primes that are in both lists cancel.
fn ratio(upper: &[u32], lower: &[u32]) -> f64 {
    let of = |a: &[u32], b: &[u32]| a.iter().filter(|q| !b.contains(q)).fold(1.0, |product, &q| product * f64::from(q));
    of(upper, lower) / of(lower, upper)
}
