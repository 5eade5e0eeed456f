//! Plans of operations on encrypted numbers: what an operation would give and cost, before it is paid for.

use client::ckks::{Params, ParamsLiteral, PartKind, evaluation_key_parts, rotations};
use control::caller::Role;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::{Request, Response};

use crate::encryption_keys::objects;
use crate::numbers::{COMPUTE, Numbers, testing};

/// Sends a plan with the body of an operation.
async fn planned(numbers: &Numbers<'_>, operation: &str, ids: &[&Value], more: Value) -> Response {
    numbers.send(Request::post(format!("{COMPUTE}/plan"), &named(numbers, operation, ids, more))).await
}

fn named(numbers: &Numbers<'_>, operation: &str, ids: &[&Value], mut more: Value) -> Value {
    more.as_object_mut().unwrap().insert("operation".into(), json!(operation));
    numbers.body(ids, more)
}

async fn show(numbers: &Numbers<'_>, id: &Value) -> Value {
    numbers.send(Request::get(format!("/api/v1/ciphertexts/{}", id.as_str().unwrap()))).await.ok(200)
}

#[tokio::test]
async fn a_plan_tells_what_the_operation_then_gives_and_takes() {
    let server = TestServer::start().await;
    let bootstrap = ParamsLiteral { bootstrap: true, ..testing(64, 3).literal() };
    let params = Params::new(bootstrap).unwrap();
    let parts = evaluation_key_parts(&params);
    let numbers = Numbers::with_parts(&server, server.key(Role::Developer).await, &params, &parts).await;
    let a = numbers.encrypted_within(&[0.5, -0.25, 1.0], 1.0).await;
    let large = numbers.encrypted_within(&[1234.5], 1e6).await;
    let plain: Vec<f64> = (0..params.slots()).map(|slot| slot as f64 / 64.0).collect();
    let polynomial = json!({"polynomial_coeffs": [0.5, -1.0, 0.25, 0.0, 1.0]});
    for (operation, ids, more, key_switches) in [
        ("add", vec![&a, &large], json!({}), Some(0)),
        ("multiply", vec![&a, &a], json!({}), Some(1)),
        ("multiply", vec![&a, &large], json!({"scale_stable": true}), Some(1)),
        ("multiply", vec![&large, &large], json!({"scale_stable": true, "result_bound": 2e6}), Some(1)),
        ("add-plain", vec![&a], json!({"plain_operand": plain}), Some(0)),
        ("multiply_plain", vec![&a], json!({"plain_operand": plain, "scale_stable": true}), Some(0)),
        ("negate", vec![&large], json!({}), Some(0)),
        ("rescale", vec![&a], json!({}), Some(0)),
        ("rotate", vec![&a], json!({"rotation_steps": 5}), Some(2)),
        ("rotate", vec![&a], json!({"rotation_steps": 64}), Some(0)),
        ("matmul", vec![&a, &a], json!({}), None),
        // three doublings to 32 slots, and two sums of four blocks that are 5 slots apart: two rotations each
        ("matmul-plain", vec![&a], json!({"plain_operand": vec![0.25; 16]}), Some(7)),
        ("poly-eval", vec![&a], polynomial, None),
        ("bootstrap", vec![&a], json!({}), None),
    ] {
        let plan = planned(&numbers, operation, &ids, more.clone()).await;
        let (text, plan) = (plan.text(), plan.ok(200));
        let told = numbers.compute(operation, &ids, more.clone()).await.ok(200);
        let what = format!("{operation} {more}");
        for member in
            ["operation", "levels_remaining", "precision_bits", "noise_budget_remaining", "cost_units", "cost_jpy"]
        {
            assert_eq!(plan[member], told[member], "{member} of {what}");
        }
        assert_eq!(plan["bootstrap_degraded"], told["bootstrap_degraded"], "{what}");
        let record = show(&numbers, &told["result_ciphertext_id"]).await;
        for (member, of_record) in [
            ("level", "level"),
            ("scale_bits", "scale_bits"),
            ("precision_bits", "precision_bits"),
            ("result_bytes", "size_bytes"),
        ] {
            assert_eq!(plan[member], record[of_record], "{member} of {what}");
        }
        let path = format!("/api/v1/ciphertexts/{}", told["result_ciphertext_id"].as_str().unwrap());
        let bytes = numbers.send(Request::get(path).header("Accept", tests_service::gates::OCTETS)).await.body;
        let ciphertext = numbers.ciphertext(&bytes);
        let error_bound = ciphertext.noise.error_bound(params.n(), ciphertext.scale);
        for (member, exact) in
            [("scale", ciphertext.scale), ("value_bound", ciphertext.noise.value_bound), ("error_bound", error_bound)]
        {
            // as text, because the tests' reader of JSON rounds the last place
            assert!(text.contains(&format!("\"{member}\":{}", json!(exact))), "{member} {exact} of {what}: {text}");
        }
        let found = plan["key_switches"].as_u64().unwrap();
        assert!(key_switches.map_or(found > 1, |wanted| found == wanted), "{what}: {found} key switches");
    }
}

