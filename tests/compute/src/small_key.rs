//! Keys of small shapes that protect nothing, for tests. A client makes keys of presets only.

use kernels::tfhe::lwe::Lwe;
use kernels::tfhe::{EvaluationKey, Params};

use crate::evaluation_key::{add_noise, draw, of_secrets};

/// A secret of any shape and its evaluation key.
pub struct SmallKey {
    /// The evaluation key, with the noise of its parameters.
    pub evaluation: EvaluationKey,
    s: Vec<i64>,
}

impl SmallKey {
    /// Makes a key of these parameters from the words of `random`.
    pub fn new(params: &Params, random: &mut impl FnMut() -> u64) -> SmallKey {
        let s: Vec<i64> = (0..params.lwe_dimension).map(|_| (random() & 1) as i64).collect();
        let z: Vec<i64> = (0..params.extracted_dimension()).map(|_| (random() % 3) as i64 - 1).collect();
        let mut seed = [0; 32];
        seed.fill_with(|| random() as u8);
        let mut evaluation = of_secrets(params, &s, &z, seed);
        add_noise(&mut evaluation, random);
        SmallKey { evaluation, s }
    }

    /// An encryption of a bit.
    pub fn encrypt(&self, bit: bool, random: &mut impl FnMut() -> u64) -> Lwe {
        let mut words: Vec<u32> = self.s.iter().map(|_| random() as u32).collect();
        let mut body = self.mask_product(&words).wrapping_add(Lwe::trivial_body(bit));
        draw(random, self.evaluation.params.lwe_noise_std * 32f64.exp2(), 1, |_, error| {
            body = body.wrapping_add(error as u32);
        });
        words.push(body);
        Lwe::new(words)
    }

    /// `b - <a, s>` of a ciphertext's words.
    ///
    /// # Panics
    /// If the ciphertext has no words.
    pub fn phase(&self, ciphertext: &[u32]) -> u32 {
        let (body, mask) = ciphertext.split_last().expect("a ciphertext has a body");
        body.wrapping_sub(self.mask_product(mask))
    }

    fn mask_product(&self, mask: &[u32]) -> u32 {
        mask.iter().zip(&self.s).fold(0, |sum, (&a, &s)| sum.wrapping_add(a.wrapping_mul(s as u32)))
    }
}
