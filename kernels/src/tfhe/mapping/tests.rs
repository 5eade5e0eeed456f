use proptest::prelude::*;

use super::*;
use crate::tfhe::ModSwitch;
use crate::tfhe::circuit::tests::texts;
use crate::tfhe::network::{Margin, Source, load};
use crate::tfhe::noise::{SumNoise, beyond, failure_log2};
use crate::tfhe::params::{ParamsLiteral, Preset};

/// The netlists that the client ships.
const ADDER: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../control/client/circuits/adder64.txt"));
const MULTIPLIER: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../control/client/circuits/mult64.txt"));
const AES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../control/client/circuits/aes_128.txt"));

/// A small parameter set with little noise.
const QUIET: ParamsLiteral = ParamsLiteral {
    mod_switch: ModSwitch::Centred,
    lwe_dimension: 10,
    glwe_dimension: 2,
    polynomial_size: 256,
    bootstrap_base_log: 8,
    bootstrap_level_count: 2,
    key_switch_base: 4,
    key_switch_level_count: 6,
    lwe_noise_std: 1.0 / (1 << 24) as f64,
    glwe_noise_std: 1.0 / (1 << 29) as f64,
};

/// Parameter sets of every kind: presets, a set with little noise, a set in which all noise comes from rotations, and a
/// set whose noise is unknown.
fn parameter_sets() -> Vec<Params> {
    let rotations = ParamsLiteral { glwe_noise_std: 1.0 / (1 << 17) as f64, ..QUIET };
    let unknown = ParamsLiteral { lwe_noise_std: 0.0, glwe_noise_std: 0.0, ..QUIET };
    let presets = Preset::ALL.into_iter().map(Preset::params);
    presets.chain([QUIET, rotations, unknown].map(|literal| Params::try_from(literal).unwrap())).collect()
}

fn different(circuit: &Circuit) -> Vec<Bit> {
    (0..circuit.input_widths().iter().sum::<usize>() as u32).map(Bit::value).collect()
}

fn mapped(text: &str, noise: InputNoise) -> Network {
    let circuit = Circuit::parse(text).unwrap();
    map(&circuit, &different(&circuit), &Preset::Fast128.params(), noise)
}

/// The numbers of bootstraps and levels.
fn size(network: &Network) -> (usize, usize) {
    (network.bootstraps(), network.depth())
}

/// Checks the properties of every network that [`map`] makes.
fn assert_sound(network: &Network, circuit: &Circuit, inputs: &[Bit], params: &Params, noise: InputNoise) {
    let limit = failure_log2(params).gate + 1e-6;
    let (known, sums) = (params.lwe_noise_std > 0.0, SumNoise::of(params, noise));
    for at in 0..network.bootstraps() {
        let sum = network.sum(at);
        assert!(!sum.terms.is_empty() && sum.terms.iter().all(|term| term.factor != 0));
        assert!(sum.terms.windows(2).all(|pair| pair[0].source < pair[1].source), "every source once: {sum:?}");
        assert!((-4..4).contains(&sum.constant));
        for term in sum.terms {
            if let Source::Sample(sample) = term.source {
                assert!((sample as usize) / 2 < at);
                assert!(sample % 2 == 0 || network.has_second(sample as usize / 2));
            }
        }
        let margin = network.margin(at);
        let failure = beyond(margin.turns(), sums.read(&load(sum.terms)));
        let most = if margin == Margin::Quarter { 2 } else { 1 };
        let ordinary = sum.terms.len() <= 2 && sum.terms.iter().all(|term| term.factor.abs() <= most);
        assert!(failure <= limit || ordinary || !known, "2^{failure}: {sum:?}");
        assert!(!network.has_second(at) || margin == Margin::Eighth);
    }
    for at in 0..network.outputs() {
        // an output that was a sum of samples would share them with other outputs, or with results of gates
        assert!(network.output(at).terms.iter().map(|term| term.factor.abs()).sum::<i8>() <= 1);
    }
    assert_eq!(network.levels().iter().map(Vec::len).sum::<usize>(), network.bootstraps());
    assert_eq!(network.gates_asked(), circuit.gates().len() as u64);
    assert!(network.gates_free() <= network.gates_asked());
    assert!(check::agrees(network, circuit, inputs));
}

