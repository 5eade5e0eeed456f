//! A client makes keys, encrypts, and sends ciphertexts over real HTTP to a node that cannot read the data. The client
//! decrypts the node's results.

use api::{MilliYen, SessionId};
use client::evaluate::{Evaluation, POLLED_GATES_MIN, Progress, Target, evaluate, request};
use client::http::{Client, Error, from_base64, to_base64};
use client::{Circuit, Gate, Netlist, Preset, bundle, netlists, value};
use control::caller::Role;
use tests_service::TestServer;
use tests_service::keys::{self, ClientKey};

/// Makes a netlist with two outputs: the sum of two 8-bit numbers modulo 2^8, and one bit that says whether the two
/// numbers are equal. The netlist has every operation of the format.
fn toy() -> String {
    let mut lines = Vec::new();
    let mut wires = 16;
    let mut gate = |operation: &str, operands: &[usize]| {
        let operands: Vec<String> = operands.iter().map(usize::to_string).collect();
        lines.push(format!("{} 1 {} {wires} {operation}", operands.len(), operands.join(" ")));
        wires += 1;
        wires - 1
    };
    let mut carry = gate("EQ", &[0]);
    let mut sum = Vec::new();
    let mut differences = Vec::new();
    for bit in 0..8 {
        let (a, b) = (bit, 8 + bit);
        let difference = gate("XOR", &[a, b]);
        differences.push(difference);
        sum.push(gate("XOR", &[difference, carry]));
        // carry out = carry ^ ((a ^ carry) & (b ^ carry))
        let (left, right) = (gate("XOR", &[a, carry]), gate("XOR", &[b, carry]));
        let both = gate("AND", &[left, right]);
        carry = gate("XOR", &[carry, both]);
    }
    let equals: Vec<usize> = differences.into_iter().map(|difference| gate("INV", &[difference])).collect();
    let equal = equals.into_iter().reduce(|all, bit| gate("AND", &[all, bit])).expect("eight bits");
    for wire in sum {
        gate("EQW", &[wire]);
    }
    gate("EQW", &[equal]);
    format!("{} {wires}\n2 8 8\n2 8 1\n\n{}\n", lines.len(), lines.join("\n"))
}

/// Makes a netlist of `width` independent gates. Each gate applies `operation` to a bit of one number and the same bit
/// of another number.
fn wide(width: usize, operation: &str) -> String {
    let lines = (0..width).map(|bit| format!("2 1 {bit} {} {} {operation}", width + bit, 2 * width + bit));
    format!("{width} {}\n2 {width} {width}\n1 {width}\n{}\n", 3 * width, lines.collect::<Vec<_>>().join("\n"))
}

/// Returns the number of operations in one run of the circuit, and the price of the run by the tariff (specification,
/// Gate rules). The circuit's depth does not change the price.
fn tariff(circuit: &Circuit) -> (u64, MilliYen) {
    let operations: u64 = circuit
        .gates()
        .iter()
        .map(|gate| match gate.gate() {
            Gate::Xor => 4,
            Gate::And => 1,
            Gate::Not => 0,
            other => panic!("no netlist has {}", other.name()),
        })
        .sum();
    (operations, MilliYen(operations as i64 * if circuit.gates().len() >= 32 { 70 } else { 100 }))
}

async fn connect(server: &TestServer) -> Client {
    let url = format!("http://{}", server.address);
    Client::new(&url, &server.key(Role::Developer).await).expect("a client")
}

async fn open(client: &Client, key: &ClientKey) -> SessionId {
    client.open_session(key.evaluation.clone()).await.expect("a session").session_id
}

/// Encrypts the inputs, lets the node evaluate the netlist, and decrypts the outputs.
async fn compute(
    client: &Client,
    session: &SessionId,
    key: &ClientKey,
    netlist: &Netlist,
    inputs: &[Vec<bool>],
) -> (Vec<Vec<bool>>, Evaluation) {
    let circuit = netlist.circuit();
    let encrypted: Vec<_> = inputs.iter().map(|bits| bundle::encrypt(&key.secret, bits)).collect();
    let mut gates_done = 0;
    let forward = |now: Progress| {
        assert!(now.gates_done > gates_done, "progress goes forward");
        gates_done = now.gates_done;
    };
    let target = Target { session, preset: key.secret.preset(), mapping: None };
    let evaluation = evaluate(client, target, netlist, &encrypted, forward, std::future::pending());
    let evaluation = evaluation.await.expect("an evaluation");
    assert_eq!((gates_done, evaluation.gates), (circuit.gates().len(), circuit.gates().len()));
    let decrypt = |output: &Vec<Vec<u8>>| bundle::decrypt(&key.secret, output).expect("ciphertexts of this key");
    (evaluation.outputs.iter().map(decrypt).collect(), evaluation)
}

