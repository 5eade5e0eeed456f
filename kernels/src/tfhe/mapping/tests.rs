use proptest::prelude::*;

use super::budget::load;
use super::*;
use crate::tfhe::circuit::tests::texts;
use crate::tfhe::noise::{SumNoise, beyond, failure_log2};
use crate::tfhe::params::{ParamsLiteral, Preset};

/// The netlists that clients are given.
const ADDER: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../control/client/circuits/adder64.txt"));
const MULTIPLIER: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../control/client/circuits/mult64.txt"));
const AES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../control/client/circuits/aes_128.txt"));

/// A small set with little noise.
const QUIET: ParamsLiteral = ParamsLiteral {
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

/// Parameter sets of every kind: presets, a quiet one, one whose rotations are all its noise, one of unknown noise.
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

/// Bootstraps and levels.
fn size(network: &Network) -> (usize, usize) {
    (network.bootstraps(), network.levels().len())
}

/// What holds for every network that [`map`] makes.
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
        let samples = load(network.output(at).terms).samples;
        assert!(samples <= 2, "an output is no noisier than a MUX's result");
    }
    assert_eq!(network.levels().iter().map(Vec::len).sum::<usize>(), network.bootstraps());
    assert_eq!(network.gates_asked(), circuit.gates().len() as u64);
    assert!(network.gates_free() <= network.gates_asked());
    assert!(check::agrees(network, circuit, inputs));
}

#[test]
fn an_adder_is_a_bootstrap_a_carry_and_a_bootstrap_a_sum_but_one_for_its_half_adder() {
    let network = mapped(ADDER, InputNoise::Fresh);
    assert_eq!(size(&network), (126, 64));
    let circuit = Circuit::parse(ADDER).unwrap();
    let [a, b] = [0x0123_4567_89ab_cdefu64, 0xffff_0000_8765_4321];
    let bits = |value: u64| (0..64).map(|bit| value >> bit & 1 == 1).collect::<Vec<_>>();
    assert_eq!(network.evaluate(&[bits(a), bits(b)].concat()), bits(a.wrapping_add(b)));
    assert_eq!(circuit.evaluate(&[bits(a), bits(b)]), [bits(a.wrapping_add(b))]);
}

#[test]
fn the_figures_of_the_netlists_that_clients_are_given() {
    for (name, text) in [("adder64", ADDER), ("mult64", MULTIPLIER), ("aes_128", AES)] {
        let circuit = Circuit::parse(text).unwrap();
        let inputs = different(&circuit);
        for preset in Preset::ALL {
            for noise in [InputNoise::Fresh, InputNoise::Any] {
                let (params, started) = (preset.params(), std::time::Instant::now());
                let network = map(&circuit, &inputs, &params, noise);
                let time = started.elapsed().as_millis();
                let ((bootstraps, levels), failure) = (size(&network), network.failure_log2(&params, noise));
                println!(
                    "{name:8} {:16} {noise:?}: {bootstraps} / {levels}, 2^{failure:.1} ({time} ms)",
                    preset.name()
                );
                assert_sound(&network, &circuit, &inputs, &params, noise);
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

/// A random netlist of up to 60 gates and 8 inputs, read mostly near its end; inputs of random names.
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
fn incrementers_take_a_bootstrap_a_bit() {
    // sums and carries of a number and a bit: x ^ c, x & c
    let bits = 20;
    let mut text = format!("{} {}\n2 {bits} 1\n1 {}\n", 2 * bits, 3 * bits + 1, bits + 1);
    for bit in 0..bits {
        let carry = bits + bit;
        let next = if bit == bits - 1 { 3 * bits } else { carry + 1 };
        text += &format!("2 1 {bit} {carry} {next} AND\n2 1 {bit} {carry} {} XOR\n", 2 * bits + bit);
    }
    let network = mapped(&text, InputNoise::Fresh);
    assert_eq!(size(&network), (bits, bits));
}

fn explore_text(kind: usize, gates: usize) -> String {
    let inputs = 64;
    let outputs = 1 << 15;
    let mut text = format!("{gates} {}\n1 {inputs}\n1 {outputs}\n", inputs + gates);
    let mut state = 99u64;
    let mut below = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as usize % bound
    };
    for out in inputs..inputs + gates {
        let x = out - 1;
        let (i, j) = (below(64), below(64));
        let level = out - 1 - below(out.min(20000));
        let wide = out - 1 - below(out.min(20000));
        text += &match kind {
            0 => format!("2 1 {x} {i} {out} XOR\n"),
            1 => format!("2 1 {x} {i} {out} {}\n", if out % 2 == 0 { "AND" } else { "XOR" }),
            2 => format!("2 1 {level} {wide} {out} {}\n", if below(3) == 0 { "AND" } else { "XOR" }),
            3 => format!(
                "2 1 {level} {} {out} {}\n",
                if j < 32 { wide } else { i },
                if below(2) == 0 { "AND" } else { "XOR" }
            ),
            4 => format!("2 1 {level} {wide} {out} XOR\n"),
            5 => format!("2 1 {x} {i} {out} AND\n"),
            _ => format!("2 1 {i} {j} {out} XOR\n"),
        };
    }
    text
}

#[test]
fn explore() {
    for kind in 0..7 {
        let circuit = Circuit::parse(&explore_text(kind, 1 << 20)).unwrap();
        let inputs = different(&circuit);
        let mut started = std::time::Instant::now();
        let mut lap = || {
            let t = started.elapsed().as_millis();
            started = std::time::Instant::now();
            t
        };
        let numbered = numbered(&circuit, &inputs);
        let t1 = lap();
        let budget = Budget::of(&Preset::Fast128.params(), InputNoise::Fresh);
        let graph = Graph::of(&numbered.circuit, &inputs);
        let t2 = lap();
        let covering = Covering::of(&graph, &budget);
        let t3 = lap();
        let forms = Forms::of(&graph, &covering, &budget, SPLITTINGS[0]);
        let t4 = lap();
        let network = emit::emitted(&graph, &covering, &forms, &budget, 1 << 20).unwrap().0;
        let t5 = lap();
        let network = pairs::paired(&network, &budget).0;
        let t6 = lap();
        assert!(check::agrees(&network, &circuit, &inputs));
        let t7 = lap();
        println!(
            "kind {kind}: {:?} number {t1} graph {t2} cover {t3} forms {t4} emit {t5} pairs {t6} check {t7}",
            size(&network)
        );
        let _ = map(&circuit, &inputs, &Preset::Fast128.params(), InputNoise::Fresh);
        println!("  all {}", lap());
    }
}
