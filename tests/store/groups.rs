//! Group commit: how many commits several units of work take together, and what happens if a commit fails.

use std::cell::Cell;

use api::{Environment, Plan, Role};
use sqlx::sqlite::SqlitePool;
use sqlx::{Connection, PgConnection};
use store::commits::{self, Moment};
use store::{Error, GateUsage, NewApiKey, NewGateSession, SessionOpened, Store, Unit};
use tempfile::TempDir;
use tests_store::Kind;
use tokio::task::JoinSet;

thread_local! {
    /// Number of commits on this thread. The thread serves a single test, whose runtime has no other thread.
    static COMMITS: Cell<u32> = const { Cell::new(0) };
}

fn commits_so_far() -> u32 {
    commits::watch(|moment| {
        if moment == Moment::After {
            COMMITS.set(COMMITS.get() + 1);
        }
    });
    COMMITS.get()
}

/// Makes a database with an open session of the account `acct_1`. Returns `None` if this machine lacks the database.
async fn with_session(kind: Kind) -> Option<(TempDir, String, Store)> {
    let folder = tempfile::tempdir().unwrap();
    let url = kind.new_url(folder.path())?;
    let store = Store::open(&url).await.unwrap();
    let key = NewApiKey {
        key_id: "ak_1",
        account_id: "acct_1",
        lineage_id: "lin_1",
        digest: &[1; 32],
        key_prefix: "svc_live_0123456",
        role: Role::Developer,
        environment: Environment::Live,
        office: true,
        plan: Plan::Free,
        created_at: 5,
        expires_at: None,
    };
    store.insert_api_key(&key).await.unwrap();
    let session = NewGateSession {
        digest: &[1; 32],
        account_id: "acct_1",
        environment: Environment::Live,
        node_id: "node_1",
        preset: "fast_128",
        is_blind: true,
        imported: false,
        created_at: 10,
        expires_at: 20,
        sealed_id: b"sealed",
        open_max: None,
        key: None,
    };
    let opened = store.write(async |tx| tx.insert_gate_session(&session).await).await;
    assert_eq!(opened.unwrap(), SessionOpened::Opened);
    Some((folder, url, store))
}

/// Makes a unit that charges one gate under this usage id.
fn charge(usage_id: &str) -> Unit {
    let usage = GateUsage {
        usage_id: usage_id.to_owned(),
        transfer_id: None,
        session_digest: [1; 32],
        account_id: "acct_1".to_owned(),
        environment: Environment::Live,
        gates: 1,
        by_gate: "{}".to_owned(),
        bootstrap_ops: 1,
        bootstraps_done: 1,
        cost_milli_yen: 100,
        compute_us: 1,
        created_at: 12,
    };
    Unit { charge: Some(usage), ..Unit::default() }
}

/// Submits charges at the same time. The charges form one group, because they belong to one account. Returns the
/// results in any order.
async fn submit_at_once(store: &Store, usage_ids: &[&str]) -> Vec<store::Result<()>> {
    let mut callers = JoinSet::new();
    for usage_id in usage_ids {
        let (store, unit) = (store.clone(), charge(usage_id));
        callers.spawn(async move { store.submit(unit).await });
    }
    callers.join_all().await
}

async fn a_group_is_one_commit_and_a_lone_unit_too(kind: Kind) {
    let Some((_folder, _, store)) = with_session(kind).await else { return };
    let before = commits_so_far();
    store.submit(charge("use_0")).await.unwrap();
    assert_eq!(commits_so_far() - before, 1);
    assert!(submit_at_once(&store, &["use_1", "use_2", "use_3", "use_4"]).await.iter().all(Result::is_ok));
    assert_eq!(commits_so_far() - before, 2);
    // `use_1` fails because its row exists, so the whole group is undone; then the two other charges commit one by one
    let failed = submit_at_once(&store, &["use_5", "use_1", "use_6"]).await.into_iter().filter(Result::is_err);
    assert_eq!((failed.count(), commits_so_far() - before), (1, 4));
    assert_eq!(store.gate_usage_totals("acct_1").await.unwrap().0, 7);
}

