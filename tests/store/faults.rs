//! Databases that fail and work again: the store goes on with the same process, and writes nothing twice.

use store::schema::Schema;
use store::{Error, Store, Unit};
use tests_store::{Kind, PgBouncer, psql};

/// Ends every connection to the database except the one that runs this statement.
const CUT: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
     WHERE datname = current_database() AND pid <> pg_backend_pid()";

/// Makes a new PostgreSQL database. Returns its URL, and a store on it.
async fn postgres() -> Option<(String, Store)> {
    let url = Kind::Postgres.new_url(std::path::Path::new(""))?;
    let store = Store::connect(&url).await.unwrap();
    Some((url, store))
}

/// Returns the name of the database of a URL.
fn name_of(url: &str) -> &str {
    let (database, _) = url.split_once("?host=").unwrap();
    database.rsplit('/').next().unwrap()
}

/// Reads through as many connections as the store has.
async fn read_at_once(store: &Store) -> Vec<Result<bool, Error>> {
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..store.connections().max {
        let store = store.clone();
        callers.spawn(async move { store.has_users().await });
    }
    callers.join_all().await
}

#[tokio::test]
async fn connections_that_were_cut_cost_nobody_a_read() {
    let Some((url, store)) = postgres().await else { return };
    for _ in 0..3 {
        for read in read_at_once(&store).await {
            read.unwrap();
        }
        psql(&url, CUT);
    }
}

#[tokio::test]
async fn connections_that_were_cut_cost_nobody_a_write_and_no_write_is_done_twice() {
    let Some((url, store)) = postgres().await else { return };
    for round in 1..4 {
        for read in read_at_once(&store).await {
            read.unwrap();
        }
        psql(&url, CUT);
        // a statement of its own, a work of a group, a transaction
        store.renew_lease("node_1", round).await.unwrap();
        psql(&url, CUT);
        store.submit(Unit::default()).await.unwrap();
        psql(&url, CUT);
        let is_new = store.write(async |tx| tx.announce(&format!("fact {round}"), 1).await).await.unwrap();
        assert!(is_new, "the fact was written once");
        store.probe().await.unwrap();
    }
}

#[tokio::test]
async fn o2_a_database_that_has_become_read_only_is_found_without_a_write() {
    let Some((url, store)) = postgres().await else { return };
    store.renew_lease("node_1", 1).await.unwrap();
    let to_all = |is_on: &str| {
        psql(&url, &format!("ALTER DATABASE {} SET default_transaction_read_only = {is_on}", name_of(&url)));
        psql(&url, CUT);
    };
    to_all("on");
    assert!(matches!(store.probe().await, Err(Error::ReadOnly)));
    // reads go on
    store.has_users().await.unwrap();
    assert!(store.renew_lease("node_1", 2).await.is_err());
    // after a failover, the connections still lead to the read-only server, and new ones lead to the other
    psql(&url, &format!("ALTER DATABASE {} RESET default_transaction_read_only", name_of(&url)));
    store.renew_lease("node_1", 3).await.unwrap();
    store.probe().await.unwrap();
}

#[tokio::test]
async fn c4_a_value_that_the_database_refuses_is_a_fault_of_the_request_and_no_failure() {
    let Some((_, store)) = postgres().await else { return };
    let long = "x".repeat(1 << 20);
    for text in ["a\0b", "\0", &long] {
        let error = store.renew_lease(text, 1).await.unwrap_err();
        assert!(error.is_of_data(), "{error}");
    }
    store.probe().await.unwrap();
}

#[tokio::test]
async fn f4_the_store_works_behind_pgbouncer_in_every_mode_that_has_transactions() {
    for settings in ["pool_mode = session", "pool_mode = transaction", "pool_mode = transaction\ndefault_pool_size = 1"]
    {
        let Some(url) = Kind::Postgres.empty_url(std::path::Path::new("")) else { return };
        let Some((_pooler, through)) = PgBouncer::in_front_of(&url, settings) else { return };
        // twice, as two nodes do; the second finds the names of the first one's statements on its connection
        for node in ["node_1", "node_2"] {
            let store = Store::open(&through).await.unwrap();
            assert_eq!(store.is_behind_pooler(), settings.contains("transaction"), "{settings}");
            assert_eq!(store.schema().await.unwrap(), Schema::Current);
            for round in 0..3 {
                for read in read_at_once(&store).await {
                    assert!(!read.unwrap());
                }
                store.renew_lease(node, round).await.unwrap();
                store.submit(Unit::default()).await.unwrap();
                assert!(store.write(async |tx| tx.announce(&format!("{node} {round}"), 1).await).await.unwrap());
            }
            assert_eq!(store.audit_ledger(1).await.unwrap().findings, []);
            store.probe().await.unwrap();
            store.close().await;
        }
    }
}

#[tokio::test]
async fn f4_a_pooler_that_has_no_transactions_is_refused_with_the_cause() {
    let Some(url) = Kind::Postgres.new_url(std::path::Path::new("")) else { return };
    let Some((_pooler, through)) = PgBouncer::in_front_of(&url, "pool_mode = statement") else { return };
    let error = Store::connect(&through).await.unwrap_err().to_string();
    assert!(error.contains("statement pooling"), "{error}");
}
