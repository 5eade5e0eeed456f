//! Checks WGSL sources without a card: naga, the compiler front end of wgpu, parses and validates every stem.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Mutex;

use ::wgpu::naga;
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, Module};

use crate::ckks::gpu::CompiledStems as StemsOfNumbers;
use crate::ckks::params::POLY_DEGREES;
use crate::error::{Error, Result};
use crate::gpu::{Buffer, Compiler, Gpu, Language, Launch, Properties, Source};
use crate::stems::entries;
use crate::tfhe::gpu::CompiledStems;
use crate::tfhe::gpu::blind_rotate::Variant;
use crate::tfhe::{Params, ParamsLiteral, Preset};

/// The shared memory that every card of wgpu has.
const SHARED_BYTES_MAX: u32 = 16 << 10;
const THREADS_MAX: u32 = 256;

/// A simulated card that only compiles.
struct Checked {
    properties: Properties,
    entries: Mutex<HashSet<String>>,
}

impl Checked {
    fn new(wide_integers: bool) -> Checked {
        let properties = Properties {
            backend: "naga".to_owned(),
            name: "naga".to_owned(),
            memory_bytes: 0,
            language: Language::Wgsl,
            threads_max: THREADS_MAX,
            shared_bytes_max: SHARED_BYTES_MAX,
            groups_max: [65_535; 3],
            buffer_bytes_max: 1 << 28,
            alignment_words: 64,
            multiprocessors: 1,
            compute_capability: None,
            loop_turns_max: None,
            wide_integers,
        };
        Checked { properties, entries: Mutex::default() }
    }

    fn validate(&self, module: &Module) -> std::result::Result<ModuleInfo, String> {
        let wide = if self.properties.wide_integers { Capabilities::SHADER_INT64 } else { Capabilities::empty() };
        let mut validator = Validator::new(ValidationFlags::all(), wide);
        validator.validate(module).map_err(|error| format!("{error:?}"))
    }
}

/// A buffer without memory.
struct NoBuf;

impl Buffer for NoBuf {
    fn words(&self) -> usize {
        0
    }

    fn clear(&self, _: Range<usize>) {}
}

impl Gpu for Checked {
    type Buf = NoBuf;
    type Module = ();
    type Readback = ();

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn compile(&self, source: &Source) -> Result<()> {
        let named = |why: String| Error::Compile(format!("{}: {why}", source.stem));
        let module =
            naga::front::wgsl::parse_str(&source.text).map_err(|error| named(error.emit_to_string(&source.text)))?;
        let info = self.validate(&module).map_err(named)?;
        for (i, entry) in module.entry_points.iter().enumerate() {
            assert!(entry.workgroup_size[0] <= THREADS_MAX, "{}: {:?}", entry.name, entry.workgroup_size);
            let shared = module.global_variables.iter().filter(|(handle, variable)| {
                variable.space == AddressSpace::WorkGroup && !info.get_entry_point(i)[*handle].is_empty()
            });
            let bytes: u32 = shared.map(|(_, variable)| module.types[variable.ty].inner.size(module.to_ctx())).sum();
            assert!(bytes <= SHARED_BYTES_MAX, "{}: {bytes} bytes of shared memory", entry.name);
            self.entries.lock().expect("no other test").insert(entry.name.clone());
        }
        Ok(())
    }

    fn alloc(&self, _: usize) -> Result<NoBuf> {
        Ok(NoBuf)
    }

    fn write(&self, _: &NoBuf, _: usize, _: &[u32]) -> Result<()> {
        Ok(())
    }

    fn copy(&self, _: &NoBuf, _: usize, _: &NoBuf, _: usize, _: usize) -> Result<()> {
        unreachable!("nothing runs")
    }

    fn launch(&self, _: &Launch<'_, (), NoBuf>) -> Result<()> {
        unreachable!("nothing runs")
    }

    fn read(&self, _: &NoBuf, _: &[Range<usize>]) -> Result<()> {
        unreachable!("nothing runs")
    }

    fn finish(&self, _: ()) -> Result<Vec<u32>> {
        unreachable!("nothing runs")
    }
}

/// Lists the parameters of all presets, and two extreme sets: one with the smallest ring, one with the largest
/// dimensions and level counts.
fn parameters() -> impl Iterator<Item = Params> {
    let preset = *Preset::Fast128.params();
    let smallest = ParamsLiteral { polynomial_size: 64, ..preset };
    let largest = ParamsLiteral {
        lwe_dimension: 2048,
        glwe_dimension: 4,
        polynomial_size: 2048,
        bootstrap_base_log: 3,
        bootstrap_level_count: 8,
        key_switch_base: 2,
        key_switch_level_count: 24,
        ..preset
    };
    let extremes = [smallest, largest].map(|literal| Params::try_from(literal).expect("a shape within the bounds"));
    Preset::ALL.map(Preset::params).into_iter().chain(extremes)
}

#[test]
fn every_stem_is_valid_and_within_every_card_s_limits_for_every_preset() {
    for wide_integers in [true, false] {
        let card = Checked::new(wide_integers);
        for params in parameters() {
            if let Err(error) = CompiledStems::new(&card, &Compiler::default(), &params, Variant::Plain) {
                panic!("wide {wide_integers}, {params:?}: {error}");
            }
        }
        for degree in POLY_DEGREES {
            if let Err(error) = StemsOfNumbers::new(&card, &Compiler::default(), degree) {
                panic!("wide {wide_integers}, numbers of degree {degree}: {error}");
            }
        }
        let expected: HashSet<String> =
            entries().filter(|entry| entry.variant.is_none()).map(|entry| entry.name.to_owned()).collect();
        assert_eq!(*card.entries.lock().expect("no other test"), expected, "entries that were looked at");
    }
}

#[test]
fn a_narrow_card_is_given_no_wide_integer() {
    let wide = Source { stem: "wide", text: "fn f(x: u32) -> u64 { return u64(x); }".to_owned() };
    assert!(Checked::new(true).compile(&wide).is_ok());
    assert!(matches!(Checked::new(false).compile(&wide), Err(Error::Compile(why)) if why.starts_with("wide: ")));
}
