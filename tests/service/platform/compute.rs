//! Operations on encrypted numbers (specification, Compute; readings C1-C17, P2, P24, K10, K14, K15).

use std::time::{Duration, Instant};

use client::ckks::{
    Ciphertext, Encryptor, Params, ParamsLiteral, PartKind, container, evaluation_key_parts, rotations,
};
use control::caller::{Plan, Role};
use serde_json::{Value, json};
use tests_service::PATIENCE;
use tests_service::TestServer;
use tests_service::http::Request;
use tests_service::s3::S3;

use crate::encryption_keys::objects;
use crate::numbers::{COMPUTE, Numbers, assert_near, testing};
use tests_service::gates::{OCTETS, OPERATIONS, bytes};

const A: [f64; 4] = [1.5, -2.0, 0.25, 3.0];
const B: [f64; 4] = [2.0, 0.5, -4.0, 1.0];

#[tokio::test]
async fn every_operation_computes_what_it_says_and_costs_what_the_list_says() {
    let server = TestServer::start().await;
    let numbers = Numbers::new(&server).await;
    let slots = numbers.secret.params().slots();
    let (a, b) = (numbers.encrypted(&A).await, numbers.encrypted(&B).await);
    let plain: Vec<f64> = (0..slots).map(|slot| slot as f64 / 8.0).collect();
    let stable = json!({"scale_stable": true});
    // this key's ciphertexts have 32 slots, enough for a matrix of 4 x 4 numbers
    let matrix: Vec<f64> = (0..16).map(|at| f64::from(at % 5) - 2.0).collect();
    let product: Vec<f64> = (0..4).map(|row| (0..4).map(|j| matrix[4 * row + j] * B[j]).sum()).collect();
    // a matrix of another dimension
    let rows: Vec<f64> = (0..64).map(|at| f64::from(at % 7) / 4.0 - 0.5).collect();
    let public_product: Vec<f64> = (0..8).map(|row| (0..4).map(|j| rows[8 * row + j] * B[j]).sum()).collect();
    let of_matrix = json!({"plain_operand": rows});
    let matrix = numbers.encrypted(&matrix).await;
    let of = |compute: fn(f64, f64) -> f64| A.iter().zip(&B).map(|(a, b)| compute(*a, *b)).collect::<Vec<f64>>();
    let with_plain = json!({"plain_operand": plain});
    let stable_plain = json!({"plain_operand": plain, "scale_stable": true});
    let polynomial = json!({"polynomial_coeffs": [0.5, -1.0, 0.25]});
    for (operation, ids, more, expected, level, units, jpy) in [
        ("add", vec![&a, &b], json!({}), of(|a, b| a + b), 3, 1, "0.0003"),
        ("multiply", vec![&a, &b], stable.clone(), of(|a, b| a * b), 2, 5, "0.0015"),
        ("multiply", vec![&a, &a], stable, of(|a, _| a * a), 2, 5, "0.0015"),
        ("multiply", vec![&a, &b], json!({}), of(|a, b| a * b), 3, 5, "0.0015"),
        ("add-plain", vec![&a], with_plain.clone(), (0..4).map(|i| A[i] + plain[i]).collect(), 3, 1, "0.0003"),
        ("multiply-plain", vec![&a], stable_plain, (0..4).map(|i| A[i] * plain[i]).collect(), 2, 2, "0.0006"),
        // C6
        ("multiply_plain", vec![&a], with_plain, (0..4).map(|i| A[i] * plain[i]).collect(), 3, 2, "0.0006"),
        ("negate", vec![&a], json!({}), of(|a, _| -a), 3, 1, "0.0003"),
        ("rescale", vec![&a], json!({}), A.to_vec(), 2, 1, "0.0003"),
        ("rotate", vec![&a], json!({"rotation_steps": 1}), vec![-2.0, 0.25, 3.0, 0.0], 3, 5, "0.0015"),
        // C10
        ("matmul", vec![&matrix, &b], json!({}), product, 1, 20, "0.006"),
        ("matmul-plain", vec![&b], of_matrix, public_product, 2, 20, "0.006"),
        ("poly-eval", vec![&a], polynomial, of(|a, _| 0.5 - a + 0.25 * a * a), 1, 10, "0.003"),
    ] {
        let answer = numbers.compute(operation, &ids, more).await;
        let told = answer.ok(200);
        assert_near(&numbers.decrypted(&told["result_ciphertext_id"]).await, &expected);
        assert_near(&numbers.opened(&bytes(&told["result_ciphertext"])), &expected);
        // C1, C2
        assert_eq!((&told["status"], &told["op_id"]), (&json!("COMPLETED"), &told["job_id"]));
        assert_eq!(told["operation"], operation.replace('_', "-"));
        // F5: a product that is not rescaled owes a level
        let owed = i32::from(operation.starts_with("multiply") && level == 3);
        assert_eq!((&told["levels_remaining"], &told["cost_units"]), (&json!(level - owed), &json!(units)));
        // P2
        assert_eq!(told["cost_jpy"].to_string(), jpy);
        assert_eq!((&told["bootstrap_applied"], &told["bootstrap_effective_degree"]), (&json!(false), &json!(null)));
        assert!(told["compute_time_ms"].as_f64().unwrap() > 0.0);
        assert_eq!(told["evicted_ciphertext_ids"], json!([]));
        // C11
        let left = told["noise_budget_remaining"].as_f64().unwrap();
        assert!(left <= 100.0 * f64::from(level - owed) / 3.0 + 0.1 && left > 20.0, "{operation}: {left}");
        assert_eq!(answer.header("x-noise-budget-remaining").unwrap().parse::<f64>().unwrap(), left);
        assert_eq!(answer.header("x-noise-budget-warning"), Some(if left < 50.0 { "true" } else { "false" }));
        assert_eq!(answer.header("x-noise-budget-recovery").is_some(), left < 50.0);
        let record = numbers
            .send(Request::get(format!("/api/v1/ciphertexts/{}", told["result_ciphertext_id"].as_str().unwrap())));
        let record = record.await.ok(200);
        assert_eq!((&record["origin"], &record["level"]), (&told["operation"], &json!(level)));
    }
    assert_eq!(numbers.record().await["operation_count"], 13);
    let metrics = server.operations_get("/metrics").await;
    assert!(metrics.text().contains("ango_fcu_total{operation=\"multiply\"} 15"), "{}", metrics.text());
    // an operand of an earlier operation is on the device already
    let [found, written] =
        ["true", "false"].map(|found| format!("ango_ciphertexts_on_device_total{{found=\"{found}\"}}"));
    let [found, written] = [server.metric(&found).await, server.metric(&written).await];
    assert!(found > 0.0 && written >= 3.0, "{found} of {} operands were there", found + written);
}

