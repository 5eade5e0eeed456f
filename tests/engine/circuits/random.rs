//! Random netlists, mapped and run under small keys.

use kernels::tfhe::fold::Names;
use kernels::tfhe::mapping::{map, plan_plainly};
use kernels::tfhe::noise::InputNoise;
use kernels::tfhe::{Circuit, Lwe, LweList, ParamsLiteral, Plan};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::party::{Party, QUIET, generator};

/// Number of netlists in each test.
const NETLISTS: usize = 2500;

#[test]
fn random_netlists_run_where_every_cell_is_allowed() {
    check(QUIET, 1);
}

#[test]
fn random_netlists_run_where_rotations_are_the_noise_and_few_cells_are_allowed() {
    check(ParamsLiteral { glwe_noise_std: 1.0 / (1 << 20) as f64, ..QUIET }, 2);
}

#[test]
fn random_netlists_run_where_the_noise_is_not_known() {
    check(ParamsLiteral { lwe_noise_std: 0.0, glwe_noise_std: 0.0, ..QUIET }, 3);
}

#[test]
fn random_netlists_run_over_wires_of_two_slots_and_one_mask_polynomial() {
    check(ParamsLiteral { lwe_dimension: 40, glwe_dimension: 1, ..QUIET }, 4);
}

/// Runs netlists on fresh inputs, and on inputs that are results of earlier netlists.
fn check(literal: ParamsLiteral, seed: u64) {
    let (party, mut rng) = (Party::small(literal), generator(seed));
    let mut before: Vec<(Lwe, bool)> = vec![(party.encrypt(true, &mut rng), true)];
    let (mut gates, mut bootstraps) = (0, 0);
    for at in 0..NETLISTS {
        let noise = if at % 2 == 0 { InputNoise::Fresh } else { InputNoise::Any };
        let text = netlist(&mut rng);
        let circuit = Circuit::parse(&text).expect("a netlist");
        let count = circuit.input_widths()[0];
        let (inputs, bits) = inputs(&party, count, noise, &before, &mut rng);
        let plan = Plan::mapped(&map(&circuit, &Names::of(&inputs), &party.params, noise), count, &party.params);
        let (results, found) = party.run(&plan, &inputs);
        let expected = circuit.evaluate(std::slice::from_ref(&bits)).concat();
        assert_eq!(found, expected, "seed {seed}, netlist {at} on {bits:?}, {noise:?}:\n{text}");
        gates += plan_plainly(&circuit, &Names::of(&inputs)).0.bootstraps();
        bootstraps += plan.bootstraps();
        let kept = rng.next_u32() as usize % found.len();
        before.push((Lwe::new(results.row(kept).to_vec()), found[kept]));
    }
    println!("{bootstraps} bootstraps for {gates} gates");
}

fn below(rng: &mut ChaCha8Rng, bound: usize) -> usize {
    rng.next_u32() as usize % bound
}

/// Makes random inputs and returns them with their bits. Some inputs are copies of another input, negations of another
/// input, or constants.
fn inputs(
    party: &Party,
    count: usize,
    noise: InputNoise,
    before: &[(Lwe, bool)],
    rng: &mut ChaCha8Rng,
) -> (LweList, Vec<bool>) {
    let mut all: Vec<(Lwe, bool)> = Vec::with_capacity(count);
    for at in 0..count {
        let next = match below(rng, 30) {
            0 if at > 0 => all[below(rng, at)].clone(),
            1 if at > 0 => {
                let (of, bit) = &all[below(rng, at)];
                (Lwe::new(of.words().iter().map(|word| word.wrapping_neg()).collect()), !bit)
            }
            2 => {
                let bit = below(rng, 2) == 1;
                (Lwe::trivial(party.params.lwe_dimension, bit), bit)
            }
            choice if noise == InputNoise::Any && choice > 6 => before[below(rng, before.len())].clone(),
            _ => {
                let bit = below(rng, 2) == 1;
                (party.encrypt(bit, rng), bit)
            }
        };
        all.push(next);
    }
    let mut list = LweList::with_capacity(party.params.lwe_dimension, count);
    all.iter().for_each(|(words, _)| list.push(words.words()));
    (list, all.into_iter().map(|(_, bit)| bit).collect())
}

/// A netlist of up to 12 inputs and 120 gates. Operands come from a random number of the last wires: from few wires,
/// which gives long chains, or from many, which gives wide levels. A random share of the gates are XORs.
fn netlist(rng: &mut ChaCha8Rng) -> String {
    let (inputs, gates) = (2 + below(rng, 11), 1 + below(rng, 120));
    let (near, xors, outputs) = (3 + below(rng, 60), 2 + below(rng, 8), 1 + below(rng, gates.min(24)));
    let mut text = format!("{gates} {}\n1 {inputs}\n1 {outputs}\n", inputs + gates);
    for out in inputs..inputs + gates {
        let [a, b] = [0; 2].map(|_| out - 1 - below(rng, out.min(near)));
        text += &match below(rng, 150) {
            0 => format!("1 1 {} {out} EQ\n", below(rng, 2)),
            1..3 => format!("1 1 {a} {out} EQW\n"),
            3..20 => format!("1 1 {a} {out} INV\n"),
            choice if choice % 10 < xors => format!("2 1 {a} {b} {out} XOR\n"),
            _ => format!("2 1 {a} {b} {out} AND\n"),
        };
    }
    text
}
