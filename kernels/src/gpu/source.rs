//! Sources as they are compiled: constants in the language's own syntax, `modular`, helpers, the stem.
//!
//! No number of a parameter set is written in a shader. A constant that a text does not name is left out of its prelude, so
//! that parameters which differ in nothing that matters to a stem share its compilation.

use super::unroll::unrolled;
use super::{Card, Language, Source};
use crate::tfhe::torus::TORUS_CORRECTION;
use crate::tfhe::{MODULUS, Params, RING_MODULUS, ring};

/// A text of `shaders/`.
pub struct Text {
    cuda: &'static str,
    wgsl: &'static str,
}

/// A language as one card takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// CUDA C++.
    Cuda,
    /// WGSL with 64-bit integers.
    WideWgsl,
    /// WGSL without them: what every card takes.
    NarrowWgsl,
}

impl Dialect {
    /// That of a card.
    pub fn of(card: &Card) -> Dialect {
        match card.language {
            Language::Cuda => Dialect::Cuda,
            Language::Wgsl if card.wide_integers => Dialect::WideWgsl,
            Language::Wgsl => Dialect::NarrowWgsl,
        }
    }

    /// What goes before the texts, which WGSL has no word for and CUDA has.
    fn mul_high(self) -> &'static str {
        match self {
            Dialect::Cuda => "",
            Dialect::WideWgsl => include_str!("../../../shaders/mul_high.wide.wgsl"),
            Dialect::NarrowWgsl => include_str!("../../../shaders/mul_high.narrow.wgsl"),
        }
    }
}

macro_rules! text {
    ($name:literal) => {
        Text {
            cuda: include_str!(concat!("../../../shaders/", $name, ".cu")),
            wgsl: include_str!(concat!("../../../shaders/", $name, ".wgsl")),
        }
    };
}

/// A text that only CUDA has.
macro_rules! cuda_text {
    ($name:literal) => {
        Text { cuda: include_str!(concat!("../../../shaders/", $name, ".cu")), wgsl: "" }
    };
}

/// Arithmetic, in front of every stem.
const MODULAR: Text = text!("modular");
/// From the buffers of one batch to those of another.
pub const DISTANCE: Text = cuda_text!("distance");
/// Transforms: a stem, and a helper of blind rotation.
pub const NTT: Text = text!("ntt");
/// Linear parts of gates, and NOT.
pub const LINEAR: Text = text!("linear");
/// Modulus switch.
pub const MOD_SWITCH: Text = text!("mod_switch");
/// Blind rotation.
pub const BLIND_ROTATE: Text = text!("blind_rotate");
/// Copies beside the threads, groups that see each other's memory.
pub const ASYNC: Text = cuda_text!("blind_rotate.async");
/// Transforms in registers.
pub const REGISTERS: Text = cuda_text!("blind_rotate.registers");
/// Blind rotation, a warp a polynomial.
pub const BLIND_ROTATE_WARP: Text = cuda_text!("blind_rotate.warp");
/// Blind rotation, a row over several groups.
pub const BLIND_ROTATE_CLUSTER: Text = cuda_text!("blind_rotate.cluster");
/// Sample extraction.
pub const SAMPLE_EXTRACT: Text = text!("sample_extract");
/// Key switch.
pub const LWE_KEY_SWITCH: Text = text!("lwe_key_switch");

impl Text {
    fn of(&self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Cuda => self.cuda,
            Dialect::WideWgsl | Dialect::NarrowWgsl => self.wgsl,
        }
    }
}

/// The source of a stem: `texts` are its helpers and itself, `threads` those of a group, `more` constants of its own.
pub fn source(
    dialect: Dialect,
    stem: &'static str,
    texts: &[&Text],
    params: &Params,
    threads: u32,
    more: &[(&'static str, u32)],
) -> Source {
    let mut body = [dialect.mul_high(), MODULAR.of(dialect)].concat();
    for text in texts {
        body.push('\n');
        body.push_str(text.of(dialect));
    }
    let constants: Vec<(&str, u32)> =
        constants(params).into_iter().chain([("THREADS", threads)]).chain(more.iter().copied()).collect();
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

/// Whether the text has this word.
fn names(text: &str, word: &str) -> bool {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).any(|found| found == word)
}

/// What the parameters are to a kernel.
fn constants(p: &Params) -> Vec<(&'static str, u32)> {
    let n = p.polynomial_size as u32;
    let (base_log, levels) = (p.bootstrap_base_log as u32, p.bootstrap_level_count as u32);
    let digits = crate::cpu::Decomposition::new(p);
    // the product with the key is Montgomery's, the inverse transform multiplies by N
    let key_factor = MODULUS.mul(MODULUS.pow(2, 32), MODULUS.inverse(n));
    let covered = u64::from(p.key_switch_base).pow(p.key_switch_level_count as u32);
    vec![
        ("Q", RING_MODULUS),
        ("Q_INVERSE", MODULUS.montgomery_inverse()),
        ("TORUS_CORRECTION", TORUS_CORRECTION),
        ("EIGHTH_Q", (RING_MODULUS + 4) / 8),
        ("N", n),
        ("LOG_N", n.trailing_zeros()),
        ("KEY_FACTOR", key_factor),
        ("KEY_FACTOR_COMPANION", MODULUS.companion(key_factor)),
        ("ROOT_64", root_64()),
        ("K", p.glwe_dimension as u32),
        ("LEVELS", levels),
        ("BASE_LOG", base_log),
        ("DIGIT_OFFSET", digits.offset),
        ("DIGIT_SHIFT", digits.shift),
        ("LWE_DIMENSION", p.lwe_dimension as u32),
        ("EXTRACTED_DIMENSION", p.extracted_dimension() as u32),
        ("KS_BASE", p.key_switch_base),
        ("KS_LEVELS", p.key_switch_level_count as u32),
        // D^t, at most 2^32, which is written 0
        ("KS_COVERED", covered as u32),
    ]
}

/// A primitive 64th root of unity: `psi^(N / 32)` for every N.
fn root_64() -> u32 {
    ring(64).roots[16].value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tfhe::Preset;

    #[test]
    fn a_prelude_has_what_its_stem_names_and_nothing_else() {
        let p = Preset::Fast128.params();
        let source = source(Dialect::Cuda, "mod_switch", &[&MOD_SWITCH], &p, 256, &[]);
        assert!(source.text.contains("constexpr unsigned LOG_N = 10u;\n"));
        assert!(source.text.contains("constexpr unsigned THREADS = 256u;\n"));
        assert!(!source.text.contains("LWE_DIMENSION"));
    }
}