#[tokio::test]
async fn a_plan_costs_nothing_and_changes_nothing() {
    let server = TestServer::start().await;
    let numbers = Numbers::new(&server).await;
    let a = numbers.encrypted(&[1.0]).await;
    let (key, ciphertext) = (numbers.record().await, show(&numbers, &a).await);
    server.clock.advance(std::time::Duration::from_secs(60));
    let body = named(&numbers, "multiply", &[&a, &a], json!({}));
    for request in [
        Request::post(format!("{COMPUTE}/plan"), &body),
        Request::post(format!("{COMPUTE}/plan"), &body).header("Prefer", "respond-async"),
        Request::post(format!("{COMPUTE}/plan"), &body).header("Idempotency-Key", "plan"),
        Request::post(format!("{COMPUTE}/plan"), &body).header("Idempotency-Key", "plan"),
    ] {
        let plan = numbers.send(request).await.ok(200);
        assert_eq!((&plan["cost_units"], &plan["evicted_ciphertext_ids"]), (&json!(5), &json!([])));
    }
    assert_eq!(numbers.record().await, key);
    assert_eq!(show(&numbers, &a).await, ciphertext, "a plan is no use of a ciphertext");
    assert_eq!(objects(&server, "ciphertexts"), 1);
    let metrics = server.operations_get("/metrics").await;
    assert!(!metrics.text().contains("ango_fcu_total{operation=\"multiply\"}"), "{}", metrics.text());
}

