//! The CPU's transform, tested from outside: products computed with transforms equal the schoolbook products.

use kernels::cpu::ntt::{NttTables, forward_all, inverse_all};
use kernels::tfhe::{MODULUS, RING_MODULUS, ring};
use rand_chacha::rand_core::Rng;
use tests_compute::naive::negacyclic_product;

use crate::Case;
use crate::device::Device;
use crate::fixtures::generator;

pub fn cases() -> impl Iterator<Item = Case> {
    [64, 128, 256, 512, 1024, 2048].into_iter().map(|n| {
        let check = move |device: &Device| {
            let tables = NttTables::new(device.isa.expect("asked of CPUs only"), ring(n));
            let mut rng = generator(n as u64);
            let mut random = || (0..n).map(|_| rng.next_u32() % RING_MODULUS).collect::<Vec<u32>>();
            let largest = vec![RING_MODULUS - 1; n];
            for (a, b) in [(random(), random()), (largest.clone(), random()), (largest.clone(), largest)] {
                let signed: Vec<i64> = a.iter().map(|&x| x.into()).collect();
                assert_eq!(product(&tables, a, b.clone()), negacyclic_product(RING_MODULUS, &signed, &b));
            }
        };
        Case { on: |device| !device.is_gpu(), ..Case::small(format!("ntt/N{n}"), check) }
    })
}

/// A product by the transform: both factors forward, pointwise multiplication, back, and division by the transform's
/// factor N.
fn product(tables: &NttTables, mut a: Vec<u32>, mut b: Vec<u32>) -> Vec<u32> {
    forward_all(tables, &mut a);
    forward_all(tables, &mut b);
    for (a, &b) in a.iter_mut().zip(&b) {
        *a = MODULUS.mul(MODULUS.reduce_once(*a), MODULUS.reduce_once(b));
    }
    inverse_all(tables, &mut a);
    let inverse_degree = MODULUS.inverse(tables.polynomial_size() as u32);
    a.into_iter().map(|x| MODULUS.mul(MODULUS.reduce_once(x), inverse_degree)).collect()
}
