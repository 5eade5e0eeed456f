//! The secret of one arithmetic key.

use std::sync::Arc;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::Rng;
use kernels::ckks::container;
use kernels::ckks::encode::{Centred, Rounded};
use kernels::ckks::operation::Operand;
use kernels::ckks::{Ciphertext, Noise, Params, PublicKey, SeededCiphertext, bootstrap, ciphertext};
use kernels::container::Error;
use kernels::security::ERROR_STD;
use kernels::xof;
use subtle::ConstantTimeEq;
use zeroize::{ZeroizeOnDrop, Zeroizing};

use super::context::Context;
use super::record::{Flooding, Record, noise_to_hide, primes_for};
use super::sparse_secret::sparse_secret_of;
use super::{DecryptError, EncryptError, ShareError};
use crate::gaussian;
use crate::secret_key::{are_ternary, secret_generator, ternary};

/// The secret of one arithmetic key: a ternary polynomial. The secret key encrypts and decrypts vectors of numbers, and
/// makes the other keys. Overwritten on drop.
#[derive(Clone, ZeroizeOnDrop)]
pub struct SecretKey {
    #[zeroize(skip)]
    pub(crate) context: Arc<Context>,
    #[zeroize(skip)]
    fingerprint: [u8; 8],
    /// `[N]`, each -1, 0 or 1.
    pub(super) secret: Vec<i8>,
    /// `[N]`, the sparse secret of bootstrapping; empty if the parameters have no levels for bootstrapping.
    pub(super) sparse: Vec<i8>,
    /// The public tag of the sparse secret; 0 without a sparse secret.
    #[zeroize(skip)]
    pub(super) sparse_tag: u32,
}

/// Decrypted numbers with a bound on their errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Decrypted {
    /// `[N / 2]`.
    pub values: Vec<f64>,
    /// Bound on the error of each value, by the ciphertext's noise record. An error exceeds the bound with probability
    /// 2^-40.
    pub error_bound: f64,
    /// Number of correct bits after the binary point: `-log2` of the bound.
    pub precision_bits: f64,
}

/// First compares the parameters and fingerprints, which are public. If they are equal, compares the secrets in
/// constant time.
impl PartialEq for SecretKey {
    fn eq(&self, other: &SecretKey) -> bool {
        let public = self.params() == other.params() && self.fingerprint == other.fingerprint;
        public && self.secret.ct_eq(&other.secret).into()
    }
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretKey").field("params", self.params()).finish_non_exhaustive()
    }
}

impl SecretKey {
    /// A fresh key.
    pub fn generate(params: &Params) -> SecretKey {
        SecretKey::generate_from(params, &mut secret_generator())
    }

    /// A fresh key from the output of `rng`.
    pub(crate) fn generate_from(params: &Params, rng: &mut ChaCha20Rng) -> SecretKey {
        let secret: Vec<i8> = (0..params.n()).map(|_| ternary(rng.next_u32())).collect();
        let mut fingerprint: [u8; 8] = public_bytes();
        fingerprint[0] |= 1; // all zeros would mean "no fingerprint"
        SecretKey::of(params, fingerprint, secret)
    }

    /// The key with this secret. The sparse secret, if the parameters have levels for bootstrapping, follows from it.
    fn of(params: &Params, fingerprint: [u8; 8], secret: Vec<i8>) -> SecretKey {
        let (mut sparse, mut sparse_tag) = (Zeroizing::default(), 0);
        if params.literal().bootstrap {
            (sparse, sparse_tag) = sparse_secret_of(&secret, &fingerprint, bootstrap::sparse_weight(params.n()));
        }
        let sparse = std::mem::take(&mut *sparse);
        SecretKey { context: Arc::new(Context::new(params)), fingerprint, secret, sparse, sparse_tag }
    }

    /// The parameters of the key.
    pub fn params(&self) -> &Params {
        &self.context.params
    }

    /// The random name that this key, its other keys and its ciphertexts share.
    pub fn fingerprint(&self) -> [u8; 8] {
        self.fingerprint
    }

    /// A fresh encryption of `N / 2` numbers of magnitude up to `value_bound`, at the highest level.
    ///
    /// # Errors
    /// When the number of values is wrong, a number is not finite or above the bound, or the bound does not fit the
    /// modulus.
    pub fn encrypt(&self, values: &[f64], value_bound: f64) -> Result<SeededCiphertext, EncryptError> {
        self.encrypt_at(self.params().level_max(), values, value_bound)
    }