#[tokio::test]
async fn a_group_is_one_commit_and_a_lone_unit_too_sqlite() {
    a_group_is_one_commit_and_a_lone_unit_too(Kind::Sqlite).await;
}

#[tokio::test]
async fn a_group_is_one_commit_and_a_lone_unit_too_postgres() {
    a_group_is_one_commit_and_a_lone_unit_too(Kind::Postgres).await;
}

/// Makes every transaction that has written a usage row with the id `use_trap` fail at its commit.
async fn set_trap(url: &str) {
    if url.starts_with("sqlite:") {
        let pool = SqlitePool::connect(url).await.unwrap();
        for sql in [
            "CREATE TABLE trap (id TEXT REFERENCES accounts (account_id) DEFERRABLE INITIALLY DEFERRED)",
            "CREATE TRIGGER trap_usage AFTER INSERT ON gate_usage WHEN NEW.usage_id = 'use_trap' \
             BEGIN INSERT INTO trap VALUES ('acct_none'); END",
        ] {
            sqlx::query(sql).execute(&pool).await.unwrap();
        }
        pool.close().await;
    } else {
        let mut connection = PgConnection::connect(url).await.unwrap();
        for sql in [
            "CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF NEW.usage_id = 'use_trap' THEN RAISE EXCEPTION 'trapped'; END IF; RETURN NEW; END $$",
            "CREATE CONSTRAINT TRIGGER trap AFTER INSERT ON gate_usage DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION trap()",
        ] {
            sqlx::query(sql).execute(&mut connection).await.unwrap();
        }
    }
}

async fn a_commit_that_fails_fails_all_of_its_group_and_none_has_an_effect(kind: Kind) {
    let Some((_folder, url, store)) = with_session(kind).await else { return };
    set_trap(&url).await;
    let results = submit_at_once(&store, &["use_1", "use_trap", "use_2"]).await;
    assert!(results.iter().all(|result| matches!(result, Err(Error::OfGroup(_)))), "{results:?}");
    assert_eq!(store.gate_usage_totals("acct_1").await.unwrap(), (0, 0, 0));
    assert_eq!(store.gate_session("acct_1", &[1; 32]).await.unwrap().unwrap().gates_used, 0);
    // the writer still works after the failing commit
    assert!(submit_at_once(&store, &["use_1", "use_2"]).await.iter().all(Result::is_ok));
    assert_eq!(store.gate_usage_totals("acct_1").await.unwrap().0, 2);
}

#[tokio::test]
async fn a_commit_that_fails_fails_all_of_its_group_and_none_has_an_effect_sqlite() {
    a_commit_that_fails_fails_all_of_its_group_and_none_has_an_effect(Kind::Sqlite).await;
}

#[tokio::test]
async fn a_commit_that_fails_fails_all_of_its_group_and_none_has_an_effect_postgres() {
    a_commit_that_fails_fails_all_of_its_group_and_none_has_an_effect(Kind::Postgres).await;
}

#[tokio::test]
async fn a_database_that_is_closed_fails_a_unit_at_once() {
    let (_folder, _, store) = with_session(Kind::Sqlite).await.unwrap();
    store.close().await;
    store.submit(charge("use_1")).await.unwrap_err();
}

#[tokio::test]
async fn readers_of_the_embedded_database_do_not_wait_for_its_writer() {
    let (_folder, _, store) = with_session(Kind::Sqlite).await.unwrap();
    // the unit holds the only connection that writes, and reads while it does: the read could not end if readers needed
    // that connection
    let written = store.write(async |tx| {
        tx.end_token(&[1; 32], 50, None, 20).await?;
        assert!(!store.is_token_ended(&[1; 32]).await?, "the end is not committed");
        Err::<(), Error>(Error::ClaimLost)
    });
    assert!(matches!(written.await, Err(Error::ClaimLost)));
    assert!(!store.is_token_ended(&[1; 32]).await.unwrap(), "the end was undone");
}
