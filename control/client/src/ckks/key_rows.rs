//! Makes the rows of an evaluation key (docs/wire-format.md 17) one at a time, because a whole key may take gigabytes.

use chacha20::ChaCha20Rng;
use kernels::ckks::{KeyRow, Params, PartKind, RowHeader, bootstrap, ciphertext, container, rotation};
use kernels::modular::Modulus;
use kernels::xof;
use zeroize::Zeroizing;

use super::secret_key::{SecretKey, public_bytes, subtract_product};
use crate::secret_key::secret_generator;

/// Iterator over the rows of a part. Each row has its own seed and noise.
pub struct KeyRows<'a> {
    key: &'a SecretKey,
    kind: PartKind,
    level: usize,
    /// The primes of each digit, as indices.
    digits: Vec<Vec<usize>>,
    /// The primes of a row, as indices.
    primes: Vec<usize>,
    /// `[primes][N]`, transformed: the secret under which the rows are encrypted.
    under: Zeroizing<Vec<u32>>,
    /// `[primes][N]`, transformed: `P` times the secret that the part switches from.
    from: Zeroizing<Vec<u32>>,
    next: usize,
    rng: ChaCha20Rng,
}

impl SecretKey {
    /// Makes the rows of a part of the evaluation key, one after another. The part serves levels up to `level`.
    ///
    /// # Panics
    /// When `level` is above the highest level, when the number in a Galois part is no Galois element, and for parts of
    /// bootstrapping if the parameters have no levels for bootstrapping.
    pub fn part(&self, kind: PartKind, level: usize) -> KeyRows<'_> {
        KeyRows::new(self, kind, level)
    }

    /// Makes an evaluation key with these parts (kind and level), as pieces of bytes for a file or an upload: first the
    /// head, then row after row.
    ///
    /// # Panics
    /// As [`SecretKey::part`].
    pub fn evaluation_key(&self, parts: &[(PartKind, usize)]) -> impl Iterator<Item = Vec<u8>> {
        let params = self.params();
        let head = container::write_key_head(params, self.fingerprint(), parts);
        // the iterator prepares the secrets of a part only when the part's first row is needed
        let rows = parts.iter().flat_map(|&(kind, level)| self.part(kind, level));
        std::iter::once(head).chain(rows.map(move |row| container::write_row(params, &row)))
    }
}

impl<'a> KeyRows<'a> {
    fn new(key: &'a SecretKey, kind: PartKind, level: usize) -> KeyRows<'a> {
        let (params, n) = (key.params(), key.params().n());
        let has_sparse = key.sparse.len() == n;
        assert!(
            has_sparse || !matches!(kind, PartKind::ToSparse | PartKind::FromSparse),
            "the parameters have no levels for bootstrapping"
        );
        let image = match kind {
            // the rows are encrypted under the image of the secret by the inverse automorphism; the automorphism, which
            // follows the key switch, turns that image back into the secret
            PartKind::Galois(element) => image(&key.secret, inverse(element, n)),
            _ => Zeroizing::default(),
        };
        // the secret under which the rows are encrypted, and the secret that the part switches from (for
        // relinearization, the secret whose square the part switches from)
        let (of_rows, of_source) = match kind {
            PartKind::Relinearization => (&key.secret, &key.secret),
            PartKind::Galois(_) => (&*image, &key.secret),
            PartKind::ToSparse => (&key.sparse, &key.secret),
            PartKind::FromSparse => (&key.secret, &key.sparse),
        };
        let primes = params.key_primes(kind, level);
        let mut under = Zeroizing::new(vec![0; primes.len() * n]);
        let mut from = under.clone();
        let specials = &params.primes()[params.special_primes(kind)];
        // the loop counts the rows instead of cutting the slices into chunks, because code that handles secrets has no
        // division (scripts/constant-time)
        for (at, &prime) in primes.iter().enumerate() {
            let (under, from) = (&mut under[at * n..][..n], &mut from[at * n..][..n]);
            let modulus = params.primes()[prime];
            let special = product(modulus, specials);
            key.context.transformed(prime, of_rows, under);
            key.context.transformed(prime, of_source, from);
            if kind == PartKind::Relinearization {
                from.iter_mut().for_each(|s| *s = modulus.mul(*s, *s));
            }
            from.iter_mut().for_each(|word| *word = modulus.mul(*word, special));
        }
        let digits = params.digits(kind, level);
        KeyRows { key, kind, level, digits, primes, under, from, next: 0, rng: secret_generator() }
    }

    /// Makes the row of a digit. The function is not inlined, so that scripts/constant-time finds it by name.
    #[inline(never)]
    fn row(&mut self, digit: usize) -> KeyRow {
        let (params, n) = (self.key.params(), self.key.params().n());
        let seed = public_bytes();
        let noise = self.key.noise(&mut self.rng);
        let (mut body, mut mask) = (vec![0; self.primes.len() * n], vec![0; n]);
        for (at, &prime) in self.primes.iter().enumerate() {
            let (under, from) = (&self.under[at * n..][..n], &self.from[at * n..][..n]);
            let row = &mut body[at * n..][..n];
            self.key.context.transformed(prime, &noise, row);
            ciphertext::fill_mask(params, &seed, xof::DOMAIN_SWITCHING_KEY, &[prime], &mut mask);
            subtract_product(&self.key.context, prime, row, &mask, under);
            // the primes of a digit are public, so a branch on them is allowed
            if self.digits[digit].contains(&prime) {
                let modulus = params.primes()[prime];
                row.iter_mut().zip(from).for_each(|(word, &from)| *word = modulus.add(*word, from));
            }
        }
        let (digit, digits) = (digit as u8, self.digits.len() as u8);
        let sparse_tag = match self.kind {
            PartKind::ToSparse | PartKind::FromSparse => self.key.sparse_tag,
            PartKind::Relinearization | PartKind::Galois(_) => 0,
        };
        KeyRow { header: RowHeader { kind: self.kind, level: self.level as u8, digit, digits, seed, sparse_tag }, body }
    }
}

impl Iterator for KeyRows<'_> {
    type Item = KeyRow;