/// Returns the error code of a result, which must be a refusal.
fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Refused { code, .. }) => code,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circuit_on_encrypted_bits_gives_what_it_gives_in_the_clear_and_costs_what_the_tariff_says() {
    let server = TestServer::start().await;
    let (client, key) = (connect(&server).await, keys::of(Preset::Fast128));
    let netlist = Netlist::parse(toy()).expect("a circuit");
    let circuit = netlist.circuit();
    let session = open(&client, key).await;
    let (operations, cost) = tariff(circuit);
    for (round, (a, b)) in [(200u64, 100u64), (77, 77)].into_iter().enumerate() {
        let inputs = [a, b].map(|number| value::parse(&number.to_string(), 8).expect("eight bits"));
        let (outputs, evaluation) = compute(&client, &session, key, &netlist, &inputs).await;
        assert_eq!(outputs, circuit.evaluate(&inputs));
        assert_eq!(value::format(&outputs[0]), ((a + b) % 256).to_string());
        assert_eq!(outputs[1], [a == b]);

        assert_eq!((evaluation.bootstrap_ops, evaluation.cost), (operations, cost));
        let seen = client.session(&session).await.expect("the session");
        assert!(seen.is_blind);
        assert_eq!(seen.gates_used, (round as u64 + 1) * circuit.gates().len() as u64);
        assert_eq!(seen.total_cost_jpy, cost * (round as i64 + 1));
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_circuit_is_polled_and_gives_the_same_at_the_same_price() {
    let server = TestServer::start().await;
    let (client, key) = (connect(&server).await, keys::of(Preset::Fast128));
    let netlist = Netlist::parse(wide(POLLED_GATES_MIN, "AND")).expect("a circuit");
    let session = open(&client, key).await;
    let inputs = [value::random(POLLED_GATES_MIN), value::random(POLLED_GATES_MIN)];
    let (outputs, evaluation) = compute(&client, &session, key, &netlist, &inputs).await;
    assert_eq!(outputs, netlist.circuit().evaluate(&inputs));
    assert_eq!((evaluation.bootstrap_ops, evaluation.cost), tariff(netlist.circuit()));
    // the client has fetched the values of the outputs, so the node no longer holds them
    assert_eq!(server.metric("ango_value_bytes").await, 0.0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_64_bit_sum_comes_back_right_in_every_preset() {
    let server = TestServer::start().await;
    let client = connect(&server).await;
    let netlist = Netlist::parse(netlists::ADDER64).expect("a circuit");
    for preset in Preset::ALL {
        let key = keys::of(preset);
        let session = open(&client, key).await;
        let inputs = [value::random(64), value::random(64)];
        let (outputs, _) = compute(&client, &session, key, &netlist, &inputs).await;
        assert_eq!(outputs, netlist.circuit().evaluate(&inputs), "{}: {inputs:?}", preset.name());
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_is_cancelled_and_costs_nothing() {
    let server = TestServer::start().await;
    let (client, key) = (connect(&server).await, keys::of(Preset::Fast128));
    let gates = 50_000;
    let lines = (0..gates).map(|i| format!("2 1 {} 0 {} AND", i + 1, i + 2));
    let chain = format!("{gates} {}\n1 2\n1 1\n{}\n", gates + 2, lines.collect::<Vec<_>>().join("\n"));
    let netlist = Netlist::parse(chain).expect("a circuit");
    let session = open(&client, key).await;
    let inputs = [bundle::encrypt(&key.secret, &[true, true])];
    let (begun, interrupted) = tokio::sync::oneshot::channel();
    let mut begun = Some(begun);
    let tell = |_: Progress| {
        if let Some(begun) = begun.take() {
            begun.send(()).expect("the test waits for the first progress");
        }
    };
    let interruption = async { interrupted.await.expect("some progress") };
    let target = Target { session: &session, preset: Preset::Fast128, mapping: None };
    let ended = evaluate(&client, target, &netlist, &inputs, tell, interruption).await;
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    let seen = client.session(&session).await.expect("the session");
    assert_eq!((seen.gates_used, seen.total_cost_jpy), (0, MilliYen(0)));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ciphertexts_of_another_key_are_not_computed_on() {
    let server = TestServer::start().await;
    let (client, key) = (connect(&server).await, keys::of(Preset::Fast128));
    let netlist = Netlist::parse(wide(1, "AND")).expect("a circuit");
    let session = open(&client, key).await;
    let (mine, other) =
        (bundle::encrypt(&key.secret, &[true]), bundle::encrypt(&keys::somebody_elses().secret, &[true]));
    let target = Target { session: &session, preset: Preset::Fast128, mapping: None };
    let run = async |inputs: [Vec<Vec<u8>>; 2]| {
        evaluate(&client, target, &netlist, &inputs, |_| (), std::future::pending()).await
    };
    assert!(matches!(run([mine, other.clone()]).await, Err(Error::Settings(_))), "the inputs have two keys");
    assert_eq!(code(run([other.clone(), other]).await), "INVALID_CIPHERTEXT");
    assert_eq!(client.session(&session).await.expect("the session").gates_used, 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_gate_of_the_client_agrees_with_its_plain_self() {
    let server = TestServer::start().await;
    let (client, key) = (connect(&server).await, keys::of(Preset::Fast128));
    let session = open(&client, key).await;
    for gate in Gate::ALL {
        let bits = value::random(gate.arity());
        let operands = bundle::encrypt(&key.secret, &bits).iter().map(|bytes| to_base64(bytes)).collect::<Vec<_>>();
        let result = client.gate(&session, request(gate, operands)).await.expect("a result");
        let bit = key.decrypt(&from_base64(&result.result_b64).expect("base64"));
        assert_eq!(bit, gate.plain(&bits), "{} of {bits:?}", gate.name());
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_gates_than_a_batch_may_have_go_in_pieces() {
    let server = TestServer::start().await;
    let (client, key) = (connect(&server).await, keys::of(Preset::Fast128));
    let session = open(&client, key).await;
    let bit = to_base64(&key.encrypt(true));
    // NOT needs no bootstrap, so 1030 gates take little time
    let gates: Vec<_> = (0..1030).map(|_| request(Gate::Not, [bit.clone()])).collect();
    let result = client.batch(&session, &gates).await.expect("results");
    assert_eq!((result.results_b64.len(), result.total_cost_jpy), (1030, MilliYen(0)));
    assert!(!key.decrypt(&from_base64(&result.results_b64[1029]).expect("base64")));
    assert_eq!(client.session(&session).await.expect("the session").gates_used, 1030);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_reach_the_client_with_their_codes_and_cost_nothing() {
    let server = TestServer::start().await;
    let (client, key) = (connect(&server).await, keys::of(Preset::Fast128));
    let session = open(&client, key).await;
    let (mine, foreign) = (to_base64(&key.encrypt(true)), to_base64(&keys::somebody_elses().encrypt(true)));
    let gate = |a: &str, b: &str| request(Gate::And, [a.to_owned(), b.to_owned()]);

    assert_eq!(code(client.gate(&session, gate(&mine, &foreign)).await), "INVALID_CIPHERTEXT");
    assert_eq!(code(client.batch(&session, &[gate(&mine, &mine), gate(&mine, "YQ==")]).await), "INVALID_CIPHERTEXT");
    let stranger = connect(&server).await;
    assert_eq!(code(stranger.gate(&session, gate(&mine, &mine)).await), "SESSION_NOT_FOUND");
    let locked_out = Client::new(&format!("http://{}", server.address), "svc_live_").expect("a client");
    assert_eq!(code(locked_out.session(&session).await), "INVALID_API_KEY");
    assert_eq!(code(client.open_session(key.evaluation[..1000].to_vec()).await), "INVALID_PARAMS");
    assert_eq!(client.session(&session).await.expect("the session").gates_used, 0);

    client.close(&session).await.expect("closed");
    assert_eq!(code(client.gate(&session, gate(&mine, &mine)).await), "SESSION_NOT_FOUND");
    server.stop().await;
}