#[tokio::test]
async fn f2_a10_an_upload_s_record_tells_its_precision_and_a_scale_that_is_not_its_level_s() {
    let server = TestServer::start().await;
    let numbers = Numbers::new(&server).await;
    let params = numbers.secret.params();
    let query = "security_level=testing&depth=3&scale_bits=40";
    let suggested = server.send(Request::get(format!("/api/v1/params/suggest?{query}"))).await.ok(200);
    let put = async |bytes: Vec<u8>| {
        let path = format!("/api/v1/ciphertexts?key_id={}", numbers.key_id);
        numbers.send(Request::new("POST", path).body(OCTETS, bytes)).await.ok(201)
    };
    let whole = |ciphertext: &Ciphertext| container::write_ciphertext(ciphertext, params, numbers.secret.fingerprint());
    let values = vec![0.5; params.slots()];
    let seeded = numbers.secret.encrypt(&values, 1.0).unwrap();
    let told = put(container::write_seeded_ciphertext(&seeded, params, numbers.secret.fingerprint())).await;
    assert_eq!(told["precision_bits"], suggested["arithmetic"][0]["seeded_precision_bits"]);
    assert!(told.get("warnings").is_none(), "{told}");
    let public = Encryptor::new(numbers.secret.public_key(params.level_max())).encrypt(&values, 1.0).unwrap();
    let told = put(whole(&public)).await;
    assert_eq!(told["precision_bits"], suggested["arithmetic"][0]["precision_bits"]);
    let record = numbers.send(Request::get(format!("/api/v1/ciphertexts/{}", told["ciphertext_id"].as_str().unwrap())));
    assert_eq!(record.await.ok(200)["precision_bits"], told["precision_bits"]);
    // 2^scale_bits is the scale of level 0 only; a product that was not rescaled has two factors of scale
    let at = |level: usize, scale: f64| {
        let words = vec![0; 2 * params.level(level).primes.len() * params.n()];
        whole(&Ciphertext { level, scale, words, ..public.clone() })
    };
    assert!(put(at(0, 40f64.exp2())).await.get("warnings").is_none());
    for (level, scale, word) in
        [(3, 40f64.exp2(), "every product"), (1, 2.5, "every product"), (3, params.level(3).scale.powi(2), "takes 1")]
    {
        let told = put(at(level, scale)).await;
        let warning = told["warnings"][0].as_str().unwrap_or_else(|| panic!("no warning of {scale}: {told}"));
        assert!(warning.contains(word) && warning.contains(&format!("level {level}")), "{warning}");
    }
}

#[tokio::test]
async fn the_body_may_name_the_operation_and_the_answer_may_be_octets_or_without_the_result() {
    let server = TestServer::start().await;
    let numbers = Numbers::new(&server).await;
    let (a, b) = (numbers.encrypted(&A).await, numbers.encrypted(&B).await);
    let sum: Vec<f64> = A.iter().zip(&B).map(|(a, b)| a + b).collect();
    let body = numbers.body(&[&a, &b], json!({"operation": "add"}));
    let told = numbers.send(Request::post(COMPUTE, &body)).await.ok(200);
    assert_near(&numbers.opened(&bytes(&told["result_ciphertext"])), &sum);

    let answer = numbers.send(Request::post(COMPUTE, &body).header("Accept", OCTETS)).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some(OCTETS)));
    let (length, rest) = answer.body.split_at(4);
    let (head, container) = rest.split_at(u32::from_le_bytes(length.try_into().unwrap()) as usize);
    let head: Value = serde_json::from_slice(head).unwrap();
    assert_eq!((&head["status"], &head["result_ciphertext"]), (&json!("COMPLETED"), &json!(null)));
    assert_near(&numbers.opened(container), &sum);

    let quiet =
        numbers.compute("add", &[&a, &b], json!({"return_ciphertext": false, "operation": "add"})).await.ok(200);
    assert_eq!(quiet["result_ciphertext"], json!(null));
    assert_near(&numbers.decrypted(&quiet["result_ciphertext_id"]).await, &sum);
}