    /// Encrypts at a given level. A lower level makes a smaller ciphertext.
    ///
    /// # Errors
    /// As [`SecretKey::encrypt`].
    ///
    /// # Panics
    /// When `level` is above the highest level.
    pub fn encrypt_at(&self, level: usize, values: &[f64], bound: f64) -> Result<SeededCiphertext, EncryptError> {
        self.context.check(values, bound)?;
        let plaintext = self.context.encode(values, bound, level)?;
        Ok(self.encrypt_plaintext(level, &plaintext, bound))
    }

    /// The ciphertext `(-a s + e + m, a)`. The seed of `a` is public and comes directly from the operating system; the
    /// noise `e` comes from another generator.
    pub(crate) fn encrypt_plaintext(&self, level: usize, plaintext: &Rounded, value_bound: f64) -> SeededCiphertext {
        let params = self.params();
        let of_level = params.level(level);
        let seed = public_bytes();
        let noise = self.noise(&mut secret_generator());
        let body = self.zero_encryption(&seed, xof::DOMAIN_NUMBERS, &of_level.primes, |prime, row| {
            self.context.noisy_plaintext(prime, plaintext, &noise, row);
        });
        let noise = Noise::encrypt_secret(value_bound).encoded(params.n(), of_level.scale);
        SeededCiphertext { level, scale: of_level.scale, noise, seed, body }
    }

    /// The public key for encryption at a level.
    ///
    /// # Panics
    /// When `level` is above the highest level.
    pub fn public_key(&self, level: usize) -> PublicKey {
        let seed = public_bytes();
        let noise = self.noise(&mut secret_generator());
        let primes = &self.params().level(level).primes;
        let body = self.zero_encryption(&seed, xof::DOMAIN_PUBLIC_KEY, primes, |prime, row| {
            self.context.transformed(prime, &noise, row);
        });
        PublicKey { params: self.params().clone(), fingerprint: self.fingerprint, level, seed, body }
    }

    /// Decrypts a ciphertext. Returns the numbers and the precision that the ciphertext's noise record promises. The
    /// caller must keep the numbers private: for numbers that others will see, use [`SecretKey::decrypt_to_share`].
    ///
    /// # Errors
    /// [`DecryptError`]: by the record, the numbers may have wrapped around the modulus.
    ///
    /// # Panics
    /// When the number of words does not fit the ciphertext's level.
    pub fn decrypt(&self, ciphertext: &Ciphertext) -> Result<Decrypted, DecryptError> {
        let places = primes_for(self.params(), ciphertext.level, ciphertext.scale, ciphertext.noise)?;
        Ok(self.decode(&self.phase(ciphertext, &places), ciphertext.scale, ciphertext.noise))
    }

    /// Decrypts a ciphertext and adds noise (flooding), so that the numbers reveal nothing about the key to parties
    /// that also see the ciphertext. `expected` is the result of the client's own plan of the computation
    /// ([`kernels::ckks::operation::plan`]), because the record in the ciphertext may be a lie of the party that computed
    /// the ciphertext. The noise is as strong as the larger of both asks, and never weaker than for a fresh encryption.
    ///
    /// # Errors
    /// [`ShareError`]: the ciphertext has another level or scale than expected, or the numbers may have wrapped around
    /// the modulus.
    ///
    /// # Panics
    /// When the number of words does not fit the ciphertext's level.
    pub fn decrypt_to_share(
        &self,
        ciphertext: &Ciphertext,
        expected: &Operand,
        flooding: Flooding,
    ) -> Result<Decrypted, ShareError> {
        let hidden = noise_to_hide(ciphertext, expected)?;
        let std = flooding.deviation(hidden, ciphertext.scale);
        let places = primes_for(self.params(), ciphertext.level, ciphertext.scale, hidden)?;
        let mut coefficients = self.phase(ciphertext, &places);
        let mut noise = Zeroizing::new(vec![0.0; coefficients.len()]);
        gaussian::fill_real(&mut secret_generator(), std, &mut noise);
        coefficients.iter_mut().zip(noise.iter()).for_each(|(coefficient, noise)| *coefficient += noise);
        Ok(self.decode(&coefficients, ciphertext.scale, Noise { variance: hidden.variance + std * std, ..hidden }))
    }

    fn decode(&self, coefficients: &[f64], scale: f64, noise: Noise) -> Decrypted {
        let record = Record::of(self.params().n(), scale, noise);
        let slots = self.context.encoder.to_slots(coefficients);
        let values = slots.iter().map(|slot| slot.re * record.unit).collect();
        Decrypted { values, error_bound: record.error_bound, precision_bits: record.precision_bits }
    }

