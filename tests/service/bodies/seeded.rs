//! Seeded ciphertexts (docs/wire-format.md 7 and 10) in requests for gates and circuits, in JSON and in octets.

use client::{Preset, bundle, container};
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::{Request, Response};
use tests_service::keys;

use tests_service::gates::{Account, BATCH, CIRCUITS, GATE, OCTETS, and_netlist, base64, split_octets};

/// Encrypts these bits into a seeded container.
fn seeded(account: &Account<'_>, bits: &[bool]) -> Vec<u8> {
    bundle::encrypt_seeded(&account.secret.secret, bits)
}

/// Splits a seeded container into two parts: a JSON object with the seed and the number of ciphertexts, for the head of
/// a request, and the bodies of the ciphertexts, which follow the head.
fn bare(container: &[u8]) -> (Value, Vec<u8>) {
    let (seed, bodies) = container[container::HEADER_BYTES..].split_at(32);
    let digits: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
    (json!({"seed": digits, "ciphertexts": bodies.len() / 4}), bodies.to_vec())
}

fn body(head: &Value, words: &[u8]) -> Vec<u8> {
    let head = head.to_string();
    [&(head.len() as u32).to_le_bytes()[..], head.as_bytes(), words].concat()
}

async fn post(account: &Account<'_>, path: &str, head: &Value, words: &[u8]) -> Response {
    account.send(Request::new("POST", path).body(OCTETS, body(head, words)).header("Accept", OCTETS)).await
}

#[tokio::test]
async fn a_gate_takes_a_seeded_container_of_one_bit() {
    let server = TestServer::start().await;
    for preset in Preset::ALL {
        let account = Account::open(&server, preset).await;
        let text = |bit| base64(&seeded(&account, &[bit]));
        let gate = json!({"session_id": account.session, "op": "AND", "a": text(true), "b": account.encrypt(true)});
        assert!(account.decrypt(&account.post(GATE, &gate).await.ok(200)["result_b64"]), "{}", preset.name());
        let gates = json!([{"op": "MUX", "a": text(false), "b": text(true), "sel": text(false)}]);
        let batch = json!({"session_id": account.session, "gates": gates});
        assert!(account.decrypt(&account.post(BATCH, &batch).await.ok(200)["results_b64"][0]), "{}", preset.name());
    }
}

#[tokio::test]
async fn a_batch_s_operands_are_bodies_behind_the_head_that_names_their_seeds() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let gates = json!(["AND", "NOT", "MUX"]);
    // AND(1, 1), NOT(0), MUX(1, 0, 1), from one seed or from two
    let bits = [true, true, false, true, false, true];
    for cut in [0, 2] {
        let containers = [&bits[..cut], &bits[cut..]].map(|bits| (!bits.is_empty()).then(|| seeded(&account, bits)));
        let (seeds, bodies): (Vec<_>, Vec<_>) = containers.iter().flatten().map(|container| bare(container)).unzip();
        let head = json!({"session_id": account.session, "gates": gates, "seeds": seeds});
        let answer = post(&account, BATCH, &head, &bodies.concat()).await;
        let (head, results) = split_octets(&answer, Preset::Fast128);
        assert_eq!(head["results"], 3);
        assert!(results.iter().all(|bit| account.secret.secret.decrypt(bit)), "{cut}");
    }
}

#[tokio::test]
async fn a_circuit_takes_seeded_values_in_json_and_as_bare_bodies() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let netlist = and_netlist(3).replacen("\n1 6\n", "\n2 3 3\n", 1);
    let (a, b) = (seeded(&account, &[true, true, false]), seeded(&account, &[true, false, true]));
    let expected = [true, false, false];

    let whole = account.value(&[true, false, true]);
    let single: Vec<_> = [true, false, true].map(|bit| base64(&seeded(&account, &[bit]))).into();
    for second in [json!([base64(&b)]), whole, json!(single)] {
        let request = account.circuit(&netlist, json!([[base64(&a)], second]));
        let done = account.post(CIRCUITS, &request).await.ok(200);
        assert_eq!(account.bits(&done["outputs"][0]), expected);
    }

    let ((seed_a, bodies_a), (seed_b, bodies_b)) = (bare(&a), bare(&b));
    let mut head = account.circuit(&netlist, json!([3, 3]));
    head["seeds"] = json!([seed_a, seed_b]);
    head["outputs"] = json!("handles");
    let (answer, _) =
        split_octets(&post(&account, CIRCUITS, &head, &[bodies_a.clone(), bodies_b].concat()).await, Preset::Fast128);
    // an input that is a handle adds no bodies behind the head
    let mut head = account.circuit(&netlist, json!([answer["outputs"][0], 3]));
    head["seeds"] = json!([seed_a]);
    let (_, results) = split_octets(&post(&account, CIRCUITS, &head, &bodies_a).await, Preset::Fast128);
    let bits: Vec<_> = results.iter().map(|bit| account.secret.secret.decrypt(bit)).collect();
    assert_eq!(bits, expected);
}

