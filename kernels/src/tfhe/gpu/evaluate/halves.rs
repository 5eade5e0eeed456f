//! The two halves of a gate as separate calls: blind rotation with sample extraction, and key switch.

use super::bootstrap::BootstrapScratch;
use super::together::Tables;
use crate::error::Result;
use crate::gpu::space::place_of;
use crate::gpu::{Device, Gpu, Table, Touched, View, alloc};
use crate::tfhe::gpu::Key;
use crate::tfhe::gpu::limits::rows_at_once;
use crate::tfhe::gpu::lwe_key_switch::Results;
use crate::tfhe::gpu::sample_extract::NO_ROW;

/// Implements [`crate::tfhe::Stems::bootstrap`].
pub fn bootstrap<G: Gpu>(device: &Device<G>, key: &Key<G>, inputs: &[u32]) -> Result<Vec<u32>> {
    let (row_in, row_out) = (key.params.lwe_dimension + 1, key.params.extracted_dimension() + 1);
    let mut out = Vec::with_capacity(inputs.len() / row_in * row_out);
    for inputs in inputs.chunks(rows_at_once(device.gpu(), key, 1) * row_in) {
        let part = || bootstrap_part(device, key, inputs);
        out.extend(device.gpu().finish(key.stems.again_without_clusters(part)?)?);
    }
    Ok(out)
}

/// Implements [`crate::tfhe::Stems::key_switch`].
pub fn key_switch<G: Gpu>(device: &Device<G>, key: &Key<G>, inputs: &[u32]) -> Result<Vec<u32>> {
    let (row_in, row_out) = (key.params.extracted_dimension() + 1, key.params.lwe_dimension + 1);
    let gpu = device.gpu();
    let mut out = Vec::with_capacity(inputs.len() / row_in * row_out);
    for inputs in inputs.chunks(rows_at_once(gpu, key, 1) * row_in) {
        let gates = inputs.len() / row_in;
        let switched = alloc(gpu, gates * row_out)?;
        let results: Vec<u32> = (0..gates).map(|gate| (gate * row_out) as u32).collect();
        let mut tables = Tables::default();
        let gates_max = key.stems.key_switch.gates_of_a_share(&[gates], gpu.properties().groups_max[0]);
        let results = tables.add(&results);
        let switches = tables.add_shares(0, &[(gates, place_of(key.key_switch().first))], gates_max);
        let mut scratch = device.scratch();
        let [uploads, _, _, wires] = &mut *scratch;
        let ([all], [samples]) = (uploads.take(gpu, [tables.words.len()])?, wires.take(gpu, [inputs.len()])?);
        gpu.write(all.buf, all.first, &tables.words)?;
        gpu.write(samples.buf, samples.first, inputs)?;
        let shares = switches.shares(Table { all, first: switches.first });
        let (view, table) = (key.key_switch(), Table { all, first: results });
        let keys = Touched { buf: view.buf, ranges: &[view.range()] };
        let results = Results::Words(View::all(&switched));
        let launch = key.stems.key_switch.run(keys, samples, table, &shares, results);
        launch.map_or(Ok(()), |launch| gpu.launch(&launch))?;
        out.extend(gpu.finish(gpu.read(&switched, std::slice::from_ref(&(0..gates * row_out)))?)?);
    }
    Ok(out)
}

/// Starts the bootstraps of these torus rows, and starts to read their samples. There are at most as many rows as
/// can run together.
fn bootstrap_part<G: Gpu>(device: &Device<G>, key: &Key<G>, inputs: &[u32]) -> Result<G::Readback> {
    let (gpu, p) = (device.gpu(), &key.params);
    let rows = inputs.len() / (p.lwe_dimension + 1);
    let mut tables = Tables::default();
    let rotations = tables.add_shares(
        0,
        &[(rows, place_of(key.bootstrap().first))],
        key.stems.blind_rotate.rows_of_a_share(&[rows]),
    );
    let extractions: Vec<u32> = (0..rows as u32).flat_map(|row| [row, NO_ROW]).collect();
    let extractions = tables.add(&extractions);
    let mut scratch = device.scratch();
    let [uploads, even, odd, wires] = &mut *scratch;
    let bootstrap = BootstrapScratch::take(gpu, key, [uploads, even], &tables, &rotations, rows)?;
    let [exponents] = odd.take(gpu, [inputs.len()])?;
    let [samples] = wires.take(gpu, [rows * (p.extracted_dimension() + 1)])?;
    gpu.write(exponents.buf, exponents.first, inputs)?;
    let ranges = [key.bootstrap().range()];
    let keys = Touched { buf: key.bootstrap().buf, ranges: &ranges };
    let mut launches = bootstrap.rotation(key, keys, &rotations, exponents, None);
    let table = Table { all: bootstrap.tables, first: extractions };
    launches.extend(key.stems.sample_extract.run(bootstrap.accumulators, table, (samples, 0), rows));
    gpu.launch_all(&launches)?;
    gpu.read(samples.buf, &[samples.range()])
}
