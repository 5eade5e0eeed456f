//! The evaluation key's payload (docs/wire-format.md 4): shape, seed, bodies.

use super::Error;
use super::frame::{Tag, VERSION, VERSION_CENTRED, frame_of_version, unframe};
use crate::bytes::{put_words, words};
use crate::tfhe::keys::Masks;
use crate::tfhe::{EvaluationKey, ModSwitch, Params, Preset, RING_MODULUS};

/// Number of words that state the key's shape. These words repeat the preset's values, so that a reader can check them.
const SHAPE_WORDS: usize = 8;
const SEED_BYTES: usize = 32;

fn shape(params: &Params) -> [u32; SHAPE_WORDS] {
    [
        params.lwe_dimension as u32,
        params.glwe_dimension as u32,
        params.polynomial_size as u32,
        params.bootstrap_base_log as u32,
        params.bootstrap_level_count as u32,
        params.key_switch_base,
        params.key_switch_level_count as u32,
        RING_MODULUS,
    ]
}

pub(super) fn write(key: &EvaluationKey) -> Vec<u8> {
    let Masks::Ango(seed) = key.masks else { panic!("an imported key keeps its own form") };
    let version = match key.params.mod_switch {
        ModSwitch::Nearest => VERSION,
        ModSwitch::Centred => VERSION_CENTRED,
    };
    frame_of_version(version, Tag::EvaluationKey, key.preset, key.fingerprint, |out| {
        out.reserve_exact(4 * SHAPE_WORDS + SEED_BYTES + key.memory_bytes());
        put_words(out, &shape(&key.params));
        out.extend(seed);
        put_words(out, &key.bootstrap_bodies);
        put_words(out, &key.key_switch_bodies);
    })
}

pub(super) fn read(bytes: &[u8]) -> Result<EvaluationKey, Error> {
    let (header, payload) = unframe(bytes, Tag::EvaluationKey)?;
    if header.version == VERSION && !Preset::OF_VERSION_1.contains(&header.preset) {
        let preset = header.preset.name();
        return Err(Error::Params(format!("evaluation keys of {preset} need container version {VERSION_CENTRED}")));
    }
    let mod_switch = if header.version == VERSION { ModSwitch::Nearest } else { ModSwitch::Centred };
    let params = header.preset.params().with_mod_switch(mod_switch);
    let expected = 4 * SHAPE_WORDS + SEED_BYTES + params.seeded_bytes();
    if payload.len() != expected {
        let (preset, found) = (header.preset.name(), payload.len());
        return Err(Error::Malformed(format!("a {preset} evaluation key has {expected} payload bytes, found {found}")));
    }
    let (shape_bytes, rest) = payload.split_at(4 * SHAPE_WORDS);
    if !words(shape_bytes).eq(shape(&params)) {
        return Err(Error::Params(format!(
            "the key's shape differs from the shape of preset {}",
            header.preset.name()
        )));
    }
    let (seed, rest) = rest.split_at(SEED_BYTES);
    let (bootstrap, key_switch) = rest.split_at(4 * params.bootstrap_body_words());
    if let Some(at) = words(bootstrap).position(|word| word >= RING_MODULUS) {
        return Err(Error::Malformed(format!("word {at} of the bootstrapping key is not below the ring modulus")));
    }
    Ok(EvaluationKey {
        preset: header.preset,
        params,
        fingerprint: header.fingerprint,
        masks: Masks::Ango(seed.try_into().expect("the seed's bytes")),
        bootstrap_bodies: words(bootstrap).collect(),
        key_switch_bodies: words(key_switch).collect(),
    })
}