    /// The coefficients of `c0 + c1 s` as whole numbers nearest to 0, read from the residues modulo the primes at these
    /// places of the level's list.
    fn phase(&self, ciphertext: &Ciphertext, places: &[usize]) -> Zeroizing<Vec<f64>> {
        let (params, n) = (self.params(), self.params().n());
        let primes = &params.level(ciphertext.level).primes;
        assert_eq!(ciphertext.words.len(), 2 * primes.len() * n, "a ciphertext of its level");
        let (c0, c1) = ciphertext.words.split_at(primes.len() * n);
        let mut rows = Zeroizing::new(vec![0; places.len() * n]);
        let mut secret = Zeroizing::new(vec![0; n]);
        for (at, &place) in places.iter().enumerate() {
            let row = &mut rows[at * n..][..n];
            let ring = self.context.ring(primes[place]);
            self.context.transformed(primes[place], &self.secret, &mut secret);
            row.copy_from_slice(&c0[place * n..][..n]);
            ring.multiply_add(row, &c1[place * n..][..n], &secret);
            ring.inverse(row);
        }
        let moduli: Vec<_> = places.iter().map(|&place| params.primes()[primes[place]]).collect();
        let centred = Centred::new(&moduli);
        let number = |i: usize| {
            let mut residues = [0; Centred::PRIMES_MAX];
            for at in 0..places.len() {
                residues[at] = rows[at * n + i];
            }
            centred.number(&residues[..places.len()])
        };
        Zeroizing::new((0..n).map(number).collect())
    }

    /// Returns the transform of `-a s + m`, `[primes][N]`. `put` writes `m` for each prime, and `a` is expanded from
    /// the seed.
    fn zero_encryption(
        &self,
        seed: &[u8; 32],
        domain: u32,
        primes: &[usize],
        put: impl Fn(usize, &mut [u32]),
    ) -> Vec<u32> {
        let n = self.params().n();
        let mut body = vec![0; primes.len() * n];
        let (mut mask, mut secret) = (vec![0; n], Zeroizing::new(vec![0; n]));
        // the loop counts the rows instead of cutting the slice into chunks, because code that handles secrets has no
        // division (scripts/constant-time)
        for (at, &prime) in primes.iter().enumerate() {
            let row = &mut body[at * n..][..n];
            put(prime, row);
            ciphertext::fill_mask(self.params(), seed, domain, &[prime], &mut mask);
            self.context.transformed(prime, &self.secret, &mut secret);
            subtract_product(&self.context, prime, row, &mask, &secret);
        }
        body
    }

    /// Fresh noise for a polynomial.
    pub(super) fn noise(&self, rng: &mut ChaCha20Rng) -> Zeroizing<Vec<i64>> {
        noise(self.params().n(), rng)
    }

    /// The key in Ango's container (docs/wire-format.md 15).
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(container::write_secret_key(self.params(), self.fingerprint, |out| {
            out.reserve_exact(self.secret.len());
            out.extend(self.secret.iter().map(|&s| s as u8));
        }))
    }

    /// Reads a key in Ango's container.
    ///
    /// # Errors
    /// When the bytes are not an intact container of a secret key.
    pub fn from_bytes(bytes: &[u8]) -> Result<SecretKey, Error> {
        let (params, fingerprint, secret) = container::open_secret_key(bytes)?;
        let secret = secret.iter().map(|&s| s as i8).collect();
        let key = SecretKey::of(&params, fingerprint, secret);
        match are_ternary(&key.secret) {
            true => Ok(key),
            false => Err(Error::Malformed("a coefficient of the secret key is out of range".into())),
        }
    }
}

/// Computes `row -= a b`, where all three polynomials are transformed.
pub(super) fn subtract_product(context: &Context, prime: usize, row: &mut [u32], a: &[u32], b: &[u32]) {
    let modulus = context.ring(prime).modulus;
    for ((row, &a), &b) in row.iter_mut().zip(a).zip(b) {
        *row = modulus.sub(*row, modulus.mul(a, b));
    }
}

/// Fresh noise for a polynomial of degree `n`.
pub(super) fn noise(n: usize, rng: &mut ChaCha20Rng) -> Zeroizing<Vec<i64>> {
    let mut noise = Zeroizing::new(vec![0; n]);
    gaussian::fill(rng, ERROR_STD, &mut noise);
    noise
}

/// Public random bytes, directly from the operating system.
///
/// # Panics
/// When the operating system gives none.
pub(super) fn public_bytes<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).expect("randomness from the operating system");
    bytes
}
