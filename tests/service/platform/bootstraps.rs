//! Bootstraps of numbers that cannot run: keys without the parts, numbers beyond the bound, devices without the memory,
//! keys deleted meanwhile. Each refusal says why, costs nothing and leaves other keys alone (readings C14, F9, P24).

use client::ckks::{Params, ParamsLiteral, PartKind, evaluation_key_parts};
use control::caller::Role;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::Request;

use crate::compute::ended;
use crate::numbers::{Numbers, assert_near, testing};

const A: [f64; 4] = [0.5, -1.0, 0.25, 1.0];

fn set(poly_degree: usize) -> Params {
    Params::new(ParamsLiteral { bootstrap: true, ..testing(poly_degree, 3).literal() }).unwrap()
}

async fn with_key<'s>(server: &'s TestServer, params: &Params, parts: &[(PartKind, usize)]) -> Numbers<'s> {
    Numbers::with_parts(server, server.key(Role::Developer).await, params, parts).await
}

/// The bytes of a device that a bootstrap with these parameters takes for its key, as the node says.
async fn prepared_key_bytes(server: &TestServer, params: &Params) -> u64 {
    let query = "security_level=testing&depth=3&scale_bits=40&bootstrap=true";
    let answer = server.send(Request::get(format!("/api/v1/params/suggest?{query}"))).await.ok(200);
    let all = answer["arithmetic"].as_array().unwrap();
    let facts = all.iter().find(|facts| facts["poly_degree"] == params.n()).unwrap();
    facts["bootstrap_needs"]["prepared_key_bytes"].as_u64().unwrap()
}

async fn bootstraps(numbers: &Numbers<'_>) {
    let a = numbers.encrypted_within(&A, 1.0).await;
    let told = numbers.compute("bootstrap", &[&a], json!({})).await.ok(200);
    assert_near_enough(&numbers.decrypted(&told["result_ciphertext_id"]).await);
}

/// A bootstrap keeps about 17 bits of these numbers.
fn assert_near_enough(found: &[f64]) {
    assert!(found.iter().zip(A).all(|(found, value)| (found - value).abs() < 1e-3), "{:?}", &found[..A.len()]);
}

#[tokio::test]
async fn a_key_without_a_part_or_with_a_part_of_too_low_a_level_is_told_which() {
    let server = TestServer::start().await;
    let params = set(64);
    let all = evaluation_key_parts(&params);
    let rotation = |(kind, _): &(PartKind, usize)| matches!(kind, PartKind::Galois(_));
    let lacking = |lacks: &dyn Fn(PartKind) -> bool| all.iter().filter(|(kind, _)| !lacks(*kind)).copied().collect();
    let mut low: Vec<(PartKind, usize)> = all.clone();
    low.iter_mut().filter(|part| rotation(part)).for_each(|(_, level)| *level = params.level_max());
    let mut low_relinearization = all.clone();
    low_relinearization[0].1 = 1;
    let keys: [(Vec<(PartKind, usize)>, &str); 5] = [
        (lacking(&|kind| kind == PartKind::ToSparse), "key for bootstrapping"),
        (lacking(&|kind| kind == PartKind::FromSparse), "key for bootstrapping"),
        (lacking(&|kind| kind == PartKind::Relinearization), "relinearization"),
        (low, "Galois element"),
        (low_relinearization, "relinearization"),
    ];
    for (parts, named) in keys {
        let numbers = with_key(&server, &params, &parts).await;
        let a = numbers.encrypted_within(&A, 1.0).await;
        let error = numbers.compute("bootstrap", &[&a], json!({})).await.error(400, "INVALID_PARAMS");
        assert!(error["message"].as_str().unwrap().contains(named), "{named}: {error}");
        // the key still does what needs none of the parts
        numbers.compute("negate", &[&a], json!({})).await.ok(200);
        assert_eq!(numbers.record().await["operation_count"], 1, "{named}");
    }
}

#[tokio::test]
async fn a_key_whose_parts_have_a_low_level_computes_below_it_and_is_refused_above() {
    let server = TestServer::start().await;
    let numbers = with_key(&server, &testing(64, 3), &[(PartKind::Relinearization, 2)]).await;
    let a = numbers.encrypted_within(&A, 1.0).await;
    let error = numbers.compute("multiply", &[&a, &a], json!({})).await.error(400, "INVALID_PARAMS");
    assert!(error["message"].as_str().unwrap().contains("level 3"), "{error}");
    let lower = &numbers.compute("rescale", &[&a], json!({})).await.ok(200)["result_ciphertext_id"];
    let told = numbers.compute("multiply", &[lower, lower], json!({"scale_stable": true})).await.ok(200);
    assert_near(&numbers.decrypted(&told["result_ciphertext_id"]).await, &A.map(|a| a * a));
}

