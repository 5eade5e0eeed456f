use super::*;

async fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&format!("sqlite:{}/t.db", folder.path().display())).await.unwrap();
    (folder, store)
}

fn key<'a>(digest: &'a [u8; 32], key_id: &'a str, account_id: &'a str) -> NewApiKey<'a> {
    NewApiKey {
        key_id,
        account_id,
        lineage_id: "lin_1",
        digest,
        key_prefix: "svc_live_0123456",
        role: "developer",
        environment: "live",
        created_at: 5,
        expires_at: None,
    }
}

fn session<'a>(digest: &'a [u8; 32], account_id: &'a str) -> NewGateSession<'a> {
    NewGateSession {
        digest,
        account_id,
        environment: "live",
        preset: "fast_128",
        is_blind: true,
        created_at: 10,
        expires_at: 20,
    }
}

fn usage<'a>(usage_id: &'a str, session_digest: &'a [u8; 32]) -> GateUsage<'a> {
    GateUsage {
        usage_id,
        session_digest,
        account_id: "acct_1",
        environment: "live",
        gates: 2,
        by_gate: r#"{"NAND":1,"MUX":1}"#,
        bootstrap_ops: 4,
        bootstraps_done: 3,
        cost_milli_yen: 400,
        compute_us: 7,
        created_at: 12,
    }
}

#[tokio::test]
async fn a_key_is_found_by_its_digest_until_it_is_revoked_and_still_listed_after() {
    let (_folder, store) = store().await;
    assert!(!store.has_api_keys().await.unwrap());
    store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
    store.insert_api_key(&key(&[2; 32], "ak_2", "acct_1")).await.unwrap();
    assert!(store.has_api_keys().await.unwrap());
    assert!(store.has_account("acct_1").await.unwrap());
    assert!(!store.has_account("acct_2").await.unwrap());
    assert_eq!(store.api_key(&[3; 32]).await.unwrap(), None);
    assert_eq!(store.api_key(&[1; 32]).await.unwrap().unwrap().revoked_at, None);
    assert!(store.revoke_api_key("ak_1", 9).await.unwrap());
    assert!(!store.revoke_api_key("ak_1", 10).await.unwrap());
    assert_eq!(store.api_key(&[1; 32]).await.unwrap().unwrap().revoked_at, Some(9));
    assert_eq!(store.api_key(&[2; 32]).await.unwrap().unwrap().revoked_at, None);
}

#[tokio::test]
async fn the_schema_refuses_an_unknown_role() {
    let (_folder, store) = store().await;
    let bad = NewApiKey { role: "root", ..key(&[1; 32], "ak_1", "acct_1") };
    assert!(store.insert_api_key(&bad).await.is_err());
    // and the account of the failed transaction is not there either
    assert!(!store.has_account("acct_1").await.unwrap());
}

#[tokio::test]
async fn a_session_is_visible_to_its_account_only_and_ends_once() {
    let (_folder, store) = store().await;
    for account in ["acct_1", "acct_2"] {
        store.insert_api_key(&key(&[account.as_bytes()[5]; 32], account, account)).await.unwrap();
    }
    store.insert_gate_session(&session(&[1; 32], "acct_1")).await.unwrap();
    assert_eq!(store.gate_session("acct_2", &[1; 32]).await.unwrap(), None);
    assert_eq!(store.gate_session("acct_1", &[1; 32]).await.unwrap().unwrap().state, "active");
    assert_eq!(store.active_gate_sessions("acct_1").await.unwrap().len(), 1);
    assert!(store.end_gate_session(&[1; 32], SessionEnd::Deleted, 15).await.unwrap());
    assert!(!store.end_gate_session(&[1; 32], SessionEnd::Expired, 16).await.unwrap());
    let ended = store.gate_session("acct_1", &[1; 32]).await.unwrap().unwrap();
    assert_eq!((ended.state.as_str(), ended.ended_at), ("deleted", Some(15)));
    assert!(store.active_gate_sessions("acct_1").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_charge_moves_the_session_and_the_record_together_or_not_at_all() {
    let (_folder, store) = store().await;
    store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
    store.insert_gate_session(&session(&[1; 32], "acct_1")).await.unwrap();
    store.charge_gates(&usage("use_1", &[1; 32])).await.unwrap();
    // the same row again, and a session that does not exist: neither leaves a trace
    store.charge_gates(&usage("use_1", &[1; 32])).await.unwrap_err();
    store.charge_gates(&usage("use_2", &[9; 32])).await.unwrap_err();
    let row = store.gate_session("acct_1", &[1; 32]).await.unwrap().unwrap();
    assert_eq!((row.gates_used, row.total_cost_milli_yen), (2, 400));
    assert_eq!(store.gate_usage_totals("acct_1").await.unwrap(), (2, 4, 400));
}

#[tokio::test]
async fn concurrent_charges_add_up() {
    let (_folder, store) = store().await;
    store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
    store.insert_gate_session(&session(&[1; 32], "acct_1")).await.unwrap();
    let tasks: Vec<_> = (0..50)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.charge_gates(&usage(&format!("use_{n}"), &[1; 32])).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let row = store.gate_session("acct_1", &[1; 32]).await.unwrap().unwrap();
    assert_eq!((row.gates_used, row.total_cost_milli_yen), (100, 20_000));
    assert_eq!(store.gate_usage_totals("acct_1").await.unwrap(), (100, 200, 20_000));
}

#[tokio::test]
async fn sessions_of_an_earlier_process_are_lost() {
    let (_folder, store) = store().await;
    store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
    store.insert_gate_session(&session(&[1; 32], "acct_1")).await.unwrap();
    store.insert_gate_session(&session(&[2; 32], "acct_1")).await.unwrap();
    store.end_gate_session(&[2; 32], SessionEnd::Deleted, 11).await.unwrap();
    assert_eq!(store.lose_gate_sessions(15).await.unwrap(), 1);
    assert_eq!(store.gate_session("acct_1", &[1; 32]).await.unwrap().unwrap().state, "lost");
    assert_eq!(store.gate_session("acct_1", &[2; 32]).await.unwrap().unwrap().state, "deleted");
}

#[tokio::test]
async fn opening_twice_keeps_what_was_there_and_the_file_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/t.db", folder.path().display());
    let first = Store::open(&url).await.unwrap();
    first.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
    let second = Store::open(&url).await.unwrap();
    assert!(second.has_api_keys().await.unwrap());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{:?}", entry.file_name());
        }
    }
}

#[tokio::test]
async fn urls_of_other_databases_are_refused() {
    for url in ["postgres://h/db", "sqlite::memory:", "sqlite:", "mysql://h/db", ""] {
        assert!(matches!(Store::open(url).await, Err(Error::Url(_))), "{url}");
    }
}

#[tokio::test]
async fn a_database_that_cannot_be_opened_is_told_with_its_cause_once() {
    let folder = tempfile::tempdir().unwrap();
    let no_database = folder.path().join("t.db");
    std::fs::write(&no_database, [7; 1000]).unwrap();
    for (path, cause) in
        [(no_database, "file is not a database"), (folder.path().join("none/t.db"), "No such file or directory")]
    {
        let error = Store::open(&format!("sqlite:{}", path.display())).await.unwrap_err();
        let chain = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let told = chain.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        assert_eq!(told.matches(cause).count(), 1, "{told}");
    }
}
