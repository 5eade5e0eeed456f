//! Single kernels of the CPU backend for each instruction set, measured with criterion. They explain the figures of
//! `gates`, so they are not compared with a peer.

use client::SecretKey;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kernels::cpu::ntt::{NttTables, forward_all, inverse_all};
use kernels::cpu::{Cpu, Isa};
use kernels::tfhe::{Gates, Preset, RING_MODULUS, Stems, ring};

fn transforms(c: &mut Criterion) {
    let mut group = c.benchmark_group("ntt_1024");
    for isa in Isa::available() {
        let tables = NttTables::new(isa, ring(1024));
        let mut row: Vec<u32> = (0..1024u32).map(|i| i.wrapping_mul(2_654_435_761) % RING_MODULUS).collect();
        group.bench_function(BenchmarkId::new("forward", isa.name()), |b| b.iter(|| forward_all(&tables, &mut row)));
        group.bench_function(BenchmarkId::new("inverse", isa.name()), |b| b.iter(|| inverse_all(&tables, &mut row)));
    }
}

fn stems(c: &mut Criterion) {
    for preset in Preset::ALL {
        let secret = SecretKey::generate(preset);
        let cpu = Cpu::with(Isa::detect(), 1);
        let evaluation_key = secret.evaluation_key();
        let key = cpu.load_key(&evaluation_key).expect("the key fits");
        let mut group = c.benchmark_group(preset.name());
        group.sample_size(10);
        group.bench_function("key loaded, cold", |b| b.iter(|| cpu.load_key(&evaluation_key)));
        for rows in [1usize, 16] {
            let inputs: Vec<u32> = (0..rows).flat_map(|i| secret.encrypt(i % 2 == 0).into_words()).collect();
            let samples = cpu.bootstrap(&key, &inputs).expect("the CPU does not fail");
            group.throughput(Throughput::Elements(rows as u64));
            group.bench_function(BenchmarkId::new("bootstrap", rows), |b| b.iter(|| cpu.bootstrap(&key, &inputs)));
            group.bench_function(BenchmarkId::new("key_switch", rows), |b| b.iter(|| cpu.key_switch(&key, &samples)));
        }
    }
}

criterion_group!(kernels_of_the_cpu, transforms, stems);
criterion_main!(kernels_of_the_cpu);
