//! The documents that may correct a stored document (consumption tax act, article 57-4).

use serde_json::{Value, json};
use tests_service::http::{Request, Response};

use crate::shop::*;

const OTHER_NUMBER: &str = "T1180301018771";

/// Stores the receipt of a payment. Returns the path of its corrections.
async fn receipt(shop: &Shop<'_>, yen: i64) -> String {
    let path = shop.set_profile(json!({})).await;
    shop.server.send(Request::post(&*path, &event("1", "charge.succeeded", charge("1", yen)))).await.ok(200);
    corrections_of(&shop.stored("").await[0])
}

fn corrections_of(document: &Value) -> String {
    format!("{STORED}/{}/corrections", document["invoice_id"].as_str().unwrap())
}

/// The body of a correction with this tax-inclusive total.
fn correction(kind: &str, yen: i64) -> Value {
    let mut body = invoice();
    body["document_type"] = json!(kind);
    body["original_date"] = json!("2025-12-01");
    body["tax_inclusive"] = json!(true);
    body["items"][0]["unit_price"] = json!(yen);
    body
}

#[track_caller]
fn places(response: &Response) -> Vec<String> {
    faults(response).into_iter().map(|(_, at)| at).collect()
}

#[tokio::test]
async fn b1_a_correction_has_a_kind_that_corrects() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let path = receipt(&shop, 11_000).await;
    for kind in ["quote", "invoice", "simplified_invoice", "delivery_note", "請求書"] {
        assert_eq!(places(&shop.post(&path, &correction(kind, 11_000)).await), ["body.document_type"], "{kind}");
    }
    assert_eq!((shop.stored("").await.len(), shop.spent().await), (1, 10));
    for kind in ["receipt", "corrected_invoice", "credit_note"] {
        shop.post(&path, &correction(kind, 11_000)).await.ok(200);
    }
}

#[tokio::test]
async fn b1_a_correction_is_from_the_issuer_of_the_original() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let path = receipt(&shop, 11_000).await;
    let with = |issuer: &str, number: &str| {
        let mut body = correction("corrected_invoice", 11_000);
        (body["issuer"], body["registration_number"]) = (json!(issuer), json!(number));
        body
    };
    let other = with("別の会社", OTHER_NUMBER);
    assert_eq!(places(&shop.post(&path, &other).await), ["body.registration_number", "body.issuer"]);
    assert_eq!(places(&shop.post(&path, &with("株式会社あんご", OTHER_NUMBER)).await), ["body.registration_number"]);
    // width and legal form do not matter
    let path = corrections_of(&shop.post(&path, &with("㈱あんご", "Ｔ7000012050002")).await.ok(200));
    // a new name of the issuer is in the profile; a new number is another issuer's, also in a chain of corrections
    shop.set_profile(json!({"issuer": "あんご改め合同会社みらい", "registration_number": OTHER_NUMBER})).await;
    let path = corrections_of(&shop.post(&path, &with("あんご改め合同会社みらい", "T7000012050002")).await.ok(200));
    assert_eq!(places(&shop.post(&path, &with("株式会社あんご", OTHER_NUMBER)).await).len(), 2);
}

#[tokio::test]
async fn b1_credit_notes_return_no_more_than_was_sold() {
    let server = start_at_once().await;
    let shop = Shop::new(&server).await;
    let path = receipt(&shop, 11_000).await;
    assert_eq!(places(&shop.post(&path, &correction("credit_note", 11_001)).await), ["body.items"]);
    let first = shop.post(&path, &correction("credit_note", 6_000)).await.ok(200);
    assert_eq!(places(&shop.post(&path, &correction("credit_note", -5_001)).await), ["body.items"]);
    // a copy takes the place of the credit note, which is no invoice
    let of_first = corrections_of(&first);
    assert_eq!(places(&shop.post(&of_first, &correction("corrected_invoice", 5)).await), ["body.document_type"]);
    shop.post(&of_first, &correction("credit_note", 7_000)).await.ok(200);
    assert_eq!(places(&shop.post(&path, &correction("credit_note", 4_001)).await), ["body.items"]);
    shop.post(&path, &correction("credit_note", -4_000)).await.ok(200);
    // nothing of a refused note is kept or charged
    assert_eq!((shop.stored("").await.len(), shop.spent().await), (4, 40));
    audited(&server).await;
}
