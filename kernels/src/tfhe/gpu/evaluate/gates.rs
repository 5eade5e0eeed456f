//! Gates of some batches on a card: the tables of one part, and the order of its kernels.

use super::Batch;
use super::bootstrap::BootstrapScratch;
use super::together::{KeyPlaces, Lists, Segments, Step, Tables, counts};
use crate::error::Result;
use crate::gpu::{Device, Gpu, Table};
use crate::tfhe::SlotGate;
use crate::tfhe::gpu::linear;
use crate::tfhe::gpu::lwe_key_switch::Results;

/// Does a step of some gates of some batches, with at most as many bootstraps as can run together. Then copies the
/// slots that the batches in `copied` request to one range, and starts to read this range.
pub fn evaluate_gates<G: Gpu>(
    device: &Device<G>,
    batches: &[&Batch<'_, G>],
    step: Step,
    part: &[(usize, &[SlotGate])],
    copied: &[&Batch<'_, G>],
) -> Result<Option<G::Readback>> {
    let (gpu, key, properties) = (device.gpu(), batches[0].key, device.gpu().properties());
    let (stems, p) = (&key.stems, &key.params);
    let segments = Segments::of(batches[0], part.iter().map(|(batch, _)| batches[*batch]));
    let mut lists = Lists::default();
    for (batch, gates) in part {
        let Batch { key, arena, .. } = batches[*batch];
        lists.add(step, gates, KeyPlaces::of(key), |slot| arena.place(slot));
    }
    let read = Segments::of(batches[0], copied.iter().copied());
    let mut copies = Vec::new();
    for batch in copied {
        batch.reads.iter().for_each(|&slot| copies.extend(linear::copy_row(batch.arena.place(slot))));
    }
    let rows_max = stems.blind_rotate.rows_of_a_share(&counts(&lists.rotated));
    let gates_max = stems.key_switch.gates_of_a_share(&counts(&lists.switched), properties.groups_max[0]);
    // all tables are uploaded together before the first kernel, so no kernel waits for the host
    let mut tables = Tables::default();
    let sums = tables.add(&lists.sums);
    let rotations = tables.add_shares(&lists.rotated, rows_max);
    let extractions = tables.add(&lists.extractions);
    let switches = tables.add_shares(&lists.switched, gates_max);
    let results = tables.add(&lists.results);
    let negations = tables.add(&lists.negations);
    let copies_at = tables.add(&copies);

    let (rows, gates, words) = (lists.rows(), lists.results.len(), p.lwe_dimension + 1);
    let rows_read = copies.len() / linear::ADD_WORDS;
    let mut scratch = device.scratch();
    let [uploads, even, odd, _] = &mut *scratch;
    let bootstrap = BootstrapScratch::take(gpu, key, [uploads, even], &tables, &rotations, rows)?;
    let [exponents, samples, reads] =
        odd.take(gpu, [rows * words, gates * (p.extracted_dimension() + 1), rows_read * words])?;
    let table = |first| Table { all: bootstrap.tables, first };
    let mut launches = Vec::new();
    if rows > 0 {
        launches.extend(stems.linear.add(segments.arenas(), table(sums), exponents, rows));
        launches.extend(bootstrap.launches(
            key,
            segments.bootstrap(),
            &rotations,
            extractions,
            [exponents, samples],
            gates,
        ));
        let shares = switches.shares(table(switches.first));
        launches.extend(stems.key_switch.run(
            segments.key_switch(),
            samples,
            table(results),
            &shares,
            Results::Places(segments.arenas()),
        ));
    }
    if !lists.negations.is_empty() {
        let rows = lists.negations.len() / linear::NEGATE_WORDS;
        launches.extend(stems.linear.negate(segments.arenas(), table(negations), rows));
    }
    if !copied.is_empty() {
        launches.extend(stems.linear.add(read.arenas(), table(copies_at), reads, rows_read));
    }
    gpu.launch_all(&launches)?;
    if copied.is_empty() { Ok(None) } else { gpu.read(reads.buf, &[reads.range()]).map(Some) }
}
