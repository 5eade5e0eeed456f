//! The audit log of registration numbers over HTTP: pages, spellings, and readers beside writers (readings B39).

use serde_json::{Value, json};
use tests_service::TestServer;

use crate::shop::*;

const AUDIT: &str = "/v1/registration/audit";
const MONITOR: &str = "/v1/registration/monitor";

async fn logging() -> (tempfile::TempDir, TestServer) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let server = TestServer::with(|config| config.office.audit_log = Some(path)).await;
    (folder, server)
}

fn seqs(trail: &Value) -> Vec<u64> {
    trail["entries"].as_array().unwrap().iter().map(|entry| entry["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn b12_each_answer_names_the_end_of_the_log_behind_it() {
    let (_folder, server) = logging().await;
    let shop = Shop::new(&server).await;
    let verified = shop.post(VERIFY, &json!({"numbers": ["T7000012050002", "T1180301018771"]})).await.ok(200);
    assert_eq!(verified["audit"], shop.get(AUDIT).await.ok(200)["head"]);
    assert_eq!(verified["audit"]["seq"], 2);
    let watched = shop.post(MONITOR, &json!({"watch": ["T7000012050002"]})).await.ok(200);
    let trail = shop.get(AUDIT).await.ok(200);
    assert_eq!((&watched["audit"], &trail["entries"][2]["hash"]), (&trail["head"], &trail["head"]["hash"]));
    // nothing was looked up, so nothing was logged
    assert_eq!(shop.post(VERIFY, &json!({"numbers": []})).await.ok(200)["audit"], Value::Null);
    let other = TestServer::start().await;
    let told = Shop::new(&other).await.post(VERIFY, &json!({"numbers": ["T7000012050002"]})).await.ok(200);
    assert_eq!(told["audit"], Value::Null);
}

#[tokio::test]
async fn b4_the_log_is_searched_in_any_spelling_of_a_number() {
    let (_folder, server) = logging().await;
    let shop = Shop::new(&server).await;
    shop.post(VERIFY, &json!({"numbers": ["t 7000-0120-50002", "T1180301018771", "T123"]})).await.ok(200);
    for spelling in [
        "T7000012050002",
        "Ｔ7000012050002",
        "t7000012050002",
        "7000012050002",
        "%20T7000%200120%2050002",
        "T7000-0120-50002",
    ] {
        let trail = shop.get(&format!("{AUDIT}?number={spelling}")).await.ok(200);
        assert_eq!(seqs(&trail), [1], "{spelling}");
    }
    assert_eq!(seqs(&shop.get(&format!("{AUDIT}?number=t123")).await.ok(200)), [3]);
    assert_eq!(seqs(&shop.get(&format!("{AUDIT}?number=")).await.ok(200)), [1, 2, 3]);
}

#[tokio::test]
async fn a2_the_log_is_read_page_by_page() {
    let (_folder, server) = logging().await;
    let (shop, other) = (Shop::new(&server).await, Shop::new(&server).await);
    for _ in 0..3 {
        shop.post(VERIFY, &json!({"numbers": vec!["T7000012050002"; 700]})).await.ok(200);
        other.post(VERIFY, &json!({"numbers": ["T7000012050002"]})).await.ok(200);
    }
    // the newest entries, and back from there
    let newest = shop.get(AUDIT).await.ok(200);
    assert_eq!(
        (seqs(&newest).len(), &newest["entries_total"], &newest["chain_valid"]),
        (1_000, &json!(2_100), &json!(true))
    );
    assert_eq!((&newest["next_after_seq"], &newest["head"]["seq"]), (&json!(2_103), &json!(2_103)));
    let (mut all, mut before) = (seqs(&newest), newest["previous_before_seq"].as_u64());
    while let Some(seq) = before {
        let page = shop.get(&format!("{AUDIT}?before_seq={seq}&limit=800")).await.ok(200);
        all.splice(0..0, seqs(&page));
        before = page["previous_before_seq"].as_u64();
    }
    let own: Vec<u64> = (1..=2_103).filter(|seq| seq % 701 != 0).collect();
    assert_eq!(all, own);
    // and forward from the first
    let (mut all, mut after) = (Vec::new(), 0);
    while after < 2_103 {
        let page = shop.get(&format!("{AUDIT}?after_seq={after}&limit=900")).await.ok(200);
        all.extend(seqs(&page));
        after = page["next_after_seq"].as_u64().unwrap();
    }
    assert_eq!(all, own);
    let csv = shop.get(&format!("{AUDIT}?format=csv&after_seq=5&limit=10")).await;
    assert_eq!((csv.header("x-next-after-seq"), csv.header("x-previous-before-seq")), (Some("15"), Some("6")));
    assert_eq!(csv.text().lines().count(), 11);
    for (query, at) in [
        ("limit=0", "query.limit"),
        ("limit=10001", "query.limit"),
        ("limit=ten", "query.limit"),
        ("after_seq=-1", "query.after_seq"),
        ("before_seq=1.5", "query.before_seq"),
        ("before_seq=9223372036854775808", "query.before_seq"),
        ("after_seq=18446744073709551615", "query.after_seq"),
        ("after_seq=1&before_seq=9", "query.before_seq"),
    ] {
        assert_eq!(faults(&shop.get(&format!("{AUDIT}?{query}")).await)[0].1, at);
    }
}

#[tokio::test]
async fn b39_the_log_is_read_by_days() {
    let (_folder, server) = logging().await;
    let shop = Shop::new(&server).await;
    let mut days = Vec::new();
    for _ in 0..3 {
        let told = shop.post(VERIFY, &json!({"numbers": ["T7000012050002", "T1180301018771"]})).await.ok(200);
        // without records, today in Japan
        days.push(told["as_of"].as_str().unwrap().to_owned());
        server.clock.advance(std::time::Duration::from_secs(86_400));
    }
    let of = async |query: String| seqs(&shop.get(&format!("{AUDIT}?{query}")).await.ok(200));
    let [first, second, third] = [&days[0], &days[1], &days[2]];
    assert_eq!(of(format!("from={second}&to={second}")).await, [3, 4]);
    assert_eq!(of(format!("from={second}")).await, [3, 4, 5, 6]);
    assert_eq!(of(format!("to={second}")).await, [1, 2, 3, 4]);
    assert_eq!(of(format!("from={first}&to={third}&number=t7000012050002")).await, [1, 3, 5]);
    assert_eq!(of(format!("from={second}&after_seq=3&limit=2")).await, [4, 5]);
    assert_eq!(of(format!("to={second}&before_seq=4&limit=2")).await, [2, 3]);
    let none = shop.get(&format!("{AUDIT}?from=2001-01-01&to=2001-12-31&after_seq=0")).await.ok(200);
    assert_eq!((seqs(&none), &none["next_after_seq"], &none["entries_total"]), (vec![], &json!(6), &json!(6)));
    let csv = shop.get(&format!("{AUDIT}?format=csv&from={third}&after_seq=0")).await;
    assert_eq!((csv.text().lines().count(), csv.header("x-next-after-seq")), (3, Some("6")));
    for (query, at) in [
        ("from=yesterday", "query.from"),
        ("from=", "query.from"),
        ("to=2025-02-30", "query.to"),
        ("to=%2B02025-02-03", "query.to"),
        ("from=2025-12-02&to=2025-12-01", "query.to"),
    ] {
        assert_eq!(faults(&shop.get(&format!("{AUDIT}?{query}")).await)[0].1, at, "{query}");
    }
}

#[tokio::test]
async fn a2_verifications_go_on_while_many_read_the_log() {
    let (_folder, server) = logging().await;
    let (shop, other) = (Shop::new(&server).await, Shop::new(&server).await);
    for _ in 0..3 {
        shop.post(VERIFY, &json!({"numbers": vec!["T7000012050002"; 1_000]})).await.ok(200);
    }
    let is_over = std::cell::Cell::new(false);
    let reader = async || {
        while !is_over.get() {
            assert_eq!(shop.get(&format!("{AUDIT}?limit=10000")).await.ok(200)["chain_valid"], true);
        }
    };
    let writer = async || {
        for at in 0..20 {
            let told = other.post(VERIFY, &json!({"numbers": ["T7000012050002"]})).await.ok(200);
            assert_eq!(told["audit"]["seq"], 3_001 + at);
        }
        is_over.set(true);
    };
    // the readers' requests overlap all the time
    tokio::join!(writer(), reader(), reader(), reader(), reader());
    let trail = shop.get(AUDIT).await.ok(200);
    assert_eq!((&trail["chain_valid"], &trail["head"]["seq"]), (&json!(true), &json!(3_020)));
}

#[tokio::test]
async fn a10_a_watch_without_records_says_what_it_looked_at() {
    let (_folder, server) = logging().await;
    let shop = Shop::new(&server).await;
    let told = shop.post(MONITOR, &json!({"watch": ["T7000012050002", "T1234567890123", "5"]})).await.ok(200);
    let states: Vec<(&str, &str)> = told["format_only"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["status"].as_str().unwrap(), one["basis"].as_str().unwrap()))
        .collect();
    let basis = "format_only";
    assert_eq!(states, [("format_ok", basis), ("check_digit_mismatch", basis), ("format_error", basis)]);
    assert_eq!((&told["not_found"], &told["basis"], &told["checked"]), (&json!([]), &json!(basis), &json!(3)));
    let trail = shop.get(AUDIT).await.ok(200);
    assert_eq!(trail["entries"][0]["status"], "format_ok");
    let _: api::office::MonitorResult = serde_json::from_value(told).unwrap();
}

#[tokio::test]
async fn e1_a_registration_that_lapsed_is_not_active() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let record = |process: &str, latest: &str, updated: &str, expired: &str| {
        json!({"registratedNumber": "T7000012050002", "process": process, "correct": "0", "kind": "2", "country": "1", "latest": latest,
            "registrationDate": "2023-10-01", "updateDate": updated, "disposalDate": "", "expireDate": expired})
    };
    let history = [record("01", "0", "2023-09-01", ""), record("03", "1", "2025-04-02", "2025-03-31")];
    let deleted = [record("01", "1", "2023-09-01", ""), record("99", "", "2025-04-02", "")];
    for (records, status) in [
        (
            json!({"lastUpdateDate": "2025-06-01", "count": "2", "divideNumber": "1", "divideSize": "1", "announcement": history}),
            "expired",
        ),
        (json!(history), "expired"),
        (json!({"T7000012050002": history}), "expired"),
        (json!(deleted), "not_found"),
    ] {
        let body = json!({"numbers": ["T7000012050002"], "records": records, "as_of": "2025-11-30"});
        assert_eq!(shop.post(VERIFY, &body).await.ok(200)["results"][0]["status"], status, "{records}");
    }
}

#[tokio::test]
async fn a1_a_body_that_asks_for_all_subsets_is_answered() {
    let server = TestServer::start().await;
    // 1,000 names with 20 records on each side that fit nothing: trying all subsets would take minutes
    let side = |base: u64| -> Vec<Value> {
        (0..20_000u64).map(|at| json!({"n": at / 20, "a": base + at * at % 7_919})).collect()
    };
    let body = json!({"left": side(1_000_000_000), "right": side(1_000_000), "left_key": "n", "left_amount": "a"});
    let told = server.send(tests_service::http::Request::post("/v1/reconcile", &body)).await.ok(200);
    assert_eq!((&told["summary"]["amount_mismatch"], told["summary"].get("groups_cut")), (&json!(20_000), None));
}
