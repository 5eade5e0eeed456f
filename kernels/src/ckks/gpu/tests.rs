use super::*;
use crate::backend::Backend;
use crate::ckks::noise::Noise;
use crate::ckks::plan::Value;
use crate::ckks::{
    Params, ParamsLiteral, PartKind, PartShape, Plan, PlanBuilder, PlannedSteps, SecurityLevel, rotation,
};
use crate::gpu::told::Told;
use crate::gpu::{Device, Gpu, Properties};

/// The launches of a key switch: digits, the product with the key, and the division.
const SWITCH: [&str; 8] = [
    "ntt_rows_inverse",
    "ntt_columns_inverse",
    "ntt_columns",
    "ntt_rows_gadget",
    "ntt_rows_inverse",
    "ntt_columns_inverse",
    "ntt_columns",
    "ntt_rows_combine",
];

fn params() -> Params {
    let (poly_degree, security) = (4096, SecurityLevel::Testing);
    Params::new(ParamsLiteral { poly_degree, scale_bits: 40, max_depth: 2, security, bootstrap: false }).unwrap()
}

/// A plan of a fresh ciphertext.
fn plan(params: &Params, make: impl Fn(&mut PlanBuilder, Value) -> Vec<Value>) -> Plan {
    let mut builder = PlanBuilder::new(params);
    let input = builder.input(2, params.level(2).scale, Noise::new(1.0, 10.5));
    let outputs = make(&mut builder, input);
    builder.finish(&outputs)
}

/// The calls of the card for a call with these plans, each under another key. `completes` says whether the outputs are
/// read.
fn asked(plans: &[&Plan], completes: bool) -> Vec<&'static str> {
    asked_of(Told::new(4), plans, completes)
}

fn asked_of(gpu: Told, plans: &[&Plan], completes: bool) -> Vec<&'static str> {
    let info = gpu.info();
    let device = Device::new(gpu, info);
    let kernels = Kernels::default();
    let tables = kernels.make_tables(&device, plans[0].params()).unwrap();
    let loaded: Vec<Vec<(PartKind, Part<Told>)>> = plans
        .iter()
        .map(|plan| {
            let part = |(kind, level)| {
                let shape = PartShape { params: plan.params().clone(), kind, level };
                (kind, kernels.room_for_part(&device, &shape).unwrap())
            };
            plan.parts().into_iter().map(part).collect()
        })
        .collect();
    let slots: Vec<Vec<u32>> = plans.iter().map(|plan| (0..plan.slots() as u32).collect()).collect();
    let arenas: Vec<_> = plans.iter().map(|plan| device.arena(plan.params().n(), plan.slots()).unwrap()).collect();
    let steps: Vec<[PlannedSteps<'_>; 1]> = plans
        .iter()
        .zip(&slots)
        .map(|(plan, slots)| {
            [PlannedSteps { plan, steps: 0..plan.steps().len(), slots, begins: true, there: &[], completes }]
        })
        .collect();
    let parts: Vec<Vec<(PartKind, &Part<Told>)>> =
        loaded.iter().map(|parts| parts.iter().map(|(kind, part)| (*kind, part)).collect()).collect();
    let batches: Vec<Batch<'_, Told>> = parts
        .iter()
        .zip(&arenas)
        .zip(&steps)
        .map(|((parts, arena), plans)| Batch { tables: &tables, parts, arena, plans })
        .collect();
    device.gpu().asked();
    let pending = kernels.run(&device, &batches).unwrap();
    let words = device.finish(pending).unwrap();
    let of_outputs = plans.iter().flat_map(|plan| plan.outputs()).map(|output| output.slots.len()).sum::<usize>();
    assert_eq!(words.len(), if completes { of_outputs * plans[0].params().n() } else { 0 });
    device.gpu().asked()
}

#[test]
fn a_key_switch_is_eight_launches_for_one_ciphertext_and_for_many() {
    let (params, elements) = (params(), [1, 2, -3].map(|steps| rotation::element(4096, steps)));
    let one = plan(&params, |builder, a| vec![builder.automorphism(a, elements[0])]);
    let many = plan(&params, |builder, a| elements.iter().map(|&element| builder.automorphism(a, element)).collect());
    for plans in [&[&one][..], &[&many], &[&many, &one, &many]] {
        let found = asked(plans, false);
        assert_eq!(found, [&["write"][..], &SWITCH, &["read", "finish"]].concat());
    }
    let product = plan(&params, |builder, a| vec![builder.multiply_rescaled(a, a)]);
    let found = asked(&[&product], true);
    assert_eq!(found, [&["write", "products"][..], &SWITCH, &["gather", "read", "finish"]].concat());
}

/// All levels of a call are one upload and one sequence, and the host waits once.
#[test]
fn levels_follow_each_other_without_the_host() {
    let params = params();
    let element = rotation::element(4096, 1);
    let chain = plan(&params, |builder, a| {
        let mut value = a;
        for _ in 0..5 {
            value = builder.automorphism(value, element);
        }
        vec![builder.rescale(value)]
    });
    let found = asked(&[&chain], true);
    let expected = [vec!["write"], SWITCH.repeat(5), SWITCH[4..].to_vec(), vec!["gather", "read", "finish"]].concat();
    assert_eq!(found, expected);
}

/// Sums, products and rotations of one level are independent, so their launches are shared.
#[test]
fn steps_of_a_level_share_launches() {
    let params = params();
    let mixed = plan(&params, |builder, a| {
        let (sum, product) = (builder.add(a, a), builder.multiply(a, a));
        vec![sum, product, builder.automorphism(a, rotation::element(4096, 1)), builder.rescale(a)]
    });
    let found = asked(&[&mixed], false);
    assert_eq!(found, [&["write", "sums", "products"][..], &SWITCH, &["read", "finish"]].concat());
}

/// A card without room for the scratch rows of a level computes the level in parts. Outputs that do not fit are read
/// from where they are.
#[test]
fn a_card_with_little_memory_takes_a_level_in_parts() {
    let params = params();
    let elements = [1, 2, -3, 4].map(|steps| rotation::element(4096, steps));
    let plan = plan(&params, |builder, a| elements.iter().map(|&element| builder.automorphism(a, element)).collect());
    let of_room = |rows: u64| {
        let gpu = Told::new(4);
        let properties = Properties { buffer_bytes_max: rows * 4 * 4096, ..gpu.properties().clone() };
        asked_of(Told::of(properties), &[&plan], true)
    };
    let one = [&["write"][..], &SWITCH, &["gather", "read", "finish"]].concat();
    assert_eq!(of_room(1 << 16), one);
    let of_one_step = asked(&[&plan], false).len();
    assert_eq!(of_one_step, 11);
    let parts = of_room(60);
    let count = |entry: &str| parts.iter().filter(|asked| **asked == entry).count();
    let switches = count("ntt_rows_gadget");
    assert!((2..=4).contains(&switches), "{parts:?}");
    assert_eq!((count("write"), count("ntt_rows_combine"), count("finish")), (1, switches, 1));
}

/// The images of a ciphertext share its decomposition and the transforms of its digits.
#[test]
fn images_share_the_transforms_of_digits() {
    let params = params();
    let elements = [1, 2, -3].map(|steps| rotation::element(4096, steps));
    let images = plan(&params, |builder, a| vec![builder.add_images(a, &elements)]);
    let expected = [
        &["write", "gather"],
        &SWITCH[..3],
        &["ntt_rows", "ntt_rows_gadget", "gather"],
        &SWITCH[4..],
        &["read", "finish"],
    ];
    assert_eq!(asked(&[&images], false), expected.concat());
}
