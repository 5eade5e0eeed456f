//! Ciphertexts that stay on a device between operations.

use engine::ckks::operation::Operation;
use engine::{Config, Engine, Names, ValueId};
use kernels::Card;
use tests_compute::counted::Counted;
use tests_compute::host_cuda::HostCuda;

use crate::party::{Encrypted, More, Party, engine, numbers};
use crate::{STABLE, params, parts, turned, zip};

/// Number of operations of a chain.
const CHAIN: usize = 50;

/// Runs a chain of operations, each a request. Each takes the result of the one before, and every second one also the
/// same other ciphertext. After each operation, `each` gets its index. Returns the last result.
fn chain(party: &Party, has_names: bool, mut each: impl FnMut(usize)) -> Encrypted {
    let [mut value, other] = [1, 2].map(|seed| party.encrypt(&numbers(party.params().slots(), seed)));
    let name = |at: usize| has_names.then_some(ValueId(at as u128));
    // the two inputs have the names 0 and CHAIN + 1, and result `at` has the name `at + 1`
    for at in 0..CHAIN {
        let is_sum = at % 2 == 1;
        let (operation, more, expected) = match is_sum {
            true => (Operation::Add, More::default(), zip(&value, &other, |a, b| a + b)),
            false => (Operation::Rotate, More { steps: Some(1), ..STABLE }, turned(&value.expected, 1)),
        };
        let mut of = vec![&value.ciphertext];
        let mut inputs = vec![name(at)];
        if is_sum {
            of.push(&other.ciphertext);
            inputs.push(name(CHAIN + 1));
        }
        let names = Names { inputs, outputs: vec![name(at + 1)] };
        let ciphertext = party.run_named(operation, &of, more, names).expect("the operation is allowed");
        value = Encrypted { ciphertext, expected };
        each(at);
    }
    party.check_precision(&value, "a chain");
    value
}

#[test]
fn a_chain_of_50_requests_moves_its_inputs_to_the_card_once() {
    let params = params(64, 3, false);
    let host = match HostCuda::open() {
        Ok(host) => host,
        Err(why) => return println!("not tried: {why}"),
    };
    let card = Counted::new(host);
    let counts = card.counts();
    // values stay however slow the machine is
    let config = Config { arena_idle_ms: Config::ARENA_IDLE_MS_MAX, ..Config::default() };
    let on_card = Engine::with_backend(config, Card::new(card)).expect("an engine");
    let party = Party::new(on_card, &params, &parts(&params));
    let rows = 2 * params.level(params.level_max()).primes.len();
    let mut moved = Vec::new();
    chain(&party, true, |_| {
        let [_, uploads, waits] = counts.taken();
        // each call has one upload besides: the table of its jobs
        moved.push(uploads - waits);
    });
    assert!(moved[0] >= rows && moved[1] >= rows, "inputs and parts of the key are written");
    assert_eq!(moved[2..], [0; CHAIN - 2], "everything is there");
}

#[test]
fn a_chain_of_requests_is_right_on_the_processor_and_leaves_values_in_its_arena() {
    let params = params(256, 3, false);
    let party = Party::new(engine(), &params, &parts(&params));
    let mut arena_bytes = Vec::new();
    chain(&party, true, |_| arena_bytes.push(party.engine.usage().arena_bytes));
    assert!(arena_bytes[CHAIN - 1] > arena_bytes[0] && arena_bytes[0] > 0, "{arena_bytes:?}");
    chain(&party, false, |_| ());
}
