//! Stored documents (readings B40).

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tests_service::TestServer;
use tests_service::http::Request;

use crate::shop::*;

/// Makes a shop that has stored three documents, of 1,000, 20,000 and 300,000 yen.
async fn with_three(server: &TestServer) -> Shop<'_> {
    let shop = Shop::new(server).await;
    let path = shop.set_profile(json!({})).await;
    for (id, yen, name, day) in
        [("1", 1_000, "山田太郎", 0), ("2", 20_000, "株式会社ミライ", 10), ("3", 300_000, "佐藤 花子", 20)]
    {
        let mut object = charge(id, yen);
        object["billing_details"]["name"] = json!(name);
        object["created"] = json!(1_764_514_800 + day * 86_400);
        server.send(Request::post(&*path, &event(id, "charge.succeeded", object))).await.ok(200);
    }
    shop
}

#[tokio::test]
async fn b40_documents_are_listed_newest_first_for_their_key_alone() {
    let server = start_at_once().await;
    let shop = with_three(&server).await;
    let all = shop.stored("").await;
    let totals: Vec<i64> = all.iter().map(|one| one["total_yen"].as_i64().unwrap()).collect();
    assert_eq!(totals, [300_000, 20_000, 1_000]);
    assert_eq!((&all[0]["payment_id"], &all[0]["document_type"]), (&json!("ch_3"), &json!("receipt")));
    let other = Shop::new(&server).await;
    assert_eq!(other.stored("").await, Vec::<Value>::new());
    let path = format!("{STORED}/{}", all[0]["invoice_id"].as_str().unwrap());
    refused(&other.get(&path).await, 404, "NOT_FOUND");
    refused(&shop.get(&format!("{STORED}/inv_none")).await, 404, "NOT_FOUND");
    // page by page
    let first = shop.get(&format!("{STORED}?limit=2")).await.ok(200);
    assert_eq!((&first["has_more"], &first["total_count"]), (&json!(true), &json!(3)));
    let rest = shop.stored(&format!("?limit=2&cursor={}", first["next_cursor"].as_str().unwrap())).await;
    assert_eq!(rest[0]["total_yen"], 1_000);
    assert_eq!(faults(&shop.get(&format!("{STORED}?cursor=x")).await)[0].1, "query.cursor");
}

#[tokio::test]
async fn b40_a_document_is_the_same_bytes_whenever_it_is_downloaded() {
    let server = start_at_once().await;
    let shop = with_three(&server).await;
    let listed = shop.stored("").await[0].clone();
    let path = format!("{STORED}/{}", listed["invoice_id"].as_str().unwrap());
    let first = shop.get(&path).await;
    // a new profile does not change stored documents
    shop.set_profile(json!({"issuer": "別の会社"})).await;
    let again = shop.get(&path).await;
    assert_eq!((first.status, &first.body), (200, &again.body));
    assert_eq!(hex::encode(Sha256::digest(&first.body)), listed["pdf_sha256"].as_str().unwrap());
    assert_eq!(first.header("content-type"), Some("application/pdf"));
    assert_eq!(first.header("x-document-total"), Some("300000"));
    assert_eq!(first.header("x-invoice-number"), listed["invoice_number"].as_str());
}

#[tokio::test]
async fn documents_are_found_by_day_amount_and_recipient_together() {
    let server = start_at_once().await;
    let shop = with_three(&server).await;
    for (query, found) in [
        ("?from=2025-12-05", vec![300_000, 20_000]),
        ("?from=2025-12-05&to=2025-12-15", vec![20_000]),
        ("?to=2025-12-01", vec![1_000]),
        ("?min=1000&max=20000", vec![20_000, 1_000]),
        ("?recipient=%EF%BE%90%EF%BE%97%EF%BD%B2", vec![20_000]),
        ("?recipient=%E4%BD%90%E8%97%A4%E8%8A%B1", vec![300_000]),
        ("?recipient=%E5%B1%B1&min=2000", vec![]),
        ("?from=2025-12-01&min=500&recipient=%E5%B1%B1", vec![1_000]),
    ] {
        let totals: Vec<i64> = shop.stored(query).await.iter().map(|one| one["total_yen"].as_i64().unwrap()).collect();
        assert_eq!(totals, found, "{query}");
    }
    let bad = shop.get(&format!("{STORED}?from=yesterday&to=2025-02-30&min=x&max=1.5")).await;
    let places: Vec<String> = faults(&bad).into_iter().map(|(_, at)| at).collect();
    assert_eq!(places, ["query.from", "query.to", "query.min", "query.max"]);
}

#[tokio::test]
async fn a_correction_is_a_new_document_that_names_the_old_one() {
    let server = start_at_once().await;
    let shop = with_three(&server).await;
    let original = shop.stored("").await[0].clone();
    let path = format!("{STORED}/{}", original["invoice_id"].as_str().unwrap());
    let before = shop.get(&path).await.body;
    let mut body = invoice();
    body["document_type"] = json!("corrected_invoice");
    body["original_date"] = json!("2025-12-21");
    let made = shop.post(&format!("{path}/corrections"), &body).await.ok(200);
    assert_eq!(made["original_invoice_id"], original["invoice_id"]);
    assert_eq!(made["transaction_date"], original["transaction_date"]);
    assert_eq!(shop.stored("").await[0], made);
    assert_eq!((shop.get(&path).await.body, shop.spent().await), (before, 40));
    refused(&shop.post(&format!("{STORED}/inv_none/corrections"), &body).await, 404, "NOT_FOUND");
    assert_eq!(faults(&shop.post(&format!("{path}/corrections"), &json!({})).await).len(), 3);
    audited(&server).await;
}

/// Case C1: the act asks for a search by counterparty, whatever the PDF's faces have.
#[tokio::test]
async fn a6_a_stored_document_is_found_by_the_name_that_the_payment_has() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({})).await;
    let names = ["𠮷田 次郎", "홍길동", "葛\u{e0100}城 か\u{3099}く", "😀商店"];
    for (at, name) in names.iter().enumerate() {
        let mut object = charge(&at.to_string(), 1_000);
        object["billing_details"]["name"] = json!(name);
        server.send(Request::post(&*path, &event(&at.to_string(), "charge.succeeded", object))).await.ok(200);
    }
    for (asked, name) in [("𠮷田", names[0]), ("홍길", names[1]), ("葛城がく", names[2]), ("😀", names[3])] {
        let asked: String = asked.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let found = shop.stored(&format!("?recipient={asked}")).await;
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(found[0]["recipient"], name);
    }
}