#[tokio::test]
async fn c5_c7_c8_c9_bad_requests_are_refused_with_their_codes_and_cost_nothing() {
    let server = TestServer::start().await;
    let numbers = Numbers::new(&server).await;
    let a = numbers.encrypted(&A).await;
    let slots = numbers.secret.params().slots();
    let plain = |count: usize, number: f64| json!({"plain_operand": vec![number; count]});
    for (operation, ids, more, status, code) in [
        ("add", vec![&a], json!({}), 400, "INVALID_REQUEST"),
        ("add", vec![&a; 3], json!({}), 400, "INVALID_REQUEST"),
        ("negate", vec![], json!({}), 400, "INVALID_REQUEST"),
        ("negate", vec![&a; 2], json!({}), 400, "INVALID_REQUEST"),
        ("negate", vec![&a], json!({"operation": "add"}), 400, "INVALID_REQUEST"),
        ("subtract", vec![&a], json!({}), 400, "INVALID_OPERATION"),
        ("key_switch", vec![&a], json!({}), 400, "INVALID_OPERATION"),
        ("multiply-plain", vec![&a], json!({"plain_operand": null}), 400, "MISSING_PLAIN_OPERAND"),
        ("add-plain", vec![&a], plain(slots - 1, 1.0), 400, "INVALID_PARAMS"),
        ("add-plain", vec![&a], plain(slots + 1, 1.0), 400, "INVALID_PARAMS"),
        ("multiply-plain", vec![&a], plain(0, 1.0), 400, "INVALID_PARAMS"),
        ("add-plain", vec![&a], plain(slots, 1e300), 400, "INVALID_PARAMS"),
        ("add-plain", vec![&a], json!({"plain_operand": "1"}), 422, "VALIDATION_ERROR"),
        ("matmul-plain", vec![&a], json!({}), 400, "MISSING_PLAIN_OPERAND"),
        ("matmul-plain", vec![&a, &a], plain(16, 1.0), 400, "INVALID_REQUEST"),
        // no square, a square of no power of two, nothing, one number, and more rows than slots
        ("matmul-plain", vec![&a], plain(8, 1.0), 400, "INVALID_PARAMS"),
        ("matmul-plain", vec![&a], plain(9, 1.0), 400, "INVALID_PARAMS"),
        ("matmul-plain", vec![&a], plain(0, 1.0), 400, "INVALID_PARAMS"),
        ("matmul-plain", vec![&a], plain(1, 1.0), 400, "INVALID_PARAMS"),
        ("matmul-plain", vec![&a], plain(4096, 1.0), 400, "INVALID_PARAMS"),
        ("matmul-plain", vec![&a], plain(16, 1e9), 400, "INVALID_PARAMS"),
        ("rotate", vec![&a], json!({}), 400, "INVALID_PARAMS"),
        ("rotate", vec![&a], json!({"plain_operand": [0.5]}), 400, "INVALID_PARAMS"),
        ("rotate", vec![&a], json!({"plain_operand": []}), 400, "INVALID_PARAMS"),
        ("rotate", vec![&a], json!({"rotation_steps": 0.5}), 422, "VALIDATION_ERROR"),
        ("poly-eval", vec![&a], json!({}), 400, "INVALID_PARAMS"),
        ("poly-eval", vec![&a], json!({"polynomial_coeffs": []}), 400, "INVALID_PARAMS"),
        ("poly-eval", vec![&a], json!({"polynomial_coeffs": [1e300]}), 400, "INVALID_PARAMS"),
        // C14
        ("bootstrap", vec![&a], json!({}), 400, "INVALID_PARAMS"),
        ("negate", vec![&json!("ct_none")], json!({}), 404, "CIPHERTEXT_NOT_FOUND"),
        ("negate", vec![&json!(5)], json!({}), 422, "VALIDATION_ERROR"),
    ] {
        let answer = numbers.compute(operation, &ids, more.clone()).await;
        assert_eq!(answer.status, status, "{operation} {more}: {}", answer.text());
        answer.error(status, code);
    }
    numbers.compute("add-plain", &[&a], json!({})).await.error(400, "MISSING_PLAIN_OPERAND");
    let too_many = json!({"polynomial_coeffs": vec![0.1; 66]});
    numbers.compute("poly-eval", &[&a], too_many).await.error(400, "POLYNOMIAL_TOO_LARGE");
    numbers.send(Request::post(COMPUTE, &numbers.body(&[&a], json!({})))).await.error(400, "INVALID_OPERATION");
    let named = numbers.body(&[&a], json!({"operation": "divide"}));
    numbers.send(Request::post(COMPUTE, &named)).await.error(400, "INVALID_OPERATION");
    assert_eq!(numbers.record().await["operation_count"], 0);
    assert_eq!(objects(&server, "ciphertexts"), 1);
}

