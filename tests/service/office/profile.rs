//! The issuer's profile and the address for events (readings B9-B13).

use control::caller::{Environment, Plan, Role};
use serde_json::{Value, json};
use tests_service::TestServer;
use tests_service::http::Request;

use crate::shop::*;

const PNG: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[tokio::test]
async fn b9_b10_a_profile_is_of_a_key_and_keeps_its_address() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    refused(&shop.get(PROFILE).await, 404, "NOT_FOUND");
    let mut body = issuer();
    body.as_object_mut().unwrap().extend(
        json!({"delivery_mode": "both", "delivery_email": "a@b.example", "brand_color": "#2B4C7E", "logo": PNG,
            "provider_signing_secret": "whsec_1"})
        .as_object()
        .unwrap()
        .clone(),
    );
    let set = shop.post(PROFILE, &body).await.ok(200);
    let url = set["ingest_url"].as_str().unwrap().to_owned();
    assert!(url.contains("/v1/ingest/") && url.len() > 64);
    assert_eq!((&set["document_type"], &set["default_tax_rate"]), (&json!("receipt"), &json!(10)));
    assert_eq!((&set["logo"]["bytes"], &set["seal"]), (&json!(PNG.len()), &json!(null)));
    assert_eq!(set["signature_required"], true);
    assert_eq!(shop.get(PROFILE).await.ok(200), set);
    assert!(!set.to_string().contains("whsec_1") && !set.to_string().contains("base64"));
    // a second profile replaces the first; the ingest address stays, and so does the signing secret, because the second
    // profile contains none
    let again = shop.post(PROFILE, &issuer()).await.ok(200);
    assert_eq!((again["ingest_url"].as_str(), &again["created_at"]), (Some(url.as_str()), &set["created_at"]));
    assert_eq!((&again["signature_required"], &again["brand_color"]), (&json!(true), &json!("")));
    let mut body = issuer();
    body["rotate_token"] = json!(true);
    body["provider_signing_secret"] = json!("");
    let rotated = shop.post(PROFILE, &body).await.ok(200);
    assert_ne!(rotated["ingest_url"].as_str(), Some(url.as_str()));
    assert_eq!(rotated["signature_required"], false);
    let old = url[url.find("/v1/").unwrap()..].to_owned();
    refused(&server.send(Request::post(&*old, &json!({"type": "x"}))).await, 404, "NOT_FOUND");
    // another key of the account has no profile
    let sibling = Shop::of(&server, Plan::Payg, Environment::Live, Role::Developer, Some(shop.account.clone())).await;
    refused(&sibling.get(PROFILE).await, 404, "NOT_FOUND");
    assert_eq!(shop.spent().await, 0);
}

#[tokio::test]
async fn b11_b12_faults_of_a_profile_are_told_at_once() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let body = json!({"issuer": "", "registration_number": "T1", "delivery_mode": "fax", "delivery_email": "x", "default_tax_rate": 5,
        "brand_color": "red", "logo": "https://example.org/logo.png", "seal": "data:image/svg+xml,<svg/>"});
    let places: Vec<String> = faults(&shop.post(PROFILE, &body).await).into_iter().map(|(_, at)| at).collect();
    for name in
        ["registration_number", "delivery_mode", "delivery_email", "default_tax_rate", "brand_color", "logo", "seal"]
    {
        assert!(places.contains(&format!("body.{name}")), "{name}: {places:?}");
    }
    refused(&shop.get(PROFILE).await, 404, "NOT_FOUND");
}

#[tokio::test]
async fn b13_nothing_at_rest_tells_the_address_or_the_secret() {
    let server = TestServer::start().await;
    let shop = Shop::new(&server).await;
    let path = shop.set_profile(json!({"provider_signing_secret": "whsec_of_the_shop"})).await;
    let token = path.rsplit('/').next().unwrap().to_owned();
    let folder = server.stop().await;
    let mut files = vec![folder.path().to_owned()];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            for secret in [token.as_bytes(), b"whsec_of_the_shop"] {
                assert!(!bytes.windows(secret.len()).any(|part| part == secret), "{}", path.display());
            }
        }
    }
}

#[tokio::test]
async fn receipts_of_payments_say_for_what_they_were_paid() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let mut object = charge("1", 11_000);
    object["metadata"]["invoice_number"] = json!("A-1");
    let made = async |query: &str, more: Value| {
        let mut body = issuer();
        body["payment_object"] = object.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = shop.post(&format!("{INVOICES}/from_payment{query}"), &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer
    };
    let page = async |more: Value| made("?format=html", more).await.text().to_owned();
    assert!(!page(json!({})).await.contains("書籍代"));
    assert_eq!(shop.get(PROFILE).await.status, 404);
    let path = shop.set_profile(json!({"proviso": "書籍代"})).await;
    assert_eq!(shop.get(PROFILE).await.ok(200)["proviso"], "書籍代");
    assert!(page(json!({})).await.contains("書籍代　として"));
    let own = page(json!({"proviso": "お食事代"})).await;
    assert!(own.contains("お食事代　として") && !own.contains("書籍代"));
    assert!(!page(json!({"document_type": "invoice"})).await.contains("書籍代"));
    // a payment that was told by an event has the same document
    let told = server.send(Request::post(&*path, &event("1", "charge.succeeded", object.clone()))).await.ok(200);
    let kept = shop.get(&format!("{STORED}/{}", told["invoice_id"].as_str().unwrap())).await;
    assert!(kept.body == made("", json!({})).await.body);
    assert!(kept.body != made("", json!({"proviso": ""})).await.body);
}
