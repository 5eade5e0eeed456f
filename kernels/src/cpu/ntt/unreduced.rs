//! Forward transforms without reductions: the primes that are short enough, and the bounds of the words.

/// A forward transform that reduces no sum, because its prime is so short that all words fit without a reduction.
#[derive(Clone, Copy)]
pub(crate) struct Unreduced {
    /// A multiple of `q` that is added to the sums of the first stage. All stages together subtract less than this
    /// offset.
    pub(super) offset: u32,
    /// All words stay below this bound.
    bound: u32,
}

impl Unreduced {
    /// Computes the bounds for a transform of words in `[0, 2q)`; `None` if the words would not fit. A stage adds or
    /// subtracts a product, which is below `(1 + bound / 2^32) q`.
    pub(super) fn new(q: u32, stages: u32) -> Option<Unreduced> {
        let word = 1u64 << 32;
        (stages..2 * stages).find_map(|multiple| {
            let [offset, bound] = [multiple, 2 + 2 * multiple].map(|of| u64::from(of) * u64::from(q));
            // the room of `4q` is for two products below `2q`, which may be added to a word after the transform
            let fits = bound + 4 * u64::from(q) <= word;
            let suffices = u64::from(stages) * (word + bound) <= u64::from(multiple) * word;
            (fits && suffices).then_some(Unreduced { offset: offset as u32, bound: bound as u32 })
        })
    }

    /// Returns the largest number of products whose sum stays below `3 q 2^32`, if each product has one unreduced
    /// factor and one reduced factor.
    pub(crate) fn products_together(&self) -> usize {
        ((3 << 32) / u64::from(self.bound)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_unreduced_transforms_fit_and_never_fall_below_0() {
        let mut unreduced = 0;
        for q in [3, 786_433, 1 << 24, (1 << 25) + 3, (1 << 26) - 1, (1 << 27) - 1, 1 << 28] {
            for stages in 1..=16 {
                let Some(bounds) = Unreduced::new(q, stages) else { continue };
                unreduced += 1;
                let (q, offset) = (u64::from(q), u64::from(bounds.offset));
                // the Shoup product of a word x and a root is below q + x q / 2^32; here, x is at most `most`, the
                // bound after the previous stage
                let (mut least, mut most) = (0, 2 * q - 1);
                for stage in 0..stages {
                    let product = q + most * q / (1 << 32);
                    let raised = if stage == 0 { offset } else { 0 };
                    assert!(least + raised >= product, "{q} {stages} {stage}");
                    (least, most) = (least + raised - product, most + raised + product);
                }
                assert!(most < u64::from(bounds.bound) && most + 4 * q < 1 << 32, "{q} {stages}");
                let products = bounds.products_together() as u64;
                assert!(products >= 3 && products * most <= 3 << 32, "{q} {stages}");
            }
        }
        assert!(unreduced > 4 * 16, "most of these are short: {unreduced}");
    }
}
