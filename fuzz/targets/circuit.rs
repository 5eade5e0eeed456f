//! Any text as a circuit. An accepted circuit can be levelled and evaluated, and has no more gates than its text can
//! hold. The mapped circuit computes the same outputs, and none of its bootstraps reads a phase without a sign.
#![no_main]

use kernels::tfhe::fold::Bit;
use kernels::tfhe::noise::InputNoise;
use kernels::tfhe::{Circuit, Plan, Preset, mapping};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(circuit) = Circuit::parse(text) else { return };
    assert!(circuit.gates().len() <= text.len());
    assert_eq!(circuit.levels().iter().map(Vec::len).sum::<usize>(), circuit.gates().len());
    let inputs: Vec<Vec<bool>> = circuit.input_widths().iter().map(|&width| vec![true; width]).collect();
    let outputs = circuit.evaluate(&inputs);
    assert!(outputs.iter().map(Vec::len).eq(circuit.output_widths().iter().copied()));
    // bytes of the text choose the preset, the noise and the inputs
    let byte = |at: usize| bytes[at % bytes.len()];
    let preset = Preset::ALL[byte(bytes.len() / 2) as usize % Preset::ALL.len()];
    let noise = if byte(bytes.len() / 3) % 2 == 0 { InputNoise::Fresh } else { InputNoise::Any };
    let width = inputs.iter().map(Vec::len).sum::<usize>();
    let names: Vec<Bit> = (0..width as u32).map(Bit::value).collect();
    let network = mapping::map(&circuit, &names, &preset.params(), noise);
    for round in 0..4usize {
        let plain: Vec<bool> = (0..width).map(|at| byte(at + 7 * round) >> round & 1 == 1).collect();
        let split = kernels::tfhe::circuit::split(&plain, circuit.input_widths());
        assert_eq!(network.evaluate(&plain), circuit.evaluate(&split).concat());
    }
    let plan = Plan::mapped(&network, width, &preset.params());
    assert_eq!(plan.bootstraps(), network.bootstraps() as u64);
});