#[tokio::test]
async fn a_plan_is_refused_as_its_operation_is() {
    let server = TestServer::start().await;
    let params = testing(64, 3);
    // no relinearization, and rotations by multiples of four
    let parts = rotations(&params, &[4], 3);
    let numbers = Numbers::with_parts(&server, server.key(Role::AccountAdmin).await, &params, &parts).await;
    let a = numbers.encrypted(&[1.0]).await;
    let low = numbers.compute("rescale", &[&a], json!({})).await.ok(200)["result_ciphertext_id"].clone();
    let second = Numbers::of(&server, numbers.key.clone(), &params).await;
    let of_second = second.encrypted(&[1.0]).await;
    let stranger = Numbers::new(&server).await;
    let of_stranger = stranger.encrypted(&[1.0]).await;
    let done = numbers.record().await["operation_count"].clone();
    let slots = params.slots();
    for (operation, ids, more) in [
        ("add", vec![&a], json!({})),
        ("add", vec![&a, &low], json!({})),
        ("add", vec![&a, &of_second], json!({})),
        ("add", vec![&a, &of_stranger], json!({})),
        ("negate", vec![&json!("ct_none")], json!({})),
        ("negate", vec![&json!(5)], json!({})),
        ("subtract", vec![&a, &a], json!({})),
        ("multiply", vec![&a, &a], json!({})),
        ("rotate", vec![&a], json!({"rotation_steps": 1})),
        ("rotate", vec![&a], json!({})),
        ("add-plain", vec![&a], json!({})),
        ("add-plain", vec![&a], json!({"plain_operand": vec![1.0; slots - 1]})),
        ("add-plain", vec![&a], json!({"plain_operand": vec![1e300; slots]})),
        ("multiply-plain", vec![&a], json!({"plain_operand": vec![1e30; slots]})),
        ("matmul-plain", vec![&a], json!({"plain_operand": vec![1e30; 16]})),
        ("matmul-plain", vec![&a], json!({"plain_operand": vec![1.0; 15]})),
        ("poly-eval", vec![&a], json!({"polynomial_coeffs": vec![0.1; 66]})),
        ("poly-eval", vec![&a], json!({"polynomial_coeffs": vec![0.1; 65]})),
        ("poly-eval", vec![&a], json!({"polynomial_coeffs": []})),
        ("bootstrap", vec![&a], json!({})),
        ("negate", vec![&a], json!({"result_bound": -1.0})),
        ("negate", vec![&a], json!({"result_bound": "1"})),
    ] {
        let plan = planned(&numbers, operation, &ids, more.clone()).await;
        let refused = numbers.send(Request::post(COMPUTE, &named(&numbers, operation, &ids, more.clone()))).await;
        assert!((400..500).contains(&refused.status), "{operation} {more}: {}", refused.text());
        let said = |answer: Response| -> Value {
            let error: Value = serde_json::from_str(answer.text()).unwrap();
            json!([answer.status, error["error"]["code"], error["error"]["message"], error["error"]["details"]])
        };
        assert_eq!(said(plan), said(refused), "{operation} {more}");
    }
    let nameless = Request::post(format!("{COMPUTE}/plan"), &numbers.body(&[&a], json!({})));
    numbers.send(nameless).await.error(400, "INVALID_OPERATION");
    let foreign = Request::post(format!("{COMPUTE}/plan"), &named(&numbers, "negate", &[&a], json!({})));
    stranger.send(foreign).await.error(404, "KEY_NOT_FOUND");
    assert_eq!(numbers.record().await["operation_count"], done);
}

#[tokio::test]
async fn a_plan_is_for_the_roles_that_compute_and_tells_a_trial_that_its_operations_are_used_up() {
    let server = TestServer::start().await;
    let (admin, account) = server.create_key(Role::AccountAdmin, None).await;
    let (viewer, _) = server.create_key(Role::Viewer, Some(account)).await;
    let numbers = Numbers::of(&server, admin, &testing(64, 3)).await;
    let a = numbers.encrypted(&[1.0]).await;
    let plan = || Request::post(format!("{COMPUTE}/plan"), &named(&numbers, "negate", &[&a], json!({})));
    server.send(plan().key(&viewer)).await.error(403, "INSUFFICIENT_ROLE");
    server.send(plan()).await.error(401, "MISSING_AUTH_HEADER");

    let trial = server.key(Role::Trial).await;
    let parts = [(PartKind::Relinearization, 3)];
    let numbers = Numbers::with_parts(&server, trial, &testing(64, 3), &parts).await;
    let a = numbers.encrypted(&[1.0]).await;
    for _ in 0..10 {
        planned(&numbers, "negate", &[&a], json!({})).await.ok(200);
        numbers.compute("negate", &[&a], json!({})).await.ok(200);
    }
    let refused = numbers.compute("negate", &[&a], json!({})).await;
    let status = refused.status;
    refused.error(status, "TRIAL_OPS_EXHAUSTED");
    planned(&numbers, "negate", &[&a], json!({})).await.error(status, "TRIAL_OPS_EXHAUSTED");
}
