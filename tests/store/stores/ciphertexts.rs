//! Ciphertexts, the storage of an account for them, and operations on ciphertexts.

use super::encryption_keys::{account, delete, dropped, encryption_key, make_key};
use super::*;

fn ciphertext(id: &str, bytes: i64, now: i64) -> NewCiphertext {
    NewCiphertext {
        ciphertext_id: id.to_owned(),
        account_id: "acct_1".to_owned(),
        key_id: "key_1".to_owned(),
        environment: Environment::Test,
        origin: "upload".to_owned(),
        slot_count: 32,
        level: 3,
        scale: 1.1e12,
        value_bound: 0.1,
        variance: 1.5e-300,
        mixed: false,
        sources: None,
        object: format!("object of {id}"),
        node_id: String::new(),
        bytes,
        seeded: None,
        bytes_max: Some(100),
        evicted: Vec::new(),
        now,
    }
}

async fn keep(store: &Store, new: &NewCiphertext) -> Result<()> {
    store.write(async |tx| tx.insert_ciphertext(new).await).await
}

/// Evicts ciphertexts until the new ciphertext has room, and stores the new one. Returns the evicted ids.
async fn keep_with_room(store: &Store, new: NewCiphertext, pinned: &[&str]) -> Vec<String> {
    let pinned: Vec<String> = pinned.iter().map(|&id| id.to_owned()).collect();
    let plan = store.eviction_plan(&new.account_id, new.bytes, new.bytes_max, &pinned).await.unwrap();
    let new = NewCiphertext { evicted: plan.expect("the account has room"), ..new };
    keep(store, &new).await.unwrap();
    new.evicted
}

/// Makes an account with an encryption key.
async fn with_key(store: &Store) {
    account(store, 1, "acct_1").await;
    assert_eq!(make_key(store, &encryption_key("key_1", "acct_1", "mat_1")).await, KeyMade::Made);
}

async fn count(store: &Store) -> i64 {
    store.encryption_key("acct_1", "key_1").await.unwrap().unwrap().ciphertext_count
}

/// Describes a multiplication, on `node_1`.
fn multiplication(op_id: &str) -> NewOperation {
    operation_of(
        op_id,
        NewOperationOf::Arithmetic(NewArithmetic {
            key_id: "key_1".to_owned(),
            environment: Environment::Test,
            operation: "multiply".to_owned(),
        }),
    )
}

/// Reads the columns that only operations on numbers have, for an operation of `acct_1`.
async fn recorded_arithmetic(store: &Store, op_id: &str) -> Arithmetic {
    store.operation("acct_1", op_id).await.unwrap().unwrap().1.arithmetic().unwrap()
}

/// Makes a unit that completes an operation, with the operation's result and charge.
fn completed(op_id: &str, result: NewCiphertext) -> Unit {
    Unit {
        operation: Some(multiplication(op_id)),
        operation_end: Some(end_of(
            op_id,
            OperationStatus::Completed,
            12,
            Outcome::Arithmetic(ArithmeticOutcome {
                result_ciphertext_id: Some(result.ciphertext_id.clone()),
                cost_fcu: 5,
                evicted_ids: None,
            }),
        )),
        ciphertext: Some(result),
        arithmetic_charge: Some(ArithmeticUsage {
            usage_id: format!("use_{op_id}"),
            transfer_id: None,
            account_id: "acct_1".to_owned(),
            key_id: "key_1".to_owned(),
            environment: Environment::Test,
            operation: "multiply".to_owned(),
            fcu: 5,
            cost_nano_usd: 10_000,
            usd_milli_jpy: 150_000,
            compute_us: 7,
            created_at: 12,
        }),
        ..Unit::default()
    }
}

