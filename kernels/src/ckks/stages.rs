//! The levels of a chain that a bootstrap takes, stage by stage ([`super::bootstrap`]).

/// Number of levels of each of the two matrix stages.
pub(super) const FACTORS: usize = 2;
/// Number of times that the remainder doubles the angle of the cosine.
pub(super) const DOUBLINGS: usize = 3;
/// Number of levels of the remainder: five for the series, one for each doubling.
pub(super) const REMAINDER_LEVELS: usize = 5 + DOUBLINGS;
/// Number of levels that bootstrapping adds to the levels of the application.
pub(super) const LEVELS: usize = 2 * FACTORS + REMAINDER_LEVELS;
/// The smallest degree at which chains with these levels reach 128 bits of security.
const SECURE_DEGREE: usize = 32768;
/// The sizes of the stages' levels: for each stage, by how many bits a level is larger than the level below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stages {
    /// Bits of each level of the second matrix stage, from slots to coefficients.
    pub(super) to_coefficients: u32,
    /// Bits of each level of the remainder, and of the scale there.
    pub(super) remainder: u32,
    /// Bits of each level of the first matrix stage, from coefficients to slots.
    pub(super) to_slots: u32,
    /// The least number of bits that level 0 has above its scale. The larger this number is, the smaller the error of
    /// the sine is, and the larger the errors of all steps before the last are. For numbers up to 1, both errors are
    /// then small.
    pub(super) headroom: u32,
    /// The number of bits that level 0 has above the usual scale of a message that is bootstrapped. A message at the scale
    /// of level 0 is first multiplied by a power of two.
    pub(super) ratio: u32,
    /// How far apart the scales of messages are, in bits, for which there are matrices of their own. A message at a scale
    /// between two of them is multiplied by a power of two. Matrices for a smaller scale are more precise, but matrices of
    /// the secure degree take much memory.
    pub(super) matrices_apart: u32,
}

impl Stages {
    /// Lists the sizes for this degree and this scale, in the order in which they are tried. The sizes of one entry are
    /// equally good, so the chain with the fewest digits decides between them. At the testing degrees, modulus costs
    /// nothing, so all levels are large. At the secure degree, every saved bit is left to the special primes, and longer
    /// special primes mean fewer digits. A larger scale holds more precision, so its stages are larger; the smallest
    /// stages leave the most levels to the application.
    pub(super) fn choices(polynomial_size: usize, scale_bits: u32) -> Vec<Vec<Stages>> {
        if polynomial_size < SECURE_DEGREE {
            return vec![vec![Stages {
                to_coefficients: scale_bits,
                remainder: 56,
                to_slots: 56,
                headroom: 13,
                ratio: 13,
                matrices_apart: 1,
            }]];
        }
        let small = Stages {
            to_coefficients: 30,
            remainder: 49,
            to_slots: 49,
            headroom: 10,
            ratio: 8,
            matrices_apart: u32::MAX,
        };
        let middle = Stages { remainder: 52, to_slots: 50, ..small };
        let large = Stages { remainder: 54, ..middle };
        match scale_bits {
            ..=28 => vec![vec![small]],
            29..=35 => vec![vec![middle], vec![small]],
            36.. => vec![vec![large, Stages { to_coefficients: 32, ..large }], vec![middle], vec![small]],
        }
    }

    /// Lists the number of bits from each level to the next higher level, from level 0 on: first the application's
    /// levels, then the stages from last to first.
    pub(super) fn steps(&self, scale_bits: u32, depth: u32) -> Vec<u32> {
        let stages = [(self.to_coefficients, FACTORS), (self.remainder, REMAINDER_LEVELS), (self.to_slots, FACTORS)];
        let all = [(scale_bits, depth as usize)].into_iter().chain(stages);
        all.flat_map(|(bits, levels)| std::iter::repeat_n(bits, levels)).collect()
    }
}
