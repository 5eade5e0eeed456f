//! Netlists under the keys of presets.

use client::netlists::{ADDER64, AES_128, MULT64};
use client::value;
use kernels::tfhe::fold::Bit;
use kernels::tfhe::mapping::map;
use kernels::tfhe::noise::InputNoise;
use kernels::tfhe::{Circuit, Plan, Preset};

use crate::party::{Party, generator};

/// A full adder, a half adder, and ANDs of sums that share terms: of a sum and one of its terms, of two sums with the
/// same terms, and of sums that read both samples of one rotation.
const CORRELATED: &str = "17 21
1 4
1 9
2 1 0 1 4 XOR
2 1 0 1 5 AND
2 1 4 2 6 XOR
2 1 4 2 7 AND
2 1 7 5 8 XOR
2 1 6 3 9 XOR
2 1 4 3 10 XOR
2 1 9 10 11 AND
2 1 5 4 12 XOR
2 1 6 0 13 AND
2 1 8 6 14 AND
2 1 12 3 15 AND
2 1 9 8 16 XOR
2 1 16 4 17 AND
2 1 11 15 18 XOR
2 1 14 13 19 XOR
2 1 17 8 20 XOR
";

#[test]
fn sums_that_share_operands_run_under_every_preset_on_inputs_of_either_noise() {
    let circuit = Circuit::parse(CORRELATED).expect("a netlist");
    for preset in Preset::ALL {
        let party = Party::of(preset);
        for noise in [InputNoise::Fresh, InputNoise::Any] {
            let plan = mapped(&party, &circuit, noise);
            for bits in 0..16u8 {
                check(&party, &circuit, &plan, &[(0..4).map(|at| bits >> at & 1 == 1).collect()]);
            }
        }
    }
}

#[test]
fn a_mapped_adder_runs_under_every_preset() {
    let circuit = Circuit::parse(ADDER64).expect("a netlist");
    for preset in Preset::ALL {
        let party = Party::of(preset);
        let plan = mapped(&party, &circuit, InputNoise::Fresh);
        check(&party, &circuit, &plan, &random_inputs(&circuit));
    }
}

#[test]
fn an_adder_runs_gate_by_gate() {
    let circuit = Circuit::parse(ADDER64).expect("a netlist");
    check(&Party::of(Preset::Fast128K2), &circuit, &Plan::new(&circuit), &random_inputs(&circuit));
}

#[test]
fn a_mapped_multiplier_runs_under_fast_128_k2() {
    let circuit = Circuit::parse(MULT64).expect("a netlist");
    let party = Party::of(Preset::Fast128K2);
    check(&party, &circuit, &mapped(&party, &circuit, InputNoise::Any), &random_inputs(&circuit));
}

#[test]
fn mapped_aes_128_runs_under_fast_128_k2() {
    if tests_extent::leaves_out("16,426 bootstraps") {
        return;
    }
    let circuit = Circuit::parse(AES_128).expect("a netlist");
    let party = Party::of(Preset::Fast128K2);
    check(&party, &circuit, &mapped(&party, &circuit, InputNoise::Fresh), &random_inputs(&circuit));
}

/// Ignored: takes minutes. `scripts/soak` runs it.
#[test]
#[ignore = "takes minutes"]
fn mapped_netlists_run_under_every_preset_on_inputs_of_either_noise() {
    for preset in Preset::ALL {
        let party = Party::of(preset);
        for (text, noise) in [(ADDER64, InputNoise::Any), (MULT64, InputNoise::Fresh), (AES_128, InputNoise::Any)] {
            let circuit = Circuit::parse(text).expect("a netlist");
            check(&party, &circuit, &mapped(&party, &circuit, noise), &random_inputs(&circuit));
        }
    }
}

fn random_inputs(circuit: &Circuit) -> Vec<Vec<bool>> {
    circuit.input_widths().iter().map(|&width| value::random(width)).collect()
}

fn mapped(party: &Party, circuit: &Circuit, noise: InputNoise) -> Plan {
    let inputs = circuit.input_widths().iter().sum::<usize>();
    let names: Vec<Bit> = (0..inputs as u32).map(Bit::value).collect();
    Plan::mapped(&map(circuit, &names, &party.params, noise), inputs, &party.params)
}

fn check(party: &Party, circuit: &Circuit, plan: &Plan, inputs: &[Vec<bool>]) {
    let encrypted = party.encrypt_all(&inputs.concat(), &mut generator(0));
    let (_, found) = party.run(plan, &encrypted);
    assert_eq!(found, circuit.evaluate(inputs).concat(), "{inputs:?}");
}
