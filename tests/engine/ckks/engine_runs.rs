//! The engine's behaviour with operations on encrypted numbers, independent of their results.

use engine::ckks::operation::Operation;
use engine::{Error, NumbersKey, Task};
use std::sync::Arc;

use crate::party::{More, Party, engine, numbers};
use crate::{STABLE, params, parts};

#[test]
fn sessions_of_several_keys_compute_side_by_side() {
    let engine = engine();
    let parties: Vec<Party> = [(64, 3), (256, 3), (256, 5)]
        .into_iter()
        .map(|(n, depth)| {
            let params = params(n, depth, false);
            Party::new(engine.clone(), &params, &parts(&params))
        })
        .collect();
    let inputs: Vec<_> = parties.iter().map(|party| party.encrypt(&numbers(party.params().slots(), 9))).collect();
    let begun: Vec<_> = (0..8)
        .flat_map(|_| parties.iter().zip(&inputs))
        .map(|(party, input)| {
            let of = [&input.ciphertext, &input.ciphertext];
            let plan = party.plan(Operation::Multiply, &of, STABLE).unwrap();
            party.begin(plan, &of).1
        })
        .collect();
    // all runs give the same words, because the results of a plan depend only on its inputs and its key
    let words: Vec<Vec<u32>> = begun.into_iter().map(|end| end.recv().unwrap().unwrap().results.words).collect();
    for (at, found) in words.iter().enumerate() {
        assert!(*found == words[at % parties.len()], "operation {at}");
    }
    assert!(words[1] != words[2]);
}

#[test]
fn sessions_of_one_parameter_set_share_its_tables_until_the_last_is_closed() {
    let (engine, params) = (engine(), params(256, 3, false));
    let close = |party: &Party| {
        let (tell, erased) = std::sync::mpsc::channel();
        party.engine.close(party.session, Box::new(move || tell.send(()).expect("the test waits")));
        erased.recv().unwrap();
    };
    let bytes_after = |party: &Party| {
        let x = party.encrypt(&numbers(params.slots(), 8));
        party.check(Operation::Multiply, &[&x, &x], STABLE, x.expected.iter().map(|x| x * x).collect());
        party.engine.usage().resident_bytes
    };
    let parties = [0; 3].map(|_| Party::new(engine.clone(), &params, &parts(&params)));
    let [one, two, three] = parties.each_ref().map(bytes_after);
    let of_a_part = two - one;
    assert!(one > of_a_part, "tables and a part");
    assert_eq!(three - two, of_a_part, "each further session adds its part alone");
    close(&parties[1]);
    close(&parties[0]);
    assert_eq!(engine.usage().resident_bytes, three - 2 * of_a_part);
    assert_eq!(bytes_after(&parties[2]), one, "the last session goes on with the tables");
    close(&parties[2]);
    assert_eq!(engine.usage().resident_bytes, 0);
}

#[test]
fn an_operation_that_is_cancelled_ends_without_a_result_and_the_next_one_runs() {
    let params = params(4096, 7, false);
    let party = Party::new(engine(), &params, &parts(&params));
    let x = party.encrypt(&numbers(params.slots(), 8));
    let coefficients = [0.1; 65];
    let more = More { coefficients: Some(&coefficients), ..STABLE };
    let plan = party.plan(Operation::PolyEval, &[&x.ciphertext], more).unwrap();
    assert!(plan.level_ends().len() > 7, "the plan has levels");
    let first = party.begin(plan.clone(), &[&x.ciphertext]);
    let second = party.begin(plan, &[&x.ciphertext]);
    party.engine.cancel(second.0);
    let failed = second.1.recv().unwrap().unwrap_err();
    assert_eq!(failed.error, Error::Cancelled);
    assert!(first.1.recv().unwrap().is_ok());
    assert_eq!(party.engine.progress(second.0), None);
    let usage = party.engine.usage();
    assert_eq!((usage.operations, usage.queued_rows), (0, 0));
}

#[test]
fn a_plan_whose_part_the_key_has_not_is_told_by_its_part() {
    let params = params(64, 3, false);
    let party = Party::new(engine(), &params, &parts(&params));
    let x = party.encrypt(&numbers(params.slots(), 8));
    let of = [&x.ciphertext, &x.ciphertext];
    let plan = party.plan(Operation::Multiply, &of, STABLE).unwrap();
    let needed = plan.parts()[0].0;
    let without = NumbersKey { params: params.clone(), parts: party.key.parts[1..].to_vec() };
    let words = Arc::new(x.ciphertext.words.clone());
    assert_eq!(Task::numbers(plan, vec![words.clone(), words], &without).err(), Some(needed));
}

#[test]
fn a_closed_session_ends_what_waits() {
    let params = params(4096, 7, false);
    let party = Party::new(engine(), &params, &parts(&params));
    let x = party.encrypt(&numbers(params.slots(), 8));
    let coefficients = [0.1; 65];
    let more = More { coefficients: Some(&coefficients), ..STABLE };
    let plan = party.plan(Operation::PolyEval, &[&x.ciphertext], more).unwrap();
    let begun: Vec<_> = (0..4).map(|_| party.begin(plan.clone(), &[&x.ciphertext]).1).collect();
    let (tell, erased) = std::sync::mpsc::channel();
    party.engine.close(party.session, Box::new(move || tell.send(()).expect("the test waits")));
    let ends: Vec<_> =
        begun.into_iter().map(|end| end.recv().unwrap().map_err(|failed| failed.error).map(drop)).collect();
    assert_eq!(ends[3], Err(Error::Gone), "{ends:?}");
    erased.recv().unwrap();
    assert_eq!(party.engine.usage().resident_bytes, 0);
}
