//! Poulpy's CKKS on one thread, for `benches/peers/run.py`: `poulpy-peer multiply|rotate DEGREE` runs the operation
//! for a short time and prints the seconds of each run. A product is relinearized and rescaled.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use poulpy_ckks::{CKKSModuleInfos, SetCKKSInfos};
use poulpy_ckks::api::{CKKSMulOps, CKKSRotateOps};
use poulpy_ckks::test_suite::helpers::{alloc_ct, alloc_scratch, gen_atk, gen_sk_with_raw, gen_tsk};
use poulpy_ckks::test_suite::{BASE52_PARAMS_F64, CKKSTestParams};
use poulpy_core::api::GLWEFill;
use poulpy_cpu_avx512::NTT3x42Ifma;
use poulpy_hal::api::ScratchOwnedBorrow;
use poulpy_hal::layouts::{HostBytesBackend, Module};
use poulpy_hal::source::Source;

/// The degree, and the bits of the ciphertext modulus.
const SETS: [(usize, usize); 3] = [(8192, 169), (16384, 378), (32768, 760)];
const MOMENT: Duration = Duration::from_millis(1500);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, operation, degree] = &arguments[..] else { panic!("poulpy-peer multiply|rotate DEGREE") };
    let (n, k) = SETS.into_iter().find(|(n, _)| n.to_string() == *degree).expect("8192, 16384 or 32768");
    let params = CKKSTestParams { n, k, ..BASE52_PARAMS_F64 };
    let module = Module::<NTT3x42Ifma>::new(n as u64);
    let host = Module::<HostBytesBackend>::new(n as u64);
    let (secret, _) = gen_sk_with_raw(&params, &module, &host, [1; 32]);
    let mut scratch = alloc_scratch(&params, &module);
    let mut a = alloc_ct(&params, &module, k);
    module.glwe_fill_from_source(&mut a, &mut Source::new([2; 32]));
    a.set_meta(params.prec().meta);
    let b = a.clone();
    let mut out = alloc_ct(&params, &module, k);
    match operation.as_str() {
        "multiply" => {
            let key = gen_tsk(&params, &module, &secret, &mut scratch.borrow());
            report(|| module.ckks_mul_into(&mut out, &a, &b, &key, &mut scratch.borrow()).expect("a product"));
        }
        _ => {
            let element = module.ckks_galois_element(1);
            let key = gen_atk(&params, &module, element, &secret, &mut scratch.borrow());
            let keys = HashMap::from([(element, key)]);
            report(|| module.ckks_rotate_into(1, &mut out, &a, &keys, &mut scratch.borrow()).expect("a rotation"));
        }
    }
}

fn report(mut work: impl FnMut()) {
    work();
    let (mut runs, begin) = (Vec::new(), Instant::now());
    while begin.elapsed() < MOMENT || runs.len() < 3 {
        let start = Instant::now();
        work();
        runs.push(start.elapsed().as_secs_f64().to_string());
    }
    println!("{}", runs.join(" "));
}
