//! The statements of the back office.

use api::{Environment, Plan};
use store::*;

use super::new_key;

/// Runs the statements that nodes use for the back office.
pub async fn tour(store: &Store) -> store::Result<()> {
    let charge = |n: i64| OfficeCharge {
        usage_id: format!("use_o{n}"),
        // an account without a budget
        account_id: "acct_9".to_owned(),
        lineage_id: "lin_1".to_owned(),
        node_id: "node_1".to_owned(),
        environment: Environment::Live,
        month: 2,
        usd_milli_jpy: 1000,
        created_at: 5,
        operation: "document",
        units: 1,
        milli_yen: 10_000,
        calls_max: None,
        keep: None,
    };
    store.write(async |tx| tx.set_office_cap("lin_1", 15, 5).await).await?;
    assert_eq!(store.charge_office(charge(1)).await?, OfficeCharged::Made);
    assert_eq!(store.charge_office(charge(2)).await?, OfficeCharged::CapReached { cap_yen: 15 });
    assert_eq!((store.office_cap("lin_1").await?, store.office_calls("acct_9", 2).await?), (Some(15), 1));
    assert_eq!(store.office_totals("acct_9", "lin_1", 2).await?.len(), 1);
    store.write(async |tx| tx.note_reached_cap("lin_1", 1, 15, 12_000, 6).await).await?;
    assert_eq!(store.office_cap_alerts("lin_1", 1, 15).await?.len(), 1);
    let profile = IssuerProfile {
        lineage_id: "lin_1".to_owned(),
        account_id: "acct_1".to_owned(),
        environment: Environment::Live,
        sealed_profile: vec![1],
        token_digest: vec![2; 32],
        sealed_token: vec![3],
        created_at: 5,
        updated_at: 5,
    };
    store
        .write(async |tx| {
            assert_eq!(tx.lock_issuer_profile("acct_1", "lin_1").await?, None);
            tx.put_issuer_profile(&profile, true).await
        })
        .await?;
    assert_eq!(store.issuer_profile("lin_1").await?, Some(profile));
    store.issuer_profile_of_token(&[2; 32], 6).await?;
    let payment = |id: &str, names: &[&str], is_invoice| NewPayment {
        document_id: id.to_owned(),
        account_id: "acct_1".to_owned(),
        lineage_id: "lin_1".to_owned(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        sealed_event: vec![1],
        customer: "cus_1".to_owned(),
        total_yen: 5,
        paid_at: 5,
        is_invoice,
        is_intent: !is_invoice,
        due_at: 6,
        received_at: 5,
    };
    let known = ClaimedPayment::Known { document_id: "inv_p".to_owned(), state: PaymentState::Waiting };
    for (payment, claimed) in [
        (payment("inv_p", &["evt_1", "pi_1"], false), ClaimedPayment::New),
        (payment("inv_q", &["evt_2", "pi_1"], false), known.clone()),
        (payment("inv_r", &["evt_3", "in_1"], true), known),
    ] {
        assert_eq!(store.write(async |tx| tx.claim_payment(&payment).await).await?, claimed);
    }
    assert!(store.has_due_payments(7).await?);
    assert_eq!(store.due_payments(7, 9).await?.len(), 1);
    store.put_payment_off("inv_p", PaymentState::Held, 90, "why").await?;
    let document = StoredDocument {
        document_id: "inv_p".to_owned(),
        account_id: "acct_1".to_owned(),
        lineage_id: "lin_1".to_owned(),
        number: "A-1".to_owned(),
        kind: "receipt".to_owned(),
        recipient: "B".to_owned(),
        recipient_key: "b".to_owned(),
        total_yen: 5,
        issue_date: "2025-12-01".to_owned(),
        transaction_date: "2025-12-01".to_owned(),
        payment_id: "pi_1".to_owned(),
        original_id: String::new(),
        pdf_sha256: "ab".to_owned(),
        delivery_status: DeliveryState::Pending,
        created_at: 6,
    };
    let finished = store
        .write(async |tx| {
            tx.hasten_payments("lin_1", 7).await?;
            tx.insert_document(&document, &[1]).await?;
            Ok::<_, store::Error>([tx.finish_payment("inv_p").await?, tx.finish_payment("inv_p").await?])
        })
        .await?;
    assert_eq!(finished, [true, false]);
    let all = DocumentFilter::default();
    assert_eq!(store.stored_documents_page("lin_1", &all, None, 9).await?.rows, [document]);
    store.stored_documents_page("lin_1", &all, Some((0, "")), 9).await?;
    assert!(store.stored_document("lin_1", "inv_p").await?.is_some());
    assert!(store.stored_document_of_id("inv_p").await?.is_some());
    assert_eq!(store.document_file("inv_p").await?, Some(vec![1]));
    let key = new_key(&[77; 32], "ak_bought", "acct_1", Environment::Live);
    let purchase = NewPurchase {
        session_id: "cs_1",
        customer_id: "cus_1",
        subscription_id: "sub_1",
        unknown_plan: "",
        sealed_key: &[1],
    };
    let ended = store
        .write(async |tx| {
            assert!(tx.insert_purchase(&purchase, &key).await?);
            assert!(!tx.insert_purchase(&purchase, &key).await?);
            tx.label_key("ak_bought", "a shop").await?;
            assert!(tx.grant_plan("acct_1", Plan::Free, 7).await?.is_some());
            tx.end_purchases("sub_1", 7).await
        })
        .await?;
    assert_eq!(ended.iter().map(|one| one.lineage_id.as_str()).collect::<Vec<_>>(), ["ak_bought"]);
    assert!(store.purchase("cs_1").await?.is_some());
    assert_eq!(store.account_of_buyer("cus_1").await?.as_deref(), Some("acct_1"));
    assert_eq!(store.hide_purchased_keys(9).await?, 1);
    store.key_labels().await?;
    store.account_standing("acct_1").await?;
    store.office_spending("acct_1", 1).await?;
    store.write(async |tx| tx.set_office_cap("lin_1", 0, 8).await).await
}
