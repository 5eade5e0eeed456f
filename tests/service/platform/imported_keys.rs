//! Keys of other libraries must have one of a few shapes, and answers say who claims that the keys are secure.
//! (`tests/crosscheck` and `tests/vectors/node-tfhe` test keys that those libraries made.)

use control::caller::Role;
use serde_json::json;
use tests_service::TestServer;
use tests_service::http::Request;

use tests_service::gates::EVAL_SESSION;

/// Makes a `CompressedServerKey` with the dimensions of `fast_128`, whose words are all zero (docs/wire-format.md 9).
/// Each parameter is a pair: log2 of the base, and the number of levels.
fn server_key(bootstrap: (u64, u64), key_switch: (u64, u64)) -> Vec<u8> {
    let (n, big_n, glwe_size) = (636u64, 1024u64, 2u64);
    let mut out = Vec::new();
    let number = |out: &mut Vec<u8>, x: u64| out.extend(x.to_le_bytes());
    let words = |out: &mut Vec<u8>, count: u64| {
        number(out, count);
        out.resize(out.len() + 4 * count as usize, 0);
    };
    let seed_and_modulus = |out: &mut Vec<u8>| {
        out.extend(0x5eed_u128.to_le_bytes());
        out.extend(0u128.to_le_bytes());
        number(out, 32);
    };
    words(&mut out, n * bootstrap.1 * glwe_size * big_n);
    [glwe_size, big_n, bootstrap.0, bootstrap.1].into_iter().for_each(|x| number(&mut out, x));
    seed_and_modulus(&mut out);
    words(&mut out, big_n * key_switch.1);
    [key_switch.0, key_switch.1, n + 1].into_iter().for_each(|x| number(&mut out, x));
    seed_and_modulus(&mut out);
    out.extend(1u32.to_le_bytes());
    out
}

async fn upload(server: &TestServer, key: &str, bytes: Vec<u8>) -> tests_service::http::Response {
    server.send(Request::new("POST", EVAL_SESSION).body("application/octet-stream", bytes).key(key)).await
}

#[tokio::test]
async fn g6_a_key_of_seven_levels_or_any_other_shape_that_is_not_listed_is_refused_by_naming_the_list() {
    let server = TestServer::start().await;
    let key = server.key(Role::Developer).await;
    // the first shape has seven levels: the key is below the limit of 40 MB, but a bootstrap with it would take more
    // than three times the transforms of a preset
    for (bootstrap, key_switch) in [((4, 7), (2, 6)), ((10, 2), (2, 6)), ((8, 2), (1, 24)), ((8, 2), (2, 8))] {
        let error = upload(&server, &key, server_key(bootstrap, key_switch)).await.error(400, "INVALID_PARAMS");
        let message = error["message"].as_str().unwrap();
        for accepted in ["2^8 x 2", "2^9 x 2", "2^6 x 3", "2^2 x 5", "2^2 x 6", "2^2 x 7", "2^4 x 3"] {
            assert!(message.contains(accepted), "{message}");
        }
    }
}

#[tokio::test]
async fn answers_about_a_session_say_whether_its_key_was_imported_and_whose_claim_its_security_is() {
    let server = TestServer::start().await;
    let key = server.key(Role::AccountAdmin).await;
    let imported = upload(&server, &key, server_key((6, 3), (4, 3))).await.ok(201);
    let managed = Request::post("/api/v1/tfhe/session", &json!({"preset": "fast_128"}));
    let ours = server.send(managed.key(&key)).await.ok(201);
    for (opened, is_imported, claim) in [(imported, true, "maker"), (ours, false, "preset")] {
        let says = |value: &serde_json::Value| {
            assert_eq!((&value["imported"], &value["security_claim"]), (&json!(is_imported), &json!(claim)), "{value}");
        };
        says(&opened);
        let id = opened["session_id"].as_str().unwrap();
        let path = format!("/api/v1/tfhe/session/{id}");
        says(&server.send(Request::get(path).key(&key)).await.ok(200));
        let page = server.send(Request::get("/api/v1/tfhe/sessions").key(&key)).await.ok(200);
        says(page["sessions"].as_array().unwrap().iter().find(|session| session["session_id"] == *id).unwrap());
    }
}