    fn next(&mut self) -> Option<KeyRow> {
        let digit = self.next;
        self.next += usize::from(digit < self.digits.len());
        (digit < self.digits.len()).then(|| self.row(digit))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.digits.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for KeyRows<'_> {}

/// The parts of a complete evaluation key: for products, for rotations by any number of slots, and for bootstrapping if
/// the parameters have levels for it. Each part is listed with the highest level at which it may be needed.
pub fn evaluation_key_parts(params: &Params) -> Vec<(PartKind, usize)> {
    let level = params.level_max();
    let mut parts = vec![(PartKind::Relinearization, level)];
    parts.extend(rotations(params, &power_of_two_steps(params, false), level));
    if params.literal().bootstrap {
        for (kind, level) in bootstrap::parts(params) {
            match parts.iter_mut().find(|(of, _)| *of == kind) {
                Some((_, highest)) => *highest = level.max(*highest),
                None => parts.push((kind, level)),
            }
        }
    }
    parts
}

/// Left rotations from which every other rotation is composed: the powers of two below the number of slots. If
/// `signed`, the right rotations by the same steps are added; with them, about half as many rotations are enough to
/// compose any other rotation.
pub fn power_of_two_steps(params: &Params, signed: bool) -> Vec<i64> {
    let powers = (0..params.slots().trailing_zeros()).map(|log| 1i64 << log);
    // a rotation by half the slots is the same in both directions
    let half = params.slots() as i64 >> 1;
    powers.flat_map(|step| if signed && step < half { vec![step, -step] } else { vec![step] }).collect()
}

/// The parts for left rotations by these steps, each listed with this level. A rotation by all slots needs no part.
pub fn rotations(params: &Params, steps: &[i64], level: usize) -> Vec<(PartKind, usize)> {
    let elements = steps.iter().map(|&steps| rotation::element(params.n(), steps)).filter(|&element| element != 1);
    elements.map(|element| (PartKind::Galois(element), level)).collect()
}

/// The product of `primes` modulo `modulus`, without a division.
fn product(modulus: Modulus, primes: &[Modulus]) -> u32 {
    let montgomery = modulus.pow(2, 32);
    primes.iter().fold(1, |product, p| modulus.mul(product, modulus.mul_montgomery(p.q(), montgomery)))
}

/// The inverse of an odd number modulo `2N`: the number to the power `N / 2 - 1`, because its power `N / 2` is 1.
fn inverse(element: u32, n: usize) -> u32 {
    assert!(element & 1 == 1 && (element as usize) < 2 * n, "{element} is no Galois element");
    let mask = 2 * n as u32 - 1;
    (1..n >> 1).fold(1, |power: u32, _| power.wrapping_mul(element) & mask)
}

/// Returns `s(X^element)`, where `s` is the polynomial `secret`. The new place and the sign of each coefficient are
/// public.
fn image(secret: &[i8], element: u32) -> Zeroizing<Vec<i8>> {
    let mask = 2 * secret.len() - 1;
    let mut out = Zeroizing::new(vec![0; secret.len()]);
    for (i, &s) in secret.iter().enumerate() {
        let power = (i * element as usize) & mask;
        out[power & (mask >> 1)] = if power < secret.len() { s } else { -s };
    }
    out
}