#[tokio::test]
async fn c8_k10_rotations_turn_left_by_any_number_of_steps_that_the_key_can_make_up() {
    let server = TestServer::start().await;
    let numbers = Numbers::new(&server).await;
    let slots = numbers.secret.params().slots() as i64;
    let values: Vec<f64> = (0..slots).map(|slot| slot as f64 / 4.0).collect();
    let a = numbers.encrypted(&values).await;
    let turned =
        |steps: i64| -> Vec<f64> { (0..slots).map(|slot| values[(slot + steps).rem_euclid(slots) as usize]).collect() };
    for (more, steps) in [
        (json!({"rotation_steps": 0}), 0),
        (json!({"rotation_steps": 5}), 5),
        (json!({"rotation_steps": -3}), -3),
        (json!({"rotation_steps": 3.0}), 3),
        (json!({"rotation_steps": (1i64 << 31) + 1}), 1),
        (json!({"plain_operand": [2.0]}), 2),
        (json!({"plain_operand": [2.0], "rotation_steps": 2}), 2),
    ] {
        let told = numbers.compute("rotate", &[&a], more.clone()).await.ok(200);
        let found = numbers.decrypted(&told["result_ciphertext_id"]).await;
        assert_near(&found, &turned(steps));
    }
    let differ = json!({"plain_operand": [2.0], "rotation_steps": 7});
    let refused = numbers.compute("rotate", &[&a], differ).await.error(400, "INVALID_PARAMS");
    assert!(refused["message"].as_str().unwrap().contains("give one of them"), "{refused}");
    let params = testing(64, 3);
    let few = rotations(&params, &[4], 3);
    let other = Numbers::with_parts(&server, server.key(Role::Developer).await, &params, &few).await;
    let b = other.encrypted(&values).await;
    other.compute("rotate", &[&b], json!({"rotation_steps": 8})).await.ok(200);
    let refused = other.compute("rotate", &[&b], json!({"rotation_steps": 6})).await.error(400, "INVALID_PARAMS");
    assert!(refused["message"].as_str().unwrap().contains("by 6 slots"), "{refused}");
    let refused = other.compute("multiply", &[&b, &b], json!({})).await.error(400, "INVALID_PARAMS");
    assert!(refused["message"].as_str().unwrap().contains("relinearization key"), "{refused}");
}

#[tokio::test]
async fn c12_c13_what_does_not_fit_or_would_not_decrypt_is_refused_before_any_work() {
    let server = TestServer::start().await;
    let numbers = Numbers::new(&server).await;
    let small = [1.25, -0.5, 0.75, 1.0];
    let a = numbers.encrypted_within(&small, 1.25).await;
    let low = numbers.compute("rescale", &[&a], json!({})).await.ok(200)["result_ciphertext_id"].clone();
    for operation in ["add", "multiply", "matmul"] {
        numbers.compute(operation, &[&a, &low], json!({})).await.error(400, "MISMATCHED_LEVEL");
    }
    let product = numbers.compute("multiply", &[&a, &a], json!({})).await.ok(200)["result_ciphertext_id"].clone();
    let refused = numbers.compute("add", &[&a, &product], json!({})).await.error(400, "MISMATCHED_LEVEL");
    assert!(refused["message"].as_str().unwrap().contains("scale"), "{refused}");
    let mut at = a.clone();
    for _ in 0..3 {
        at = numbers.compute("multiply", &[&at, &at], json!({"scale_stable": true})).await.ok(200)
            ["result_ciphertext_id"]
            .clone();
    }
    assert_near(&numbers.decrypted(&at).await, &small.map(|number: f64| number.powi(8)));
    let done = numbers.record().await["operation_count"].clone();
    for (operation, more) in [
        ("multiply", json!({"scale_stable": true})),
        ("rescale", json!({})),
        ("multiply-plain", json!({"plain_operand": vec![1.0; 32], "scale_stable": true})),
        ("poly-eval", json!({"polynomial_coeffs": [0.0, 1.0, 1.0]})),
    ] {
        let ids = if operation == "multiply" { vec![&at; 2] } else { vec![&at] };
        numbers.compute(operation, &ids, more).await.error(400, "NOISE_BUDGET_EXHAUSTED");
    }
    // three levels suffice for degree 7 and not for degree 8 (C9)
    let degree = |degree: usize| json!({"polynomial_coeffs": vec![0.01; degree + 1]});
    numbers.compute("poly-eval", &[&a], degree(8)).await.error(400, "NOISE_BUDGET_EXHAUSTED");
    assert_eq!(numbers.record().await["operation_count"], done);
    numbers.compute("poly-eval", &[&a], degree(7)).await.ok(200);
}