#[test]
fn an_adder_is_a_bootstrap_a_carry_and_a_bootstrap_a_sum() {
    let network = mapped(ADDER, InputNoise::Fresh);
    assert_eq!(size(&network), (127, 64));
    let circuit = Circuit::parse(ADDER).unwrap();
    let [a, b] = [0x0123_4567_89ab_cdefu64, 0xffff_0000_8765_4321];
    let bits = |value: u64| (0..64).map(|bit| value >> bit & 1 == 1).collect::<Vec<_>>();
    assert_eq!(network.evaluate(&[bits(a), bits(b)].concat()), bits(a.wrapping_add(b)));
    assert_eq!(circuit.evaluate(&[bits(a), bits(b)]), [bits(a.wrapping_add(b))]);
}

#[test]
fn the_figures_of_the_netlists_that_clients_are_given() {
    // for each netlist: the largest allowed numbers of bootstraps and levels for fast_128 on fresh inputs, and the
    // largest allowed log2 of the failure probability
    for (name, text, most) in [
        ("adder64", ADDER, (127, 64, -140.0)),
        ("mult64", MULTIPLIER, (5992, 125, -89.0)),
        ("aes_128", AES, (16570, 143, -87.0)),
    ] {
        let circuit = Circuit::parse(text).unwrap();
        let inputs = different(&circuit);
        for preset in Preset::ALL {
            for noise in [InputNoise::Fresh, InputNoise::Any] {
                let params = preset.params();
                let network = map(&circuit, &inputs, &params, noise);
                let ((bootstraps, levels), failure) = (size(&network), network.failure_log2(&params, noise));
                println!("{name:8} {:16} {noise:?}: {bootstraps} / {levels}, 2^{failure:.1}", preset.name());
                assert_sound(&network, &circuit, &inputs, &params, noise);
                if (preset, noise) == (Preset::Fast128, InputNoise::Fresh) {
                    assert!(bootstraps <= most.0 && levels <= most.1 && failure <= most.2);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn networks_compute_what_their_circuits_do(text in texts()) {
        let circuit = Circuit::parse(&text).unwrap();
        let inputs = different(&circuit);
        for params in parameter_sets() {
            for noise in [InputNoise::Fresh, InputNoise::Any] {
                let network = map(&circuit, &inputs, &params, noise);
                assert_sound(&network, &circuit, &inputs, &params, noise);
                for bits in 0..1 << inputs.len() {
                    let plain: Vec<bool> = (0..inputs.len()).map(|bit| bits >> bit & 1 == 1).collect();
                    prop_assert_eq!(network.evaluate(&plain), circuit.evaluate(&[plain]).concat());
                }
            }
        }
    }
}

/// A random netlist of up to 60 gates and 8 inputs, where gates mostly read recent wires; input names are random.
fn random(random: &mut impl FnMut(usize) -> usize) -> (Circuit, Vec<Bit>) {
    let (inputs, gates, near) = (1 + random(8), 1 + random(60), 3 + random(40));
    let outputs = 1 + random(gates);
    let mut text = format!("{gates} {}\n1 {inputs}\n1 {outputs}\n", inputs + gates);
    for out in inputs..inputs + gates {
        let mut operand = || out - 1 - random(out.min(near));
        let (a, b) = (operand(), operand());
        text += &match random(10) {
            0 => format!("1 1 {a} {out} INV\n"),
            1..6 => format!("2 1 {a} {b} {out} XOR\n"),
            _ => format!("2 1 {a} {b} {out} AND\n"),
        };
    }
    let bit = |at: usize, choice: usize, name: usize| match choice {
        0 => Bit::value(name as u32),
        1 => !Bit::value(name as u32),
        2 => Bit::Constant(name % 2 == 1),
        _ => Bit::value(at as u32),
    };
    let names = (0..inputs).map(|at| bit(at, random(40), random(inputs))).collect();
    (Circuit::parse(&text).unwrap(), names)
}

#[test]
fn networks_of_thousands_of_random_netlists_are_sound_under_every_parameter_set() {
    let mut state = 7u64;
    let mut below = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as usize % bound
    };
    let sets = parameter_sets();
    let (mut plain, mut bootstraps) = (0, 0);
    for round in 0..3000 {
        let (circuit, inputs) = random(&mut below);
        let params = &sets[round % sets.len()];
        let noise = [InputNoise::Fresh, InputNoise::Any][round / sets.len() % 2];
        let network = map(&circuit, &inputs, params, noise);
        assert_sound(&network, &circuit, &inputs, params, noise);
        assert_eq!(network, map(&circuit, &inputs, params, noise));
        let gate_by_gate = map_plainly(&circuit, &inputs);
        assert!(check::agrees(&gate_by_gate, &circuit, &inputs));
        assert!(network.bootstraps() <= gate_by_gate.bootstraps());
        bootstraps += network.bootstraps();
        plain += gate_by_gate.bootstraps();
    }
    println!("{bootstraps} bootstraps for {plain} gates");
    assert!(3 * bootstraps < 2 * plain);
}

#[test]
fn incrementers_take_two_bootstraps_a_bit() {
    // adds a bit to a number: `x ^ c` is the sum, and `x & c` is the next carry. One rotation has both, but an output
    // must not be a sum of samples. The last carry is an output, and so is its sum
    let bits = 20;
    let mut text = format!("{} {}\n2 {bits} 1\n1 {}\n", 2 * bits, 3 * bits + 1, bits + 1);
    for bit in 0..bits {
        let carry = bits + bit;
        let next = if bit == bits - 1 { 3 * bits } else { carry + 1 };
        text += &format!("2 1 {bit} {carry} {next} AND\n2 1 {bit} {carry} {} XOR\n", 2 * bits + bit);
    }
    let network = mapped(&text, InputNoise::Fresh);
    assert_eq!(size(&network), (2 * bits, bits));
}

/// A netlist of `gates` gates over 64 inputs. `gate` returns the line of the gate that writes a wire.
fn netlist(gates: usize, outputs: usize, gate: impl Fn(usize) -> String) -> Circuit {
    let mut text = format!("{gates} {}\n1 64\n1 {outputs}\n", 64 + gates);
    (64..64 + gates).for_each(|out| text += &gate(out));
    Circuit::parse(&text).unwrap()
}

#[test]
fn long_chains_wide_stars_and_circuits_without_gates_are_mapped() {
    let gates = 1 << 20;
    let map = |circuit: &Circuit| {
        let (inputs, params) = (different(circuit), Preset::Fast128.params());
        let network = map(circuit, &inputs, &params, InputNoise::Fresh);
        assert_sound(&network, circuit, &inputs, &params, InputNoise::Fresh);
        (network.bootstraps(), network.gates_free())
    };
    let alternating = |out: usize| if out & 1 == 0 { "AND" } else { "XOR" };
    let chain = netlist(gates, 1, |out| format!("2 1 {} {} {out} {}\n", out - 1, out % 64, alternating(out)));
    assert!(map(&chain).0 <= gates / 2 + 1);
    let sums = netlist(gates, 1, |out| format!("2 1 {} {} {out} XOR\n", out - 1, out * out % 61));
    assert!(map(&sums).0 <= gates / 16);
    let star = netlist(gates / 4, 1 << 16, |out| format!("2 1 0 {} {out} {}\n", 1 + out % 63, alternating(out)));
    assert!(map(&star).0 <= 200);
    let pairs = netlist(gates / 4, 1 << 16, |out| format!("2 1 {} {} {out} XOR\n", out % 64, out / 64 % 64));
    assert!(map(&pairs).0 <= 64 * 63 / 2);
    // outputs that share a wire, and outputs that are constants or inputs
    let copies =
        netlist(101, 100, |out| if out == 64 { "2 1 0 1 64 AND\n".into() } else { format!("1 1 64 {out} EQW\n") });
    assert_eq!(map(&copies), (1, 0));
    let constants =
        netlist(4, 3, |out| if out == 64 { "1 1 1 64 EQ\n".into() } else { format!("1 1 {} {out} INV\n", out - 1) });
    assert_eq!(map(&constants), (0, 3));
    let inputs = netlist(3, 3, |out| format!("1 1 {} {out} INV\n", if out == 66 { 3 } else { out - 1 }));
    assert_eq!(map(&inputs), (0, 3));
}

#[test]
fn gates_are_counted_by_kind_where_their_bootstraps_are() {
    // both outputs are `not (a xor b xor c)`
    let text = "4 7\n1 3\n1 2\n2 1 0 1 3 XOR\n2 1 3 2 4 XOR\n1 1 4 5 INV\n1 1 4 6 INV\n";
    let network = mapped(text, InputNoise::Fresh);
    assert_eq!((network.bootstraps(), network.covers(0), network.gates_free()), (1, [2, 0, 2], 0));
    // the carry and the sum of a full adder: a majority and a parity
    let text = "5 8\n1 3\n1 2\n2 1 0 2 3 XOR\n2 1 1 2 4 XOR\n2 1 3 4 5 AND\n2 1 0 4 6 XOR\n2 1 2 5 7 XOR\n";
    let network = mapped(text, InputNoise::Fresh);
    let mut covers = [0, 1].map(|at| network.covers(at));
    covers.sort_unstable();
    assert_eq!((network.bootstraps(), network.levels().len()), (2, 1));
    assert_eq!(covers.iter().flatten().sum::<u32>(), 5);
}
