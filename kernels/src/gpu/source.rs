//! Sources for compilation: constants in the language's syntax, then the texts of `residue`, of helpers and of the
//! kernel stem.
//!
//! The texts in `shaders/` contain no number of a parameter set. The prelude before a text defines only the constants
//! that occur in the text. So parameter sets that differ only in other constants share a compilation.

use super::unroll::unrolled;
use super::{Language, Properties, Source};
use crate::ring::Ring;

/// A text of `shaders/`.
pub struct Text {
    /// The CUDA C++ text.
    pub cuda: &'static str,
    /// The WGSL text; empty if only CUDA has it.
    pub wgsl: &'static str,
}

/// A constant of the prelude: its name and value.
pub type Constant = (&'static str, u32);

/// The variant of the language that a card compiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// CUDA C++.
    Cuda,
    /// WGSL with 64-bit integers.
    WideWgsl,
    /// WGSL without 64-bit integers. Every card compiles this variant.
    NarrowWgsl,
}

impl Dialect {
    /// Returns the dialect that a card compiles.
    pub fn of(properties: &Properties) -> Dialect {
        match properties.language {
            Language::Cuda => Dialect::Cuda,
            Language::Wgsl if properties.wide_integers => Dialect::WideWgsl,
            Language::Wgsl => Dialect::NarrowWgsl,
        }
    }

    /// Returns the text of the function that computes the high word of a product. WGSL needs this text; for CUDA, which
    /// has the function built in, the text is empty.
    fn mul_high(self) -> &'static str {
        match self {
            Dialect::Cuda => "",
            Dialect::WideWgsl => include_str!("../../../shaders/mul_high.wide.wgsl"),
            Dialect::NarrowWgsl => include_str!("../../../shaders/mul_high.narrow.wgsl"),
        }
    }
}

/// Makes a `Text` in both languages, from its name in `shaders/`.
macro_rules! text {
    ($name:literal) => {
        $crate::gpu::source::Text {
            cuda: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../shaders/", $name, ".cu")),
            wgsl: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../shaders/", $name, ".wgsl")),
        }
    };
}
pub(crate) use text;

/// Makes a `Text` for CUDA only, from its name in `shaders/`.
macro_rules! cuda_text {
    ($name:literal) => {
        $crate::gpu::source::Text {
            cuda: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../shaders/", $name, ".cu")),
            wgsl: "",
        }
    };
}
pub(crate) use cuda_text;

/// Helper: arithmetic modulo a prime that is an argument. This text comes before every stem.
const RESIDUE: Text = text!("residue");
/// Helper: arithmetic modulo the prime of a ring.
pub const MODULAR: Text = text!("modular");
/// Helper: places of rows and keys.
pub const PLACE: Text = text!("place");
/// Transforms: a stem, and also a helper of other stems.
pub const NTT: Text = text!("ntt");
/// Helper: transforms in registers.
pub const NTT_REGISTERS: Text = cuda_text!("ntt.registers");

impl Text {
    fn of(&self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Cuda => self.cuda,
            Dialect::WideWgsl | Dialect::NarrowWgsl => self.wgsl,
        }
    }
}

/// Makes the source of a stem. `texts` are the stem's helpers and the stem itself, `constants` are the constants of its
/// scheme, `threads` is the number of threads in a group, and `more` are further constants.
pub fn source(
    dialect: Dialect,
    stem: &'static str,
    texts: &[&Text],
    constants: &[Constant],
    threads: u32,
    more: &[Constant],
) -> Source {
    let mut body = [dialect.mul_high(), RESIDUE.of(dialect)].concat();
    for text in texts {
        body.push('\n');
        body.push_str(text.of(dialect));
    }
    let constants: Vec<(&str, u32)> =
        constants.iter().copied().chain([("THREADS", threads)]).chain(more.iter().copied()).collect();
    if dialect != Dialect::Cuda {
        body = unrolled(&body, &constants);
    }
    let mut text: String = constants
        .into_iter()
        .filter(|(name, _)| names(&body, name))
        .map(|(name, value)| match dialect {
            Dialect::Cuda => format!("constexpr unsigned {name} = {value}u;\n"),
            Dialect::WideWgsl | Dialect::NarrowWgsl => format!("const {name}: u32 = {value}u;\n"),
        })
        .collect();
    text.push_str(&body);
    Source { stem, text }
}

/// Whether the text contains `word` as a whole word.
fn names(text: &str, word: &str) -> bool {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).any(|found| found == word)
}

/// Lists the constants of a ring for kernels.
pub fn ring_constants(ring: &Ring) -> Vec<Constant> {
    let (m, n) = (ring.modulus, ring.polynomial_size() as u32);
    // this factor of the key cancels two others: Montgomery's reduction of products divides by 2^32, and the inverse
    // transform multiplies by N
    let key_factor = m.mul(m.pow(2, 32), m.inverse(n));
    vec![
        ("Q", m.q()),
        ("Q_INVERSE", m.montgomery_inverse()),
        ("N", n),
        ("LOG_N", n.trailing_zeros()),
        ("KEY_FACTOR", key_factor),
        ("KEY_FACTOR_COMPANION", m.companion(key_factor)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modular::Modulus;

    #[test]
    fn a_prelude_has_what_its_stem_names_and_nothing_else() {
        let constants = ring_constants(&Ring::new(Modulus::new(12289), 1024));
        let source = source(Dialect::Cuda, "ntt", &[&MODULAR, &NTT], &constants, 256, &[("UNKNOWN", 1)]);
        assert!(source.text.contains("constexpr unsigned Q = 12289u;\n"));
        assert!(source.text.contains("constexpr unsigned LOG_N = 10u;\n"));
        assert!(source.text.contains("constexpr unsigned THREADS = 256u;\n"));
        assert!(!source.text.contains("UNKNOWN"));
    }
}