#[tokio::test]
async fn a5_x14_keys_and_ciphertexts_are_their_account_s_and_roles_decide() {
    let server = TestServer::start().await;
    let (admin, account) = server.create_key(Role::AccountAdmin, None).await;
    let (viewer, _) = server.create_key(Role::Viewer, Some(account)).await;
    let numbers = Numbers::of(&server, admin, &testing(64, 3)).await;
    let a = numbers.encrypted(&A).await;
    let stranger = Numbers::new(&server).await;
    server.send(numbers.request("negate", &[&a], json!({})).key(&viewer)).await.error(403, "INSUFFICIENT_ROLE");
    server.send(numbers.request("negate", &[&a], json!({})).key(&stranger.key)).await.error(404, "KEY_NOT_FOUND");
    stranger.compute("negate", &[&a], json!({})).await.error(404, "CIPHERTEXT_NOT_FOUND");
    // a ciphertext of another key of the same account
    let second = Numbers::of(&server, numbers.key.clone(), &testing(64, 3)).await;
    let b = second.encrypted(&B).await;
    numbers.compute("negate", &[&b], json!({})).await.error(400, "MISMATCHED_KEY");
    numbers.compute("add", &[&a, &b], json!({})).await.error(400, "MISMATCHED_KEY");

    let told = numbers.compute("negate", &[&a], json!({})).await.ok(200);
    let operation = format!("{COMPUTE}/{}", told["op_id"].as_str().unwrap());
    numbers.send(Request::get(&operation)).await.ok(200);
    for request in [Request::get(&operation), Request::delete(&operation)] {
        stranger.send(request).await.error(404, "OPERATION_NOT_FOUND");
    }
    server.send(Request::get(&operation).key(&viewer)).await.error(403, "INSUFFICIENT_ROLE");
    server.send(Request::post(format!("{COMPUTE}/negate"), &json!({}))).await.error(401, "MISSING_AUTH_HEADER");
}

/// Polls an operation until it has ended. Returns the last answer.
pub async fn ended(numbers: &Numbers<'_>, op_id: &Value) -> Value {
    let started = Instant::now();
    loop {
        let told = numbers.send(Request::get(format!("{COMPUTE}/{}", op_id.as_str().unwrap()))).await.ok(200);
        if !["pending", "running"].contains(&told["status"].as_str().unwrap()) {
            return told;
        }
        assert!(started.elapsed() < PATIENCE, "{told}");
    }
}

#[tokio::test]
async fn c3_c4_an_operation_in_the_background_is_polled_and_its_result_is_read_as_a_ciphertext() {
    let server = TestServer::start().await;
    let numbers = Numbers::new(&server).await;
    let a = numbers.encrypted(&A).await;
    let request = numbers.request("multiply", &[&a, &a], json!({"scale_stable": true}));
    let answer = numbers.send(request.header("Prefer", "respond-async")).await;
    assert_eq!(answer.header("preference-applied"), Some("respond-async"));
    assert!(answer.header("x-noise-budget-remaining").is_some());
    let pending = answer.ok(200);
    assert_eq!((&pending["status"], &pending["cost_units"]), (&json!("pending"), &json!(5)));
    for member in ["result_ciphertext_id", "result_ciphertext", "compute_time_ms"] {
        assert_eq!(pending[member], json!(null), "{member}");
    }
    let told = ended(&numbers, &pending["op_id"]).await;
    assert_eq!((&told["status"], &told["cost_units"], &told["error"]), (&json!("completed"), &json!(5), &json!(null)));
    assert!(told.get("result_ciphertext").is_none(), "{told}");
    assert_near(&numbers.decrypted(&told["result_ciphertext_id"]).await, &A.map(|number| number * number));
    let operation = format!("{COMPUTE}/{}", pending["op_id"].as_str().unwrap());
    let cancelled = numbers.send(Request::delete(&operation)).await.ok(200);
    assert_eq!(cancelled, json!({"op_id": pending["op_id"], "cancelled": false}));
    // X14: an operation of another kind than asked for is unknown
    let as_circuit = format!("{OPERATIONS}/{}", pending["op_id"].as_str().unwrap());
    numbers.send(Request::get(&as_circuit)).await.error(404, "OPERATION_NOT_FOUND");
    numbers.send(Request::delete(&as_circuit)).await.error(404, "OPERATION_NOT_FOUND");
    // C3: the record lasts a day
    server.clock.advance(Duration::from_secs(24 * 3600 - 60));
    numbers.send(Request::get(&operation)).await.ok(200);
    server.clock.advance(Duration::from_secs(61));
    for id in [operation.as_str(), &format!("{COMPUTE}/op_none"), &format!("{COMPUTE}/multiply")] {
        numbers.send(Request::get(id)).await.error(404, "OPERATION_NOT_FOUND");
        numbers.send(Request::delete(id)).await.error(404, "OPERATION_NOT_FOUND");
    }
}