on_both! {
    async fn a_ciphertext_is_read_as_it_was_kept_by_its_account_alone(store: Store) {
        with_key(&store).await;
        keep(&store, &ciphertext("ct_1", 40, 10)).await.unwrap();
        let found = store.ciphertext("acct_1", "ct_1").await.unwrap().unwrap();
        assert_eq!((found.scale, found.value_bound, found.variance), (1.1e12, 0.1, 1.5e-300));
        assert_eq!((found.level, found.bytes, found.created_at, found.last_used_at), (3, 40, 10, 10));
        assert_eq!(store.use_ciphertext("acct_1", "ct_1", 15).await.unwrap().unwrap().last_used_at, 15);
        assert_eq!(store.ciphertext("acct_2", "ct_1").await.unwrap(), None);
        assert_eq!(store.use_ciphertext("acct_2", "ct_1", 16).await.unwrap(), None);
        assert_eq!((count(&store).await, store.ciphertext_bytes().await.unwrap()), (1, 40));
        assert_eq!(store.ciphertext_objects().await.unwrap(), ["object of ct_1"]);
        assert!(!store.delete_ciphertext("acct_2", "ct_1", 20).await.unwrap());
        assert!(store.delete_ciphertext("acct_1", "ct_1", 20).await.unwrap());
        assert!(!store.delete_ciphertext("acct_1", "ct_1", 20).await.unwrap());
        assert_eq!((count(&store).await, store.ciphertext_bytes().await.unwrap()), (0, 0));
        assert_eq!(dropped(&store, "").await, ["ciphertexts: object of ct_1"]);
    }

    async fn k14_what_was_unused_for_longest_goes_but_for_what_is_pinned(store: Store) {
        with_key(&store).await;
        for (id, now) in [("ct_1", 11), ("ct_2", 12), ("ct_3", 13)] {
            assert_eq!(keep_with_room(&store, ciphertext(id, 30, now), &[]).await, [""; 0]);
        }
        store.use_ciphertext("acct_1", "ct_1", 14).await.unwrap();
        assert_eq!(keep_with_room(&store, ciphertext("ct_4", 10, 15), &[]).await, [""; 0]);
        assert_eq!(keep_with_room(&store, ciphertext("ct_5", 40, 16), &["ct_2"]).await, ["ct_3", "ct_1"]);
        assert_eq!((count(&store).await, store.ciphertext_bytes().await.unwrap()), (3, 80));
        assert_eq!(store.ciphertext("acct_1", "ct_3").await.unwrap(), None);
        assert_eq!(dropped(&store, "").await, ["ciphertexts: object of ct_1", "ciphertexts: object of ct_3"]);
        // there is no plan for a ciphertext larger than the limit, or for one that does not fit beside the pinned ones
        let plan = async |bytes, pinned: &[String]| store.eviction_plan("acct_1", bytes, Some(100), pinned).await.unwrap();
        assert_eq!(plan(101, &[]).await, None);
        assert_eq!(plan(100, &["ct_5".to_owned()]).await, None);
        assert_eq!(plan(100, &[]).await.unwrap().len(), 3);
        assert_eq!(store.eviction_plan("acct_1", i64::MAX, None, &[]).await.unwrap(), Some(Vec::new()));
        // the store refuses a ciphertext whose plan evicts too little, and changes nothing
        assert!(matches!(keep(&store, &ciphertext("ct_6", 60, 17)).await, Err(Error::NoRoom)));
        assert_eq!((count(&store).await, store.ciphertext_bytes().await.unwrap()), (3, 80));
    }

    async fn k14_a_long_plan_passes_over_many_pinned_ones(store: Store) {
        with_key(&store).await;
        let ids: Vec<String> = (0..150).map(|n| format!("ct_{n:03}")).collect();
        for id in &ids {
            keep(&store, &NewCiphertext { bytes_max: None, ..ciphertext(id, 1, 10) }).await.unwrap();
        }
        let plan = store.eviction_plan("acct_1", 1, Some(149), &ids[..140]).await.unwrap();
        assert_eq!(plan, Some(vec![ids[140].clone(), ids[141].clone()]));
    }

    async fn k15_a_key_goes_with_its_ciphertexts_and_takes_no_more(store: Store) {
        with_key(&store).await;
        let other = NewEncryptionKey { digest: &[8; 32], ..encryption_key("key_2", "acct_1", "mat_2") };
        make_key(&store, &other).await;
        keep(&store, &ciphertext("ct_1", 10, 10)).await.unwrap();
        keep(&store, &ciphertext("ct_2", 20, 10)).await.unwrap();
        keep(&store, &NewCiphertext { key_id: "key_2".to_owned(), ..ciphertext("ct_3", 30, 10) }).await.unwrap();
        assert_eq!(delete(&store, "acct_1", "key_1").await, Some(DeletedKey { ciphertexts: 2 }));
        assert_eq!(store.ciphertext_bytes().await.unwrap(), 30);
        assert_eq!(store.ciphertext("acct_1", "ct_1").await.unwrap(), None);
        assert!(store.ciphertext("acct_1", "ct_3").await.unwrap().is_some());
        assert!(dropped(&store, "").await.contains(&"ciphertexts: object of ct_2".to_owned()));
        assert!(matches!(keep(&store, &ciphertext("ct_4", 10, 10)).await, Err(Error::KeyGone)));
        // an operation that ends after its key was deleted leaves no result, no row and no charge
        let unit = store.submit(completed("op_1", ciphertext("ct_4", 10, 12))).await;
        assert!(matches!(unit, Err(Error::KeyGone)));
        assert_eq!(recorded(&store, "op_1").await, None);
        assert_eq!(store.ciphertext_bytes().await.unwrap(), 30);
    }

    async fn ciphertexts_that_are_not_used_for_long_are_forgotten(store: Store) {
        with_key(&store).await;
        for (id, now) in [("ct_1", 10), ("ct_2", 11), ("ct_3", 12)] {
            keep(&store, &ciphertext(id, 10, now)).await.unwrap();
        }
        store.use_ciphertext("acct_1", "ct_1", 20).await.unwrap();
        assert_eq!(store.forget_ciphertexts(12, 30).await.unwrap(), 1);
        assert_eq!((count(&store).await, store.ciphertext_bytes().await.unwrap()), (2, 20));
        assert_eq!(dropped(&store, "").await, ["ciphertexts: object of ct_2"]);
    }

    async fn ciphertexts_of_a_key_are_listed_newest_first(store: Store) {
        with_key(&store).await;
        for (id, now) in [("ct_1", 10), ("ct_2", 11), ("ct_3", 11)] {
            keep(&store, &ciphertext(id, 10, now)).await.unwrap();
        }
        let ids = async |key_id: &'static str, after, rows_max| {
            let page = store.ciphertexts_page("acct_1", key_id, after, rows_max).await.unwrap();
            (page.rows.into_iter().map(|row| row.ciphertext_id).collect::<Vec<_>>(), page.total)
        };
        assert_eq!(ids("key_1", None, 2).await, (vec!["ct_3".to_owned(), "ct_2".to_owned()], 3));
        assert_eq!(ids("key_1", Some((11, "ct_2")), 9).await, (vec!["ct_1".to_owned()], 3));
        assert_eq!(ids("key_2", None, 9).await, (vec![], 0));
    }

    async fn an_operation_its_result_and_its_charge_are_one_unit(store: Store) {
        with_key(&store).await;
        store.submit(completed("op_1", ciphertext("ct_1", 60, 12))).await.unwrap();
        let (found, operation) = (recorded(&store, "op_1").await.unwrap(), recorded_arithmetic(&store, "op_1").await);
        assert_eq!((found.status, operation.cost_fcu), (OperationStatus::Completed, Some(5)));
        assert_eq!(operation.result_ciphertext_id.as_deref(), Some("ct_1"));
        assert_eq!((operation.key_id.as_str(), operation.operation.as_str()), ("key_1", "multiply"));
        assert_eq!(store.operation("acct_2", "op_1").await.unwrap(), None);
        // the unit of op_2 fails, because the result has no room; the unit of op_1 fails, because op_1 has ended; the unit
        // of op_4 succeeds
        let units = [
            completed("op_2", ciphertext("ct_2", 60, 12)),
            completed("op_1", ciphertext("ct_3", 1, 12)),
            completed("op_4", ciphertext("ct_4", 1, 12)),
        ];
        let [two, three, four] = units.map(|unit| store.submit(unit));
        let (two, three, four) = tokio::join!(two, three, four);
        assert!(matches!(two, Err(Error::NoRoom)), "{two:?}");
        assert!(matches!(three, Err(Error::OperationEnded)), "{three:?}");
        four.unwrap();
        let key = store.encryption_key("acct_1", "key_1").await.unwrap().unwrap();
        assert_eq!((key.operation_count, key.ciphertext_count), (2, 2));
        assert_eq!((store.arithmetic_usage_total("acct_1").await.unwrap(), store.ciphertext_bytes().await.unwrap()), (10, 61));
        assert_eq!(recorded(&store, "op_2").await, None);
        // C3: the store deletes only operations that ended before the given time
        assert_eq!(store.forget_operations(12).await.unwrap(), 0);
        assert_eq!(store.forget_operations(13).await.unwrap(), 2);
    }

    async fn operations_of_a_node_that_starts_again_have_failed(store: Store) {
        for op_id in ["op_1", "op_2"] {
            store.submit(begin(multiplication(op_id))).await.unwrap();
        }
        assert_eq!(store.fail_unfinished_operations("node_2", "C", ["", "why"], 20).await.unwrap(), 0);
        assert_eq!(store.fail_unfinished_operations("node_1", "C", ["", "why"], 20).await.unwrap(), 2);
        let found = recorded(&store, "op_1").await.unwrap();
        assert_eq!(found.error_message.as_deref(), Some("why"));
        assert_eq!(recorded_arithmetic(&store, "op_1").await.cost_fcu, Some(0));
        assert_eq!((found.status, found.error_code.as_deref(), found.ended_at), (OperationStatus::Failed, Some("C"), Some(20)));
    }

    async fn a12_an_ended_trial_leaves_neither_keys_nor_ciphertexts(store: Store) {
        let trial = NewApiKey { role: Role::Trial, environment: Environment::Trial, ..key(&[1; 32], "ak_1", "acct_1") };
        let trial = NewApiKey { plan: Plan::Trial, expires_at: Some(50), ..trial };
        let window = TrialWindow { network: &[3; 32], keys_max: 5, length: 50 };
        store.insert_trial_key(&trial, &[1; 52], window).await.unwrap();
        make_key(&store, &encryption_key("key_1", "acct_1", "mat_1")).await;
        keep(&store, &ciphertext("ct_1", 10, 12)).await.unwrap();
        store.submit(completed("op_1", ciphertext("ct_2", 10, 12))).await.unwrap();
        let upload = NewKeyUpload {
            upload_id: "up_1",
            environment: Environment::Trial,
            scheme: "ckks",
            params: "{}",
            material: super::super::encryption_keys::material("mat_2", "acct_1"),
            expires_at: 500,
            keys_max: None,
        };
        store.write(async |tx| tx.insert_key_upload(&upload).await).await.unwrap();
        assert!(store.erase_trial("acct_1", 40, 60).await.unwrap());
        assert_eq!(store.encryption_key("acct_1", "key_1").await.unwrap(), None);
        assert_eq!(store.key_upload("acct_1", "up_1", 60).await.unwrap(), None);
        assert_eq!(recorded(&store, "op_1").await, None);
        assert_eq!((store.ciphertext_bytes().await.unwrap(), store.key_bytes().await.unwrap()), (0, 0));
        assert_eq!(store.arithmetic_usage_total("acct_1").await.unwrap(), 0);
        assert_eq!(dropped(&store, "").await.len(), 5);
        assert!(matches!(keep(&store, &ciphertext("ct_3", 10, 61)).await, Err(Error::KeyGone)));
    }
}
