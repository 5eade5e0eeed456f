//! Refused requests and their answers (specification, HTTPValidationError; readings B24, B41). The faults of each body
//! are tested beside the code that reads the body.

use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::Request;

use crate::shop::*;

#[tokio::test]
async fn all_faults_of_a_body_come_at_once_as_fastapi_tells_them() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let body = json!({"registration_number": "T1", "items": [{"name": 5, "unit_price": "１００", "tax_rate": 9}], "rounding": "up", "issue_date": "soon"});
    let answer = shop.post(INVOICES, &body).await;
    let mut found = faults(&answer);
    found.sort();
    let places: Vec<&str> = found.iter().map(|(_, at)| at.as_str()).collect();
    for place in [
        "body.issuer",
        "body.registration_number",
        "body.items.0.name",
        "body.items.0.unit_price",
        "body.items.0.tax_rate",
        "body.rounding",
        "body.issue_date",
    ] {
        assert!(places.contains(&place), "{place}: {places:?}");
    }
    assert!(found.contains(&("missing".to_owned(), "body.issuer".to_owned())));
    // within a list, `loc` names the item by its index, which is a number
    let is_index = |fault: &Value| fault["loc"][1] == "items" && fault["loc"][2] == 0;
    assert!(answer.json()["detail"].as_array().unwrap().iter().any(is_index));
    assert_eq!(shop.spent().await, 0);
}

#[tokio::test]
async fn b24_amounts_are_exact_and_bounded() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let with = |price: &str, quantity: &str| {
        let mut body = invoice().to_string();
        let line = format!("[{{\"name\": \"a\", \"unit_price\": {price}, \"tax_rate\": 10, \"qty\": {quantity}}}]");
        let (from, to) = (body.find("[{").unwrap(), body.find("}]").unwrap() + 2);
        body.replace_range(from..to, &line);
        Request::new("POST", INVOICES).body("application/json", body).key(&shop.key)
    };
    for price in
        ["1e400", "\"NaN\"", "NaN", "\"1111111111111111111111111111111111111111\"", "\"1,000\"", "\"\"", "null", "true"]
    {
        let answer = server.send(with(price, "1")).await;
        assert_eq!(answer.status, 422, "{price}: {}", String::from_utf8_lossy(&answer.body));
    }
    for (price, quantity, total) in
        [("\"0.1\"", "30", "3"), ("\"33.333333\"", "\"3\"", "108"), ("999999999", "1", "1099999998")]
    {
        assert_eq!(server.send(with(price, quantity)).await.header("x-document-total"), Some(total), "{price}");
    }
    // a discount is a line with a negative price, but the sum of an invoice may not be negative
    assert_eq!(server.send(with("-1", "1")).await.status, 422);
}

#[tokio::test]
async fn b41_bodies_of_other_kinds_and_sizes_are_refused() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let send = |kind: &str, body: Vec<u8>| server.send(Request::new("POST", INVOICES).body(kind, body).key(&shop.key));
    for (kind, body) in [
        ("text/plain", b"{}".to_vec()),
        ("application/json", Vec::new()),
        ("application/json", b"{\"a\": ".to_vec()),
        ("application/json", b"[]".to_vec()),
        ("application/json", b"\xff\xfe".to_vec()),
        ("application/json", [vec![b'['; 100_000], vec![b']'; 100_000]].concat()),
    ] {
        let at = faults(&send(kind, body.clone()).await)[0].1.clone();
        assert!(at.starts_with("body"), "{at} {:?}", &body[..body.len().min(9)]);
    }
    refused(&send("application/json", vec![b' '; (10 << 20) + 1]).await, 413, "PAYLOAD_TOO_LARGE");
    // `notes` of a megabyte are too long
    let mut body = invoice();
    body["notes"] = json!("あ".repeat(350_000));
    assert_eq!(faults(&shop.post(INVOICES, &body).await)[0].1, "body.notes");
    let wrong = server.send(Request::get(INVOICES).key(&shop.key)).await;
    refused(&wrong, 405, "METHOD_NOT_ALLOWED");
    refused(&shop.get("/v1/nothing").await, 404, "NOT_FOUND");
}

#[tokio::test]
async fn emoji_and_right_to_left_names_make_a_document_with_a_warning() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let mut body = invoice();
    // direction marks and control characters are removed; a warning lists the characters that the PDF cannot show
    body["recipient"] = json!("\u{202e}שלום 😀\u{0}");
    let made = shop.post(&format!("{INVOICES}?format=html"), &body).await;
    assert_eq!(made.status, 200, "{}", String::from_utf8_lossy(&made.body));
    let warning = made.header("x-document-warning").unwrap();
    for missing in ["U+05DD", "U+1F600"] {
        assert!(warning.contains(missing), "{warning}");
    }
    assert!(!made.text().contains(['\u{202e}', '\u{0}']) && made.text().contains("שלום 😀"));
}