#[tokio::test]
async fn p24_a_cancelled_operation_is_not_charged_and_leaves_nothing() {
    let server = TestServer::start().await;
    let params = testing(4096, 7);
    let parts = [(PartKind::Relinearization, 7)];
    let numbers = Numbers::with_parts(&server, server.key(Role::Developer).await, &params, &parts).await;
    let a = numbers.encrypted_within(&[0.5], 1.0).await;
    let more = json!({"polynomial_coeffs": vec![0.1; 65], "return_ciphertext": false});
    let mut operations = Vec::new();
    // the operations run one after another, so the last of the sixteen is still waiting when it is cancelled
    for _ in 0..16 {
        let request = numbers.request("poly-eval", &[&a], more.clone()).header("Prefer", "respond-async");
        operations.push(numbers.send(request).await.ok(200)["op_id"].clone());
    }
    let last = operations.pop().unwrap();
    let cancelled = numbers.send(Request::delete(format!("{COMPUTE}/{}", last.as_str().unwrap()))).await.ok(200);
    assert_eq!(cancelled["cancelled"], true);
    let told = ended(&numbers, &last).await;
    assert_eq!((&told["status"], &told["cost_units"]), (&json!("cancelled"), &json!(0)));
    assert!(told.get("result_ciphertext_id").is_none());
    for operation in &operations {
        assert_eq!(ended(&numbers, operation).await["status"], "completed");
    }
    assert_eq!(numbers.record().await["operation_count"], operations.len());
    assert_eq!(objects(&server, "ciphertexts"), 1 + operations.len());
}