#[tokio::test]
async fn numbers_beyond_the_bound_of_a_bootstrap_are_refused_and_cost_nothing() {
    let server = TestServer::start().await;
    let params = set(64);
    let numbers = with_key(&server, &params, &evaluation_key_parts(&params)).await;
    let mut at = numbers.encrypted_within(&A, 2000.0).await;
    for _ in 0..3 {
        at = numbers.compute("rescale", &[&at], json!({})).await.ok(200)["result_ciphertext_id"].clone();
    }
    let answer = numbers.compute("bootstrap", &[&at], json!({"return_ciphertext": false})).await;
    let error = answer.error(400, "NOISE_BUDGET_EXHAUSTED");
    assert!(error["message"].as_str().unwrap().contains("result_bound"), "{error}");
    assert_eq!(numbers.record().await["operation_count"], 3);
    bootstraps(&numbers).await;
}

#[tokio::test]
async fn the_node_says_to_the_byte_what_the_key_of_a_bootstrap_takes() {
    for degree in [64, 256] {
        let params = set(degree);
        let needed = prepared_key_bytes(&TestServer::start().await, &params).await;
        // a device with this memory bootstraps
        let enough = TestServer::with(|config| config.compute.resident_bytes_max = Some(needed)).await;
        let numbers = with_key(&enough, &params, &evaluation_key_parts(&params)).await;
        bootstraps(&numbers).await;
        assert_eq!(enough.metric("ango_resident_bytes").await, needed as f64);
        // a device with a byte less does not
        let little = TestServer::with(|config| config.compute.resident_bytes_max = Some(needed - 1)).await;
        let numbers = with_key(&little, &params, &evaluation_key_parts(&params)).await;
        let a = numbers.encrypted_within(&A, 1.0).await;
        let error = numbers.compute("bootstrap", &[&a], json!({})).await.error(400, "INVALID_PARAMS");
        assert!(error["message"].as_str().unwrap().contains("too large for this node"), "{error}");
        numbers.compute("multiply", &[&a, &a], json!({})).await.ok(200);
        assert_eq!(numbers.record().await["operation_count"], 1);
    }
}

#[tokio::test]
async fn accounts_whose_keys_have_no_room_together_bootstrap_in_turns() {
    let params = set(64);
    let needed = prepared_key_bytes(&TestServer::start().await, &params).await;
    let server = TestServer::with(|config| config.compute.resident_bytes_max = Some(needed)).await;
    let all = evaluation_key_parts(&params);
    let (one, other) = (with_key(&server, &params, &all).await, with_key(&server, &params, &all).await);
    let [a, b] = [one.encrypted_within(&A, 1.0).await, other.encrypted_within(&A, 1.0).await];
    let of = async |numbers: &Numbers<'_>, id: &Value| {
        let told = numbers.compute("bootstrap", &[id], json!({})).await.ok(200);
        assert_near_enough(&numbers.decrypted(&told["result_ciphertext_id"]).await);
    };
    for _ in 0..3 {
        tokio::join!(of(&one, &a), of(&other, &b), of(&one, &a), of(&other, &b));
    }
}

#[tokio::test]
async fn a_key_that_is_deleted_while_it_bootstraps_costs_nothing_more_and_others_go_on() {
    let server = TestServer::start().await;
    let params = set(256);
    let all = evaluation_key_parts(&params);
    let (deleted, other) = (with_key(&server, &params, &all).await, with_key(&server, &params, &all).await);
    let [a, b] = [deleted.encrypted_within(&A, 1.0).await, other.encrypted_within(&A, 1.0).await];
    let mut begun = Vec::new();
    for _ in 0..8 {
        let request = deleted.request("bootstrap", &[&a], json!({})).header("Prefer", "respond-async");
        begun.push(deleted.send(request).await.ok(200)["op_id"].clone());
    }
    let delete = async { deleted.send(Request::delete(format!("/api/v1/keys/{}", deleted.key_id))).await };
    let goes_on = async { other.compute("bootstrap", &[&b], json!({})).await };
    let (gone, told) = tokio::join!(delete, goes_on);
    gone.ok(200);
    assert_near_enough(&other.decrypted(&told.ok(200)["result_ciphertext_id"]).await);
    let mut failed = 0;
    for operation in &begun {
        let told = ended(&deleted, operation).await;
        if told["status"] == "failed" {
            failed += 1;
            assert_eq!((&told["error"]["code"], &told["cost_units"]), (&json!("KEY_NOT_FOUND"), &json!(0)), "{told}");
        } else {
            assert_eq!(told["cost_units"], 50, "{told}");
        }
    }
    assert!(failed > 0, "eight bootstraps last longer than a deletion");
    bootstraps(&other).await;
    // the tables stay, because the other key needs them
    server.metric_becomes("ango_sessions", |sessions| sessions == 1.0).await;
}