#[tokio::test]
async fn seeded_containers_that_do_not_fit_are_refused_with_their_place() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let (one, two) = (seeded(&account, &[true]), seeded(&account, &[true, false]));
    let foreign = bundle::encrypt_seeded(&keys::somebody_elses().secret, &[true]);
    let of_another_preset = bundle::encrypt_seeded(&keys::of(Preset::Standard128).secret, &[true]);
    let mut damaged = one.clone();
    damaged[40] ^= 1;
    for bad in [&two, &foreign, &of_another_preset, &damaged, &one[..one.len() - 4], &one[..40]] {
        let gate = json!({"session_id": account.session, "op": "NOT", "a": base64(bad)});
        let error = account.post(GATE, &gate).await.error(400, "INVALID_CIPHERTEXT");
        assert_eq!(error["details"][0]["field"], "a");
    }
    let netlist = and_netlist(1);
    for (value, code, field) in [
        (json!([base64(&one)]), "INVALID_PARAMS", "inputs[0]"),
        (json!([base64(&two), base64(&one)]), "INVALID_CIPHERTEXT", "inputs[0][0]"),
        (json!([base64(&two[..60])]), "INVALID_CIPHERTEXT", "inputs[0][0]"),
    ] {
        let error = account.post(CIRCUITS, &account.circuit(&netlist, json!([value]))).await.error(400, code);
        assert_eq!(error["details"][0]["field"], field, "{error}");
    }
}

#[tokio::test]
async fn seeds_that_do_not_fit_their_bodies_are_refused() {
    let server = TestServer::start().await;
    let account = Account::open(&server, Preset::Fast128).await;
    let (seed, bodies) = bare(&seeded(&account, &[true, false]));
    let whole = account.secret.encrypt(true)[container::HEADER_BYTES..].to_vec();
    let with = |member: &str, value: Value| {
        let mut seed = seed.clone();
        seed[member] = value;
        seed
    };
    let twice = with("ciphertexts", json!(1));
    for (seeds, words, status, code) in [
        (json!([seed]), bodies[..7].to_vec(), 400, "INVALID_CIPHERTEXT"),
        (json!([seed]), bodies[..4].to_vec(), 400, "INVALID_CIPHERTEXT"),
        (json!([seed]), [&bodies[..], &[0; 4]].concat(), 400, "INVALID_CIPHERTEXT"),
        (json!([seed]), vec![], 400, "INVALID_CIPHERTEXT"),
        // complete ciphertexts where the node expects bodies: two ciphertexts, or a body and then a ciphertext
        (json!([seed]), [&whole[..], &whole].concat(), 400, "INVALID_CIPHERTEXT"),
        (json!([with("ciphertexts", json!(1))]), [&bodies[..4], &whole].concat(), 400, "INVALID_CIPHERTEXT"),
        (json!([]), bodies.clone(), 400, "INVALID_CIPHERTEXT"),
        (json!([with("ciphertexts", json!(3))]), bodies.clone(), 400, "INVALID_CIPHERTEXT"),
        (json!([with("ciphertexts", json!(u64::MAX)), seed]), bodies.clone(), 400, "INVALID_CIPHERTEXT"),
        (json!([twice, twice]), bodies.clone(), 400, "INVALID_CIPHERTEXT"),
        (json!([with("ciphertexts", json!(0)), seed]), bodies.clone(), 400, "INVALID_REQUEST"),
        (json!([with("seed", json!("00"))]), bodies.clone(), 400, "INVALID_REQUEST"),
        (json!([with("seed", json!(7))]), bodies.clone(), 422, "VALIDATION_ERROR"),
        (json!({}), bodies.clone(), 422, "VALIDATION_ERROR"),
        (json!(["x"]), bodies.clone(), 422, "VALIDATION_ERROR"),
        (json!(vec![seed.clone(); 200]), bodies.clone(), 400, "INVALID_CIPHERTEXT"),
    ] {
        let head = json!({"session_id": account.session, "gates": ["NAND"], "seeds": seeds});
        post(&account, BATCH, &head, &words).await.error(status, code);
        let mut head = account.circuit(&and_netlist(1), json!([2]));
        head["seeds"] = seeds;
        post(&account, CIRCUITS, &head, &words).await.error(status, code);
    }
    // without `seeds` in the head, the node expects complete ciphertexts, and the bodies are too short for them
    let head = json!({"session_id": account.session, "gates": ["NAND"]});
    post(&account, BATCH, &head, &bodies).await.error(400, "INVALID_CIPHERTEXT");
    // a JSON request has no `seeds`, because each container in it has its own seed
    let mut request = account.circuit(&and_netlist(1), json!([account.value(&[true, true])]));
    request["seeds"] = json!([seed]);
    account.post(CIRCUITS, &request).await.error(400, "INVALID_REQUEST");
    // a secret key in the place of the bodies
    let head = json!({"session_id": account.session, "gates": ["NAND"], "seeds": [seed]});
    let secret = account.secret.secret.to_bytes();
    post(&account, BATCH, &head, &secret).await.error(400, "SECRET_KEY_REJECTED");
}
