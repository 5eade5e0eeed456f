//! Any text as a circuit; an accepted one can be levelled and evaluated, and holds no more gates than its text can.
#![no_main]

use kernels::tfhe::Circuit;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(circuit) = Circuit::parse(text) else { return };
    assert!(circuit.gates().len() <= text.len());
    assert_eq!(circuit.levels().iter().map(Vec::len).sum::<usize>(), circuit.gates().len());
    let inputs: Vec<Vec<bool>> = circuit.input_widths().iter().map(|&width| vec![true; width]).collect();
    let outputs = circuit.evaluate(&inputs);
    assert!(outputs.iter().map(Vec::len).eq(circuit.output_widths().iter().copied()));
});
