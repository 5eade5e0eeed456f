//! Residues packed as bits: a row of `N` residues takes `N` times as many bits as its prime `q` has, least significant
//! bit first, without gaps.

use crate::container::Error;
use crate::modular::Modulus;

/// Size of a packed row of `n` residues, in bytes. The number of bytes is whole because `n` is a multiple of 8.
pub fn row_bytes(modulus: Modulus, n: usize) -> usize {
    n * modulus.bits() as usize / 8
}

/// Packs a row and appends it to `out`. No branch depends on the words.
pub fn pack(modulus: Modulus, row: &[u32], out: &mut Vec<u8>) {
    let bits = modulus.bits();
    out.reserve(row_bytes(modulus, row.len()));
    let (mut pending, mut filled) = (0u64, 0);
    for &word in row {
        pending |= u64::from(word) << filled;
        filled += bits;
        if filled >= 32 {
            out.extend((pending as u32).to_le_bytes());
            pending >>= 32;
            filled -= 32;
        }
    }
    // the number of remaining bits is a multiple of 8
    out.extend(&pending.to_le_bytes()[..filled as usize / 8]);
}

/// Unpacks a row into `out`. The length of `bytes` must be exactly [`row_bytes`].
///
/// # Errors
/// When a residue is not below its prime.
pub fn unpack(modulus: Modulus, bytes: &[u8], out: &mut [u32]) -> Result<(), Error> {
    assert_eq!(bytes.len(), row_bytes(modulus, out.len()), "a whole row");
    let bits = modulus.bits();
    let mask = (1u64 << bits) - 1;
    let mut words = bytes.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from(u32::from_le_bytes(word))
    });
    let (mut pending, mut filled, mut excess) = (0u64, 0, false);
    for out in out {
        if filled < bits {
            pending |= words.next().expect("the row's length was checked") << filled;
            filled += 32;
        }
        let word = (pending & mask) as u32;
        excess |= word >= modulus.q();
        *out = word;
        pending >>= bits;
        filled -= bits;
    }
    match excess {
        false => Ok(()),
        true => Err(Error::Malformed(format!("a residue is not below its prime {}", modulus.q()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modular::tests::PRIMES;

    #[test]
    fn rows_survive_packing_and_take_no_more_bits_than_their_prime() {
        for modulus in PRIMES.map(Modulus::new) {
            for n in [8, 64, 256] {
                let row: Vec<u32> = (0..n)
                    .map(|i: u32| i.wrapping_mul(2_654_435_761) % modulus.q())
                    .map(|x| modulus.q() - 1 - x)
                    .collect();
                let mut bytes = Vec::new();
                pack(modulus, &row, &mut bytes);
                assert_eq!(bytes.len(), row_bytes(modulus, n as usize));
                let mut read = vec![0; n as usize];
                assert_eq!(unpack(modulus, &bytes, &mut read), Ok(()));
                assert_eq!(read, row);
            }
        }
    }

    #[test]
    fn the_first_residue_is_in_the_lowest_bits_of_the_first_bytes() {
        // 65537 has 17 bits, so eight residues fill 17 bytes
        let mut bytes = Vec::new();
        pack(Modulus::new(65537), &[0x1_0000, 1, 2, 3, 0, 0, 0, 0], &mut bytes);
        assert_eq!(bytes, [0, 0, 3, 0, 8, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_residue_of_its_prime_or_above_is_refused() {
        let modulus = Modulus::new(12289);
        for bad in [12289, 16383] {
            for at in [0, 5, 63] {
                let mut row = vec![7; 64];
                row[at] = bad;
                let mut bytes = Vec::new();
                pack(modulus, &row, &mut bytes);
                assert!(unpack(modulus, &bytes, &mut row).is_err(), "{bad} at {at}");
            }
        }
    }
}
