//! An operation on numbers that is run part by part.

use std::sync::{Arc, mpsc};

use client::ckks::{PartKind, SecurityLevel};
use engine::ckks::operation::Operation;
use engine::{Done, PlannedNumbers, Task};

use crate::party::{More, Party, engine, numbers};
use crate::{STABLE, params, parts};

/// Runs a task and returns its end.
fn run(party: &Party, task: Task) -> Done {
    let (tell, hears) = mpsc::channel();
    let told = move |outcome| drop(tell.send(outcome));
    party.engine.submit(party.session, task, None, Box::new(told)).expect("the engine has room for an operation");
    hears.recv().expect("an end").expect("results")
}

/// Runs these levels of a plan, and returns the words of its results, one after another, with the units of work.
fn run_part(
    party: &Party,
    planned: &PlannedNumbers,
    (from, to): (usize, usize),
    inputs: Vec<Arc<Vec<u32>>>,
) -> (Vec<Arc<Vec<u32>>>, u64) {
    let (plan, n) = (planned.plan().part(from..to), party.params().n());
    let Done { results, units, .. } = run(party, planned.part(from..to, inputs));
    let mut rest = &results.words[..];
    let outputs = plan.outputs().map(|output| {
        let (words, more) = rest.split_at(output.slots.len() * n);
        rest = more;
        Arc::new(words.to_vec())
    });
    (outputs.collect(), units)
}

#[test]
fn an_operation_in_parts_gives_the_words_of_the_whole_one_whichever_parts_the_key_has() {
    let params = params(64, 3, false);
    assert_eq!(params.literal().security, SecurityLevel::Testing);
    // each kind a second time, for the levels below: a part of a plan could do with those, and would give other words
    let all = parts(&params);
    let low: Vec<(PartKind, usize)> = all.iter().map(|&(kind, _)| (kind, 1)).collect();
    let party = Party::new(engine(), &params, &[all, low].concat());
    let (x, matrix) = (party.encrypt(&numbers(params.slots(), 1)), party.encrypt(&numbers(params.slots(), 2)));
    let coefficients = [0.25, -0.5, 0.125, 1.0, -0.75, 0.5, 0.25, -1.0];
    let polynomial = More { coefficients: Some(&coefficients), ..STABLE };
    let of_one = vec![&x.ciphertext];
    for (operation, of, more) in [
        (Operation::PolyEval, of_one, polynomial),
        (Operation::Matmul, vec![&matrix.ciphertext, &x.ciphertext], STABLE),
    ] {
        let plan = party.plan(operation, &of, more).unwrap();
        let inputs = of.iter().map(|ciphertext| Arc::new(ciphertext.words.clone())).collect();
        let levels = plan.level_ends().len();
        let Ok(Task::Numbers(planned)) = Task::numbers(plan, inputs, &party.key) else { panic!("a plan of numbers") };
        let whole = run(&party, Task::Numbers(planned.clone()));
        for cut in 1..levels {
            let (values, first) = run_part(&party, &planned, (0, cut), planned.inputs().to_vec());
            let (ended, second) = run_part(&party, &planned, (cut, levels), values);
            assert!(*ended[0] == whole.results.words, "{operation:?}, cut before level {cut}");
            assert_eq!(first + second, whole.units, "{operation:?}, cut before level {cut}");
        }
    }
}
