//! Reads and checks the member `seeds` in the head of an octet-stream. The masks of the ciphertexts after the head are
//! made from these seeds (docs/wire-format.md 7 and 10).

use std::collections::HashSet;

use api::Code;
use api::seeds::{SEEDS_MAX, Seed};

use crate::web::error::ApiError;

/// Seeds in order, each with the number of the ciphertexts after the head that use it.
#[derive(Debug, PartialEq, Eq)]
pub struct Seeds(pub Vec<([u8; 32], usize)>);

impl Seeds {
    /// Reads the seeds of a head. Each seed may occur only once in a request, because a repeated seed makes equal
    /// masks, which show which bits are equal. A seed that is repeated in another request cannot be detected here.
    pub fn of(seeds: &[Seed]) -> Result<Seeds, ApiError> {
        if seeds.len() > SEEDS_MAX {
            let message = format!("the request has {} seeds, but at most {SEEDS_MAX} are allowed", seeds.len());
            return Err(ApiError::new(Code::InvalidRequest, message).at("seeds", "too many"));
        }
        let mut met = HashSet::with_capacity(seeds.len());
        let read = |(at, given): (usize, &Seed)| {
            let refused = |code, member: &str, issue: &str| {
                let field = format!("seeds[{at}].{member}");
                Err(ApiError::new(code, format!("{field}: {issue}")).at(field, issue))
            };
            let mut seed = [0; 32];
            if hex::decode_to_slice(&given.seed, &mut seed).is_err() {
                return refused(Code::InvalidRequest, "seed", "not 64 hexadecimal digits");
            }
            if !met.insert(seed) {
                return refused(Code::InvalidCiphertext, "seed", "the same seed twice: use each seed once");
            }
            match usize::try_from(given.ciphertexts) {
                Ok(count @ 1..) => Ok((seed, count)),
                _ => refused(Code::InvalidRequest, "ciphertexts", "must be at least 1"),
            }
        };
        seeds.iter().enumerate().map(read).collect::<Result<_, _>>().map(Seeds)
    }

    /// Returns the number of ciphertexts of all seeds together.
    pub fn ciphertexts(&self) -> usize {
        self.0.iter().fold(0, |sum, &(_, count)| sum.saturating_add(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed(digits: &str, ciphertexts: u64) -> Seed {
        Seed { seed: digits.to_owned(), ciphertexts }
    }

    #[test]
    fn seeds_are_read_in_their_order() {
        let seeds = Seeds::of(&[seed(&"0f".repeat(32), 3), seed(&"A0".repeat(32), 4)]).unwrap();
        assert_eq!(seeds, Seeds(vec![([0x0f; 32], 3), ([0xa0; 32], 4)]));
        assert_eq!(seeds.ciphertexts(), 7);
    }

    #[test]
    fn what_is_no_seed_or_serves_twice_is_refused_with_its_place() {
        let good = "00".repeat(32);
        for (seeds, code) in [
            (vec![seed(&good[1..], 1)], Code::InvalidRequest),
            (vec![seed(&format!("{good}0"), 1)], Code::InvalidRequest),
            (vec![seed(&good.replace("00", "0g"), 1)], Code::InvalidRequest),
            (vec![seed("é", 1)], Code::InvalidRequest),
            (vec![seed(&good, 0)], Code::InvalidRequest),
            (vec![seed(&good, 1), seed(&good, 1)], Code::InvalidCiphertext),
            ((0..=SEEDS_MAX).map(|at| seed(&format!("{at:064x}"), 1)).collect(), Code::InvalidRequest),
        ] {
            assert_eq!(Seeds::of(&seeds).unwrap_err().code, code);
        }
        let many = [seed(&good, u64::MAX), seed(&"11".repeat(32), u64::MAX)];
        assert_eq!(Seeds::of(&many).unwrap().ciphertexts(), usize::MAX, "no sum overflows");
    }
}
