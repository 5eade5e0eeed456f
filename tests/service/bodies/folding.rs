//! Gates whose operands are equal, opposite or constant need no bootstrap, and are charged as requested
//! (docs/wire-format.md 8, "Folding").

use client::Preset;
use client::container::{self, Form};
use kernels::tfhe::Lwe;
use serde_json::{Value, json};
use tests_service::TestServer;

use tests_service::gates::{Account, BATCH, CIRCUITS, base64, bytes};

const BOOTSTRAPS: &str = "ango_bootstraps_total";

fn lwe(account: &Account<'_>, member: &Value) -> Lwe {
    let secret = &account.secret.secret;
    container::read_ciphertext(&bytes(member), secret.preset(), Some(secret.fingerprint())).expect("a ciphertext").0
}

fn written(account: &Account<'_>, lwe: &Lwe) -> Value {
    let secret = &account.secret.secret;
    json!(base64(&container::write_ciphertext(lwe, secret.preset(), Some(secret.fingerprint()), Form::Ango)))
}

fn negated(lwe: &Lwe) -> Lwe {
    Lwe::new(lwe.words().iter().map(|word| word.wrapping_neg()).collect())
}

#[tokio::test]
async fn gates_of_equal_or_opposite_operands_are_not_bootstrapped_and_cost_what_was_asked() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let [a, b] = [true, false].map(|bit| json!(account.encrypt(bit)));
    let a_lwe = lwe(&account, &a);
    let not_a = written(&account, &negated(&a_lwe));
    let [yes, no] = [true, false].map(|bit| Lwe::trivial(a_lwe.dimension(), bit));
    let trivial = written(&account, &yes);
    let folded = [
        ("NAND", &a, &a, None, negated(&a_lwe)),
        ("AND", &a, &a, None, a_lwe.clone()),
        ("OR", &not_a, &a, None, yes.clone()),
        ("NOR", &a, &a, None, negated(&a_lwe)),
        ("XOR", &a, &a, None, no.clone()),
        ("XNOR", &a, &not_a, None, no),
        ("XNOR", &trivial, &a, None, a_lwe.clone()),
        ("MUX", &a, &a, Some(&b), a_lwe.clone()),
        ("MUX", &b, &a, Some(&trivial), lwe(&account, &b)),
    ];
    let gates: Vec<Value> =
        folded.iter().map(|(op, a, b, sel, _)| json!({"op": op, "a": a, "b": b, "sel": sel})).collect();
    let before = server.metric(BOOTSTRAPS).await;
    let answer = account.post(BATCH, &json!({"session_id": account.session, "gates": gates})).await.ok(200);
    for ((op, .., expected), result) in folded.iter().zip(answer["results_b64"].as_array().unwrap()) {
        assert!(lwe(&account, result) == *expected, "{op}");
    }
    assert_eq!(server.metric(BOOTSTRAPS).await, before);

    let different: Vec<Value> = folded
        .iter()
        .map(|(op, ..)| json!({"op": op, "a": account.encrypt(true), "b": account.encrypt(true), "sel": account.encrypt(true)}))
        .collect();
    let asked = account.post(BATCH, &json!({"session_id": account.session, "gates": different})).await.ok(200);
    for member in ["total_bootstrap_ops", "total_cost_jpy", "batch_discount_applied"] {
        assert_eq!(answer[member], asked[member], "{member}");
    }
}

#[tokio::test]
async fn a_mux_of_two_values_takes_one_bootstrap() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    for [a, b] in [[false, false], [false, true], [true, false], [true, true]] {
        let (before, [x, y]) = (server.metric(BOOTSTRAPS).await, [a, b].map(|bit| json!(account.encrypt(bit))));
        let gates = json!([
            {"op": "MUX", "a": x, "b": y, "sel": x},
            {"op": "MUX", "a": x, "b": y, "sel": y},
            {"op": "MUX", "a": x, "b": written(&account, &negated(&lwe(&account, &x))), "sel": y},
            {"op": "OR", "a": y, "b": x},
        ]);
        let answer = account.post(BATCH, &json!({"session_id": account.session, "gates": gates})).await.ok(200);
        let results = answer["results_b64"].as_array().unwrap();
        let plain: Vec<bool> = results.iter().map(|result| account.decrypt(result)).collect();
        assert_eq!(plain, [a | b, a & b, a == b, a | b]);
        assert!(lwe(&account, &results[0]) == lwe(&account, &results[3]), "the words of OR");
        assert_eq!(server.metric(BOOTSTRAPS).await - before, 4.0);
    }
}

#[tokio::test]
async fn a_circuit_computes_equal_values_once_and_costs_its_gates() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    // the outputs are x AND y, y AND x, the XOR of these two, and x AND z
    let netlist = "4 7\n3 1 1 1\n1 4\n\n2 1 0 1 3 AND\n2 1 1 0 4 AND\n2 1 3 4 5 XOR\n2 1 0 2 6 AND\n";
    let [x, y] = [true, true].map(|bit| json!([account.encrypt(bit)]));
    let before = server.metric(BOOTSTRAPS).await;
    // z is the same ciphertext as x
    let answer = account.post(CIRCUITS, &account.circuit(netlist, json!([x, y, x]))).await.ok(200);
    assert_eq!(server.metric(BOOTSTRAPS).await - before, 1.0);
    let outputs = answer["outputs"][0].as_array().unwrap();
    assert_eq!(account.bits(&answer["outputs"][0]), [true, true, false, true]);
    assert_eq!(outputs[0], outputs[1]);
    assert!(lwe(&account, &outputs[2]) == Lwe::trivial(636, false));
    assert!(lwe(&account, &outputs[3]) == lwe(&account, &x[0]));
    assert_eq!((&answer["gates_done"], &answer["levels"]), (&json!(4), &json!(2)));
    assert_eq!((&answer["gates"], &answer["bootstrap_ops"]), (&json!({"AND": 3, "XOR": 1}), &json!(7)));

    // a batch with a single gate gives the same ciphertext as the circuit
    let gate = json!([{"op": "AND", "a": y[0], "b": x[0]}]);
    let alone = account.post(BATCH, &json!({"session_id": account.session, "gates": gate})).await.ok(200);
    assert!(lwe(&account, &alone["results_b64"][0]) == lwe(&account, &outputs[0]));
}

#[tokio::test]
async fn a_circuit_of_which_nothing_is_left_is_completed_and_charged() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let netlist = "3 4\n1 1\n1 2\n\n1 1 0 1 INV\n2 1 0 1 2 AND\n2 1 0 0 3 XOR\n";
    let answer = account.post(CIRCUITS, &account.circuit(netlist, json!([account.value(&[true])]))).await.ok(200);
    assert_eq!((&answer["status"], &answer["gates_done"]), (&json!("completed"), &json!(3)));
    assert_eq!(account.bits(&answer["outputs"][0]), [false, false]);
    assert_eq!((&answer["bootstrap_ops"], &account.show().await["gates_used"]), (&json!(5), &json!(3)));
}
