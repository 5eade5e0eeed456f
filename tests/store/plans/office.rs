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
    let told = |id: &str| Announcement {
        document_id: id.to_owned(),
        account_id: "acct_1".to_owned(),
        lineage_id: "lin_1".to_owned(),
        provider: "stripe".to_owned(),
        event_type: "invoice.paid".to_owned(),
        sealed_event: vec![1],
        payment_id: "pi_1".to_owned(),
        verdict: Verdict::Issue,
        is_final: false,
        wait_until: 6,
        leased_until: 6,
        received_at: 5,
    };
    let sale = |id: &str, names: &[&str], invoice_id: &str, fullness| NewSale {
        told: told(id),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        invoice_id: invoice_id.to_owned(),
        fullness,
        customer: "cus_1".to_owned(),
        total_yen: 5,
        paid_at: 5,
        is_intent: invoice_id.is_empty(),
    };
    let known = |id: &str| DocumentClaim::Known {
        document_id: id.to_owned(),
        state: DocumentState::Waiting,
        error: String::new(),
    };
    for (sale, document_id) in [
        (sale("inv_p", &["evt_1", "pi_1"], "", 2), "inv_p"),
        (sale("inv_q", &["evt_2", "pi_1"], "", 1), "inv_p"),
        (sale("inv_r", &["evt_3", "in_1"], "in_1", 5), "inv_p"),
        (sale("inv_s", &["evt_4", "pi_2"], "in_2", 2), "inv_s"),
        (sale("inv_t", &["evt_5", "pi_1", "pi_2"], "in_2", 5), "inv_p"),
    ] {
        assert_eq!(store.write(async |tx| tx.claim_sale(&sale).await).await?, known(document_id));
    }
    let returned = |id: &str, names: &[&str], sale: &str, amount_yen, is_cumulative| NewReturn {
        told: told(id),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        covers: Vec::new(),
        sale_names: vec![sale.to_owned()],
        invoice_id: "in_9".to_owned(),
        amount_yen,
        is_cumulative,
    };
    for (returned, document_id) in [
        (returned("inv_u", &["evt_6"], "pi_1", 3, true), "inv_u"),
        (returned("inv_v", &["evt_7", "re_1"], "pi_1", 2, false), "inv_v"),
        (returned("inv_w", &["evt_8", "re_1", "cn_1"], "pi_1", 2, false), "inv_v"),
        (returned("inv_x", &["evt_9"], "pi_1", 5, true), "inv_u"),
        (returned("inv_y", &["evt_10"], "pi_9", 5, true), "inv_y"),
    ] {
        assert_eq!(store.write(async |tx| tx.claim_return(&returned).await).await?, known(document_id));
    }
    assert!(store.has_due_documents(7).await?);
    assert_eq!(store.due_documents(7, 9).await?.len(), 4);
    assert_eq!(store.waiting_documents("acct_1").await?.0, 4);
    store.has_documents_due_after(2).await?;
    store.hasten_future_documents(1, 90).await?;
    let due = store.due_document("inv_p").await?.expect("a sale that waits");
    let of_sale = store.due_document("inv_v").await?.expect("a return that waits");
    assert_eq!((of_sale.sale_id.as_str(), of_sale.yen), ("inv_p", 2));
    assert_eq!(store.sale_of_return("inv_p").await?.map(|sale| sale.state), Some(DocumentState::Waiting));
    store.put_document_off(&due, DocumentState::Held, 90, "why").await?;
    store.put_document_off(&of_sale, DocumentState::NotIssued, 90, "why").await?;
    for filter in [UnissuedFilter(DocumentState::NotIssued), UnissuedFilter(DocumentState::Waiting)] {
        assert!(!store.unissued_documents_page("lin_1", filter, None, 9).await?.rows.is_empty());
        store.unissued_documents_page("lin_1", filter, Some((0, "")), 9).await?;
    }
    assert_eq!(store.count_not_issued("lin_1").await?, 1);
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
        warnings: "[]".to_owned(),
        created_at: 6,
    };
    let issuer = DocumentIssuer {
        document_id: "inv_p".to_owned(),
        registration_number: "T7000012050002".to_owned(),
        name: "C".to_owned(),
    };
    let finished = store
        .write(async |tx| {
            tx.hasten_documents("lin_1", 7).await?;
            tx.insert_document(&document, &[1]).await?;
            tx.insert_document_issuer(&issuer).await?;
            assert_eq!(tx.document_family("inv_p").await?.len(), 1);
            let first = tx.finish_document(&due, &[1], 7).await?;
            let of_return = tx.finish_document(&of_sale, &[], 7).await?;
            Ok::<_, store::Error>([first, of_return, tx.finish_document(&due, &[1], 7).await?])
        })
        .await?;
    // the return is due again, because its sale has a document now
    assert_eq!(finished, [true, false, false]);
    let all = DocumentFilter::default();
    assert_eq!(store.stored_documents_page("lin_1", &all, None, 9).await?.rows, [document]);
    store.stored_documents_page("lin_1", &all, Some((0, "")), 9).await?;
    assert!(store.stored_document("lin_1", "inv_p").await?.is_some());
    assert!(store.stored_document_of_id("inv_p").await?.is_some());
    assert_eq!(store.document_issuer("inv_p").await?, Some(issuer));
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
    store.standing_and_version("acct_1").await?;
    store.office_spending("acct_1", 1).await?;
    store.write(async |tx| tx.set_office_cap("lin_1", 0, 8).await).await
}