#[tokio::test]
async fn c11_a_promised_bound_of_the_result_leaves_more_of_the_budget() {
    let server = TestServer::start().await;
    let numbers = Numbers::new(&server).await;
    let a = numbers.encrypted_within(&A, 1e6).await;
    let square = async |more: Value| numbers.compute("multiply", &[&a, &a], more).await;
    let careful = square(json!({"scale_stable": true})).await.ok(200);
    let promised = square(json!({"scale_stable": true, "result_bound": 9.0})).await.ok(200);
    // squared again, the careful result gets the bound 10^24, too large for the next level, and the promised result
    // gets 81, which is small enough
    let again = async |told: &Value| {
        let id = &told["result_ciphertext_id"];
        numbers.compute("multiply", &[id, id], json!({"scale_stable": true})).await
    };
    again(&careful).await.error(400, "NOISE_BUDGET_EXHAUSTED");
    let told = again(&promised).await.ok(200);
    let found = numbers.decrypted(&told["result_ciphertext_id"]).await;
    assert!(found.iter().zip(A).all(|(found, a)| (found - a.powi(4)).abs() < 1e-3), "{:?}", &found[..4]);
    for bound in [json!(0), json!(-1.0), json!(1e-310)] {
        square(json!({"result_bound": bound})).await.error(400, "INVALID_PARAMS");
    }
    square(json!({"result_bound": "9"})).await.error(422, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_promised_error_of_the_result_replaces_the_computed_one_and_is_never_larger() {
    let server = TestServer::start().await;
    let numbers = Numbers::new(&server).await;
    let a = numbers.encrypted_within(&A, 4.0).await;
    let precision = async |more: Value| {
        let told = numbers.compute("negate", &[&a], more).await.ok(200);
        let of_next = numbers.compute("negate", &[&told["result_ciphertext_id"]], json!({})).await.ok(200);
        assert_eq!(told["precision_bits"], of_next["precision_bits"], "the result keeps the promise");
        told["precision_bits"].as_f64().unwrap()
    };
    let computed = precision(json!({})).await;
    let promised = precision(json!({"result_error_bound": (-computed - 2.0).exp2()})).await;
    assert!((promised - computed - 2.0).abs() < 0.01, "{promised} {computed}");
    assert_eq!(precision(json!({"result_error_bound": 1.0})).await, computed);
    for bound in [json!(0), json!(-1.0), json!(1e-310)] {
        numbers.compute("negate", &[&a], json!({"result_error_bound": bound})).await.error(400, "INVALID_PARAMS");
    }
}

#[tokio::test]
async fn c14_a_bootstrap_gives_all_levels_back_with_the_precision_it_says() {
    let server = TestServer::start().await;
    let literal = ParamsLiteral { bootstrap: true, ..testing(64, 3).literal() };
    let params = Params::new(literal).unwrap();
    let key = server.key(Role::Developer).await;
    let numbers = Numbers::with_parts(&server, key, &params, &evaluation_key_parts(&params)).await;
    let values: Vec<f64> = (0..params.slots()).map(|slot| (slot as f64 / 16.0).sin()).collect();
    let mut at = numbers.encrypted_within(&values, 1.0).await;
    for _ in 0..3 {
        at = numbers.compute("rescale", &[&at], json!({})).await.ok(200)["result_ciphertext_id"].clone();
    }
    numbers.compute("multiply", &[&at, &at], json!({"scale_stable": true})).await.error(400, "NOISE_BUDGET_EXHAUSTED");
    let answer = numbers.compute("bootstrap", &[&at], json!({})).await;
    let told = answer.ok(200);
    assert_eq!((&told["bootstrap_applied"], &told["bootstrap_degraded"]), (&json!(true), &json!(false)));
    assert_eq!((&told["bootstrap_effective_degree"], &told["levels_remaining"]), (&json!(3), &json!(3)));
    assert_eq!((&told["cost_units"], told["cost_jpy"].to_string().as_str()), (&json!(50), "0.015"));
    let precision = told["precision_bits"].as_f64().unwrap();
    assert!(precision > 15.0, "{told}");
    let within = |found: &[f64], expected: &dyn Fn(f64) -> f64, bits: f64| {
        let error =
            found.iter().zip(&values).map(|(found, value)| (found - expected(*value)).abs()).fold(0.0, f64::max);
        assert!(error < (-bits).exp2(), "{error} is more than 2^-{bits}");
    };
    within(&numbers.decrypted(&told["result_ciphertext_id"]).await, &|value| value, precision);
    let refreshed = &told["result_ciphertext_id"];
    let squared = numbers.compute("multiply", &[refreshed, refreshed], json!({"scale_stable": true})).await.ok(200);
    within(&numbers.decrypted(&squared["result_ciphertext_id"]).await, &|value| value * value, precision - 2.0);
}

#[tokio::test]
async fn i3_an_operation_that_is_asked_for_again_is_charged_once() {
    let server = TestServer::start().await;
    let numbers = Numbers::new(&server).await;
    let a = numbers.encrypted(&A).await;
    let send = async || numbers.send(numbers.request("negate", &[&a], json!({})).header("Idempotency-Key", "k")).await;
    let (first, second) = (send().await, send().await);
    assert_eq!((second.header("idempotent-replayed"), first.ok(200)), (Some("true"), second.ok(200)));
    assert_eq!(second.header("x-noise-budget-remaining"), first.header("x-noise-budget-remaining"));
    assert_eq!(numbers.record().await["operation_count"], 1);
    assert_eq!(objects(&server, "ciphertexts"), 2);
}

#[tokio::test]
async fn a14_a_trial_has_ten_operations_and_those_that_are_refused_do_not_count() {
    let server = TestServer::start().await;
    let numbers = Numbers::of(&server, server.key(Role::Trial).await, &testing(64, 3)).await;
    let a = numbers.encrypted(&A).await;
    for _ in 0..3 {
        numbers.compute("negate", &[&a, &a], json!({})).await.error(400, "INVALID_REQUEST");
        numbers.compute("bootstrap", &[&a], json!({})).await.error(400, "INVALID_PARAMS");
    }
    for _ in 0..10 {
        numbers.compute("negate", &[&a], json!({"return_ciphertext": false})).await.ok(200);
    }
    numbers.compute("negate", &[&a], json!({})).await.error(402, "TRIAL_OPS_EXHAUSTED");
}

#[tokio::test]
async fn k14_a_result_makes_room_among_what_is_not_being_computed_with() {
    // a ciphertext of degree 4096 at level 1 takes about 70 KB, so a cache of 1 MB does not hold all results
    let server = TestServer::with(|config| config.plan_limits.of_mut(Plan::Enterprise).ciphertext_cache_mb = 1).await;
    let params = testing(4096, 1);
    let parts = [(PartKind::Relinearization, 1)];
    let numbers = Numbers::with_parts(&server, server.key(Role::Developer).await, &params, &parts).await;
    let used = numbers.encrypted(&A).await;
    let unused = numbers.encrypted(&B).await;
    let mut evicted = Vec::new();
    for _ in 0..30 {
        let told = numbers.compute("negate", &[&used], json!({"return_ciphertext": false})).await.ok(200);
        evicted.extend(told["evicted_ciphertext_ids"].as_array().unwrap().clone());
    }
    assert_eq!(evicted.first(), Some(&unused), "the least recently used ciphertext goes first");
    assert!(!evicted.contains(&used));
    numbers.compute("negate", &[&unused], json!({})).await.error(404, "CIPHERTEXT_NOT_FOUND");
    assert_near(&numbers.decrypted(&used).await, &A);
}

#[tokio::test]
async fn k14_a_result_that_has_no_room_is_refused_and_costs_nothing() {
    let server = TestServer::with(|config| config.vault.ciphertext_bytes_max = 3000).await;
    let numbers = Numbers::new(&server).await;
    let a = numbers.encrypted(&A).await;
    numbers.compute("negate", &[&a], json!({})).await.error(503, "SERVICE_UNAVAILABLE");
    assert_eq!(numbers.record().await["operation_count"], 0);
}

#[tokio::test]
async fn k15_a_deleted_key_computes_nothing_more() {
    let server = TestServer::start().await;
    let numbers = Numbers::new(&server).await;
    let a = numbers.encrypted(&A).await;
    numbers.compute("negate", &[&a], json!({})).await.ok(200);
    numbers.send(Request::delete(format!("/api/v1/keys/{}", numbers.key_id))).await.ok(200);
    numbers.compute("negate", &[&a], json!({})).await.error(404, "KEY_NOT_FOUND");
    assert_eq!((objects(&server, "ciphertexts"), objects(&server, "encryption-keys")), (0, 0));
    // the key is also removed from the engine
    server.metric_becomes("ango_sessions", |sessions| sessions == 0.0).await;
}

#[tokio::test]
async fn f9_work_whose_key_is_deleted_meanwhile_ends_as_key_not_found() {
    let server = TestServer::start().await;
    let params = testing(4096, 7);
    let mut parts = vec![(PartKind::Relinearization, 7)];
    parts.extend(rotations(&params, &[1, 2], 7));
    let numbers = Numbers::with_parts(&server, server.key(Role::Developer).await, &params, &parts).await;
    let a = numbers.encrypted_within(&[0.5], 1.0).await;
    let begin = async |operation: &str, more: Value| {
        let request = numbers.request(operation, &[&a], more).header("Prefer", "respond-async");
        numbers.send(request).await.ok(200)["op_id"].clone()
    };
    // the rotations wait for the polynomials, and no device has read their key parts
    let mut operations = Vec::new();
    for _ in 0..6 {
        operations.push(begin("poly-eval", json!({"polynomial_coeffs": vec![0.1; 65]})).await);
    }
    operations.push(begin("rotate", json!({"rotation_steps": 1})).await);
    let waits = async { numbers.compute("rotate", &[&a], json!({"rotation_steps": 2})).await };
    let delete = async { numbers.send(Request::delete(format!("/api/v1/keys/{}", numbers.key_id))).await };
    let (waited, deleted) = tokio::join!(waits, delete);
    deleted.ok(200);
    waited.error(404, "KEY_NOT_FOUND");
    let mut failed = 0;
    for operation in &operations {
        let told = ended(&numbers, operation).await;
        if told["status"] == "failed" {
            failed += 1;
            assert_eq!((&told["error"]["code"], &told["cost_units"]), (&json!("KEY_NOT_FOUND"), &json!(0)), "{told}");
        }
    }
    assert!(failed > 0, "the rotation waited for the polynomials");
}

#[tokio::test]
async fn f6_a_trial_gets_its_result_in_the_answer_whatever_it_prefers() {
    let server = TestServer::start().await;
    let numbers = Numbers::of(&server, server.key(Role::Trial).await, &testing(64, 3)).await;
    let a = numbers.encrypted(&A).await;
    let request = numbers.request("negate", &[&a], json!({})).header("Prefer", "respond-async");
    let answer = numbers.send(request).await;
    assert_eq!(answer.header("preference-applied"), None);
    let told = answer.ok(200);
    assert_eq!(told["status"], "COMPLETED");
    assert_near(&numbers.opened(&bytes(&told["result_ciphertext"])), &A.map(|number| -number));
}

#[tokio::test]
async fn keys_and_ciphertexts_are_computed_with_after_a_restart() {
    let server = TestServer::start().await;
    let mut numbers = Numbers::new(&server).await;
    let a = numbers.encrypted(&A).await;
    let (key, key_id, secret) = (numbers.key.clone(), numbers.key_id.clone(), numbers.secret.clone());
    numbers.key.clear();
    let folder = server.stop().await;
    let server = TestServer::in_folder(folder, |_| ()).await;
    let numbers = Numbers { server: &server, key, key_id, secret };
    let told = numbers.compute("rotate", &[&a], json!({"rotation_steps": 1})).await.ok(200);
    assert_near(&numbers.decrypted(&told["result_ciphertext_id"]).await, &A[1..]);
}

#[tokio::test]
async fn another_node_of_the_database_computes_with_a_bucket_and_says_where_to_ask_without() {
    let Some((one, other)) = TestServer::pair(|_| ()).await else { return };
    let numbers = Numbers::new(&one).await;
    let a = numbers.encrypted(&A).await;
    let request = numbers.request("negate", &[&a], json!({})).key(&numbers.key);
    let refused = other.send(request.clone()).await;
    assert!(refused.header("retry-after").is_some());
    refused.error(503, "SERVICE_UNAVAILABLE");
    // every node can read the record of an operation
    let told = numbers.compute("negate", &[&a], json!({})).await.ok(200);
    let path = format!("{COMPUTE}/{}", told["op_id"].as_str().unwrap());
    assert_eq!(other.send(Request::get(path).key(&numbers.key)).await.ok(200)["status"], "completed");

    let Some(bucket) = S3::start() else { return };
    let Some((one, other)) = TestServer::pair(|config| config.bucket = Some(bucket.config())).await else { return };
    let numbers = Numbers::new(&one).await;
    let a = numbers.encrypted(&A).await;
    let request = numbers.request("negate", &[&a], json!({})).key(&numbers.key);
    let told = other.send(request.clone()).await.ok(200);
    assert_near(&numbers.decrypted(&told["result_ciphertext_id"]).await, &A.map(|number| -number));
    // K15: if an encryption key is deleted through one node, the other node also closes its own session of the key
    other.metric_becomes("ango_sessions", |sessions| sessions == 1.0).await;
    numbers.send(Request::delete(format!("/api/v1/keys/{}", numbers.key_id))).await.ok(200);
    other.send(request).await.error(404, "KEY_NOT_FOUND");
    other.metric_becomes("ango_sessions", |sessions| sessions == 0.0).await;
}
