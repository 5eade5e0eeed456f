//! Pages of lists and their cursors (readings E3, I7, I8).

use control::caller::Role;
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::{Request, Response};

use tests_service::gates::{CIRCUITS, SESSION, SESSIONS, and_netlist};

/// Starts a server with an account that has five stored circuits, `c0` to `c4`, and two sessions. Returns the server
/// and the account's key.
async fn with_lists() -> (TestServer, String) {
    let server = TestServer::start().await;
    let key = server.key(Role::AccountAdmin).await;
    for n in 0..5 {
        put(&server, &key, n).await;
    }
    for _ in 0..2 {
        server.send(Request::post(SESSION, &json!({"preset": "fast_128"})).key(&key)).await.ok(201);
    }
    (server, key)
}

async fn put(server: &TestServer, key: &str, n: usize) {
    server.send(Request::put_text(format!("{CIRCUITS}/c{n}"), and_netlist(1)).key(key)).await.ok(201);
}

async fn get(server: &TestServer, key: &str, path: &str, query: &str) -> Response {
    server.send(Request::get(format!("{path}?{query}")).key(key)).await
}

fn names(page: &Value) -> Vec<&str> {
    page["circuits"].as_array().unwrap().iter().map(|circuit| circuit["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn i7_i8_pages_are_newest_first_and_what_comes_meanwhile_changes_only_the_count() {
    let (server, key) = with_lists().await;
    let first = get(&server, &key, CIRCUITS, "limit=2").await.ok(200);
    assert_eq!(names(&first), ["c4", "c3"]);
    assert_eq!((&first["has_more"], &first["total_count"]), (&json!(true), &json!(5)));
    put(&server, &key, 5).await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = get(&server, &key, CIRCUITS, &format!("limit=2&cursor={cursor}")).await.ok(200);
    assert_eq!((names(&second), &second["total_count"]), (vec!["c2", "c1"], &json!(6)));
    let cursor = second["next_cursor"].as_str().unwrap();
    // each request may ask for another page length
    let third = get(&server, &key, CIRCUITS, &format!("cursor={cursor}")).await.ok(200);
    assert_eq!(names(&third), ["c0"]);
    assert_eq!((&third["next_cursor"], &third["has_more"]), (&json!(null), &json!(false)));
    // a page that holds all entries is the last one
    assert_eq!(get(&server, &key, CIRCUITS, "limit=6").await.ok(200)["has_more"], false);

    let sessions = get(&server, &key, SESSIONS, "limit=1").await.ok(200);
    assert_eq!((sessions["sessions"].as_array().unwrap().len(), &sessions["total_count"]), (1, &json!(2)));
    let cursor = sessions["next_cursor"].as_str().unwrap();
    let last = get(&server, &key, SESSIONS, &format!("limit=1&cursor={cursor}")).await.ok(200);
    assert_ne!(sessions["sessions"][0]["session_id"], last["sessions"][0]["session_id"]);
    assert_eq!((&last["next_cursor"], &last["has_more"]), (&json!(null), &json!(false)));
}

#[tokio::test]
async fn i8_without_a_limit_all_sessions_are_listed() {
    let server = TestServer::start().await;
    let key = server.key(Role::AccountAdmin).await;
    for _ in 0..22 {
        server.send(Request::post(SESSION, &json!({"preset": "fast_128"})).key(&key)).await.ok(201);
    }
    let all = server.send(Request::get(SESSIONS).key(&key)).await.ok(200);
    assert_eq!((all["sessions"].as_array().unwrap().len(), &all["total_count"]), (22, &json!(22)));
    assert_eq!((&all["next_cursor"], &all["has_more"]), (&json!(null), &json!(false)));
}

#[tokio::test]
async fn i7_s_altered_foreign_and_misplaced_cursors_are_refused() {
    let (server, key) = with_lists().await;
    let cursor = get(&server, &key, CIRCUITS, "limit=1").await.ok(200)["next_cursor"].as_str().unwrap().to_owned();
    let stranger = server.key(Role::AccountAdmin).await;
    let flipped = |at: usize| {
        let mut text = cursor.clone().into_bytes();
        text[at] = if text[at] == b'A' { b'B' } else { b'A' };
        String::from_utf8(text).unwrap()
    };
    for (key, path, cursor) in [
        (&stranger, CIRCUITS, cursor.clone()),
        (&key, SESSIONS, cursor.clone()),
        (&key, CIRCUITS, flipped(0)),
        (&key, CIRCUITS, flipped(cursor.len() - 4)),
        (&key, CIRCUITS, format!("{cursor}AAAA")),
        (&key, CIRCUITS, String::new()),
        (&key, CIRCUITS, "c3".to_owned()),
    ] {
        let error = get(&server, key, path, &format!("cursor={cursor}")).await.error(400, "INVALID_REQUEST");
        assert_eq!(error["details"][0]["field"], "cursor");
    }
    get(&server, &key, CIRCUITS, &format!("cursor={cursor}")).await.ok(200);
}

#[tokio::test]
async fn e3_a_bad_limit_is_refused_on_every_list() {
    let server = TestServer::start().await;
    let key = server.key(Role::AccountAdmin).await;
    for path in [CIRCUITS, SESSIONS] {
        for query in ["limit=0", "limit=101", "limit=-1", "limit=abc", "limit=", "limit=5&limit=5", "limit=1.5"] {
            let error = get(&server, &key, path, query).await.error(400, "INVALID_REQUEST");
            assert_eq!(error["details"][0]["field"], "limit", "{query}");
        }
        get(&server, &key, path, "limit=100&unknown=1").await.ok(200);
    }
}

#[tokio::test]
async fn i7_cursors_outlive_a_restart() {
    let (server, key) = with_lists().await;
    let cursor = get(&server, &key, CIRCUITS, "limit=1").await.ok(200)["next_cursor"].as_str().unwrap().to_owned();
    let server = TestServer::in_folder(server.stop().await, |_| ()).await;
    let page = get(&server, &key, CIRCUITS, &format!("limit=1&cursor={cursor}")).await.ok(200);
    assert_eq!(names(&page), ["c3"]);
}
