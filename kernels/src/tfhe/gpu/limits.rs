//! How many rows and how many keys of gates a card takes together.

use super::blind_rotate::Variant;
use super::key::Key;
use crate::backend::DeviceInfo;
use crate::gpu::{Gpu, Language, Properties};
use crate::tfhe::{Params, Preset};

/// Largest number of bootstraps that run through the kernels together; larger batches are split. This number makes
/// enough waves of groups to fill the GPU.
pub(super) const ROWS_AT_ONCE_MAX: usize = 1 << 14;
/// Number of full waves of groups in a batch of `DeviceInfo::rows_max` rows.
const WAVES: usize = 2;
/// Largest number of full waves of groups in one launch. So many waves take half a second on the smallest card. A
/// driver may end a launch that blocks the screen for some seconds.
const WAVES_AT_ONCE_MAX: usize = 16;
/// Two batches may be in flight, so that the copies of one batch overlap with the work of the other batch.
const BATCHES_IN_FLIGHT_MAX: usize = 2;

/// Largest number of table words for one bootstrap of a gate.
const TABLE_WORDS_OF_A_ROW: usize = 17;
/// Largest number of ranges in a bank. The end of each range may be padded.
const RANGES_MAX: usize = 2;

/// Describes a card with the limits that suit its gates.
pub fn device_info(properties: &Properties) -> DeviceInfo {
    DeviceInfo {
        backend: properties.backend.clone(),
        name: properties.name.clone(),
        memory_bytes: properties.memory_bytes,
        // a WGSL kernel has one buffer for the rows of all sessions of a call
        arena_bytes_max: match properties.language {
            Language::Cuda => u64::MAX,
            Language::Wgsl => properties.buffer_bytes_max,
        },
        rows_max: WAVES * rows_of_a_wave(properties, &Preset::Fast128.params()),
        batches_in_flight_max: BATCHES_IN_FLIGHT_MAX,
        keys_together_max: keys_together_max(properties),
    }
}

/// The number of bootstraps that run through the kernels together, within the GPU's limits on groups and buffers.
pub(super) fn rows_at_once<G: Gpu>(gpu: &G, key: &Key<G>, batches: usize) -> usize {
    let (properties, p) = (gpu.properties(), &key.params);
    let even = p.accumulator_words() + TABLE_WORDS_OF_A_ROW;
    let odd = p.lwe_dimension + 1;
    let words = (properties.buffer_bytes_max / 4) as usize;
    let fit = words.saturating_sub(RANGES_MAX * properties.alignment_words as usize) / even.max(odd);
    let groups_max = properties.groups_max[0];
    let rows = fit.min(groups_max as usize).min(key.stems.key_switch.gates_max(groups_max, batches));
    let rows = rows.min(WAVES_AT_ONCE_MAX * rows_of_a_wave(properties, p));
    // at least two, because two bootstraps of a MUX run together
    rows.clamp(2, ROWS_AT_ONCE_MAX)
}

/// Number of rows that a GPU runs at the same time.
fn rows_of_a_wave(properties: &Properties, params: &Params) -> usize {
    properties.multiprocessors as usize * Variant::of(properties, params).rows_of_a_multiprocessor(params)
}

/// Number of keys, with one row each, that a GPU runs at the same time: one for each multiprocessor. Further keys would
/// wait, just as in a separate call.
fn keys_together_max(properties: &Properties) -> usize {
    properties.multiprocessors.max(1) as usize
}
