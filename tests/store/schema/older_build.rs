//! The release before migration 36 goes on with its own statements. On PostgreSQL its nodes work beside newer ones; on
//! SQLite it is started again after a roll-back.

use api::Environment;
use api::circuits::OperationStatus;
use sqlx::sqlite::SqliteConnection;
use store::*;

use super::*;

/// The last migration that the older build knows.
const BEFORE: i64 = 35;

// the statements of the older build, as it has them
const BEGIN_RUN: &str = "INSERT INTO circuit_operations (op_id, account_id, session_digest, status, gates_total, by_gate, levels, \
     plan, created_at) VALUES ($1, $2, $3, 'pending', $4, $5, $6, $7, $8) ON CONFLICT (op_id) DO NOTHING";
const END_RUN: &str = "UPDATE circuit_operations SET status = $2, gates_done = $3, bootstrap_ops = $4, cost_milli_yen = $5, \
     discounted = $6, compute_us = $7, error_code = $8, error_message = $9, ended_at = $10 \
     WHERE op_id = $1 AND status = 'pending'";
const READ_RUN: &str = "SELECT op_id, session_digest, status, gates_total, gates_done, by_gate, levels, plan, bootstrap_ops, \
     cost_milli_yen, discounted, compute_us, error_code, error_message, created_at, ended_at \
     FROM circuit_operations WHERE op_id = $1 AND account_id = $2";
const FAIL_RUNS: &str = "UPDATE circuit_operations SET status = 'failed', error_code = $2, error_message = $3, ended_at = $4, \
     bootstrap_ops = 0, cost_milli_yen = 0, discounted = FALSE WHERE status = 'pending' AND EXISTS (SELECT 1 FROM gate_sessions s \
     WHERE s.digest = circuit_operations.session_digest AND (s.node_id = $1 OR s.node_id IS NULL))";
const FORGET_RUNS: &str =
    "DELETE FROM circuit_operations WHERE op_id IN (SELECT op_id FROM circuit_operations WHERE ended_at < $1 LIMIT $2)";
const ERASE_RUNS: &str = "DELETE FROM circuit_operations WHERE account_id = $1";
const FORGET_SESSIONS: &str = "DELETE FROM gate_sessions WHERE COALESCE(ended_at, expires_at) < $1 AND expires_at < $1 \
     AND gates_used = 0 AND NOT EXISTS (SELECT 1 FROM gate_usage u WHERE u.session_digest = gate_sessions.digest) \
     AND NOT EXISTS (SELECT 1 FROM circuit_operations o WHERE o.session_digest = gate_sessions.digest)";
const BEGIN_ARITHMETIC: &str = "INSERT INTO arithmetic_operations (op_id, account_id, key_id, environment, node_id, operation, status, \
     created_at) VALUES ($1, $2, $3, $4, $5, $6, 'pending', $7) ON CONFLICT (op_id) DO NOTHING";
const END_ARITHMETIC: &str = "UPDATE arithmetic_operations SET status = $2, result_ciphertext_id = $3, cost_fcu = $4, compute_us = $5, \
     error_code = $6, error_message = $7, ended_at = $8 WHERE op_id = $1 AND status = 'pending'";
const READ_ARITHMETIC: &str = "SELECT op_id, key_id, node_id, operation, status, result_ciphertext_id, cost_fcu, compute_us, error_code, \
     error_message, created_at, ended_at FROM arithmetic_operations WHERE op_id = $1 AND account_id = $2";
const FAIL_ARITHMETIC: &str = "UPDATE arithmetic_operations SET status = 'failed', error_code = $2, error_message = $3, ended_at = $4, \
     cost_fcu = 0 WHERE status = 'pending' AND node_id = $1";
const FORGET_ARITHMETIC: &str = "DELETE FROM arithmetic_operations WHERE op_id IN \
     (SELECT op_id FROM arithmetic_operations WHERE ended_at < $1 LIMIT $2)";
const ERASE_ARITHMETIC: &str = "DELETE FROM arithmetic_operations WHERE account_id = $1";

/// A value for a placeholder.
enum Given<'a> {
    Text(&'a str),
    NoText,
    Integer(i64),
    Truth(bool),
    Bytes([u8; 32]),
}
use Given::{Bytes, Integer, NoText, Text, Truth};

/// The connection of the older build. The connection stays open over the upgrade, with its prepared statements.
enum OlderBuild {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

/// Runs a statement through either connection: `$run` is the query's method.
macro_rules! through {
    ($older:expr, $sql:expr, $given:expr, $run:ident, $answer:ident => $read:expr) => {{
        macro_rules! on {
            ($connection:expr) => {{
                let mut query = sqlx::query($sql);
                for given in $given {
                    query = match given {
                        Text(text) => query.bind(text.to_string()),
                        NoText => query.bind(None::<String>),
                        Integer(integer) => query.bind(*integer),
                        Truth(truth) => query.bind(*truth),
                        Bytes(bytes) => query.bind(bytes.to_vec()),
                    };
                }
                let $answer = query.$run($connection).await.unwrap();
                $read
            }};
        }
        match $older {
            OlderBuild::Sqlite(connection) => on!(connection),
            OlderBuild::Postgres(connection) => on!(connection),
        }
    }};
}

impl OlderBuild {
    async fn connect(url: &str) -> OlderBuild {
        match url.starts_with("sqlite:") {
            true => OlderBuild::Sqlite(SqliteConnection::connect(url).await.unwrap()),
            false => OlderBuild::Postgres(PgConnection::connect(url).await.unwrap()),
        }
    }

    /// Runs a statement that writes. Returns the number of changed rows.
    async fn write(&mut self, sql: &'static str, given: &[Given<'_>]) -> u64 {
        through!(self, sql, given, execute, done => done.rows_affected())
    }

    /// Reads an operation's status and its charge.
    async fn read(&mut self, sql: &'static str, op_id: &str) -> Option<(String, Option<i64>)> {
        let charge = if sql == READ_RUN { "cost_milli_yen" } else { "cost_fcu" };
        through!(self, sql, &[Text(op_id), Text("acct_1")], fetch_optional, row => row.map(|row| (row.get("status"), row.get(charge))))
    }

    async fn begin_run(&mut self, op_id: &str) -> u64 {
        let (session, gates, levels) = (Bytes([1; 32]), Integer(2), Integer(1));
        let (by_gate, plan) = (Text("{}"), Text("{}"));
        let run = [Text(op_id), Text("acct_1"), session, gates, by_gate, levels, plan, Integer(10)];
        self.write(BEGIN_RUN, &run).await
    }

    async fn end_run(&mut self, op_id: &str) -> u64 {
        let (gates, bootstraps, cost, took) = (Integer(2), Integer(4), Integer(400), Integer(7));
        let completed = Text("completed");
        let end = [Text(op_id), completed, gates, bootstraps, cost, Truth(false), took, NoText, NoText, Integer(12)];
        self.write(END_RUN, &end).await
    }

    async fn begin_arithmetic(&mut self, op_id: &str) -> u64 {
        let (key, live, node) = (Text("key_1"), Text("live"), Text("node_1"));
        self.write(BEGIN_ARITHMETIC, &[Text(op_id), Text("acct_1"), key, live, node, Text("add"), Integer(10)]).await
    }

    async fn end_arithmetic(&mut self, op_id: &str) -> u64 {
        let end = [Text(op_id), Text("completed"), Text("ct_1"), Integer(5), Integer(7), NoText, NoText, Integer(12)];
        self.write(END_ARITHMETIC, &end).await
    }
}

/// Makes an account with a session on `node_1`, in the schema of the older build.
async fn before_the_upgrade(kind: Kind) -> Option<(TempDir, String, Store)> {
    let (folder, url, store) = empty(kind).await?;
    store.migrate_up_to(BEFORE).await.unwrap();
    for row in [
        "INSERT INTO accounts (account_id, created_at) VALUES ('acct_1', 5)",
        "INSERT INTO gate_sessions (digest, account_id, environment, preset, is_blind, state, created_at, expires_at, node_id) \
         VALUES (#1, 'acct_1', 'live', 'fast_128', TRUE, 'active', 10, 20, 'node_1')",
    ] {
        run(&url, upgrades::statement(kind, row)).await;
    }
    Some((folder, url, store))
}

/// The members of an operation that the test reads: its node, its status, and its charge.
async fn read(store: &Store, op_id: &str) -> Option<(Option<String>, OperationStatus, Option<i64>)> {
    let (record, of) = store.operation("acct_1", op_id).await.unwrap()?;
    let charge = match of {
        RecordedOf::Circuit(run) => run.cost_milli_yen,
        RecordedOf::Arithmetic(operation) => operation.cost_fcu,
    };
    Some((record.node_id, record.status, charge))
}

/// An operation of `node_1` for the store to record, pending.
fn new_operation(op_id: &str, of: NewOperationOf) -> Unit {
    let (account_id, node_id) = ("acct_1".to_owned(), "node_1".to_owned());
    let operation = NewOperation { op_id: op_id.to_owned(), account_id, node_id, created_at: 10, of };
    Unit { operation: Some(operation), ..Unit::default() }
}

fn new_run() -> NewOperationOf {
    let (by_gate, plan) = ("{}".to_owned(), "{}".to_owned());
    NewOperationOf::Circuit(NewCircuitRun { session_digest: [1; 32], gates_total: 2, by_gate, levels: 1, plan })
}

fn new_arithmetic() -> NewOperationOf {
    let (key_id, operation) = ("key_1".to_owned(), "add".to_owned());
    NewOperationOf::Arithmetic(NewArithmetic { key_id, environment: Environment::Live, operation })
}

fn of_node_1(status: OperationStatus, charge: Option<i64>) -> Option<(Option<String>, OperationStatus, Option<i64>)> {
    Some((Some("node_1".to_owned()), status, charge))
}

fn row(status: &str, charge: Option<i64>) -> Option<(String, Option<i64>)> {
    Some((status.to_owned(), charge))
}

#[tokio::test]
async fn an_older_build_s_operations_go_on_beside_a_newer_build_postgres() {
    use OperationStatus::{Completed, Failed, Pending};
    let Some((_folder, url, store)) = before_the_upgrade(Kind::Postgres).await else { return };
    let mut older = OlderBuild::connect(&url).await;
    assert_eq!((older.begin_run("op_c1").await, older.begin_arithmetic("op_a1").await), (1, 1));
    assert_eq!(older.end_run("op_none").await + older.end_arithmetic("op_none").await, 0);
    assert_eq!(older.read(READ_RUN, "op_c1").await, row("pending", None));
    assert_eq!(older.read(READ_ARITHMETIC, "op_a1").await, row("pending", None));
    store.migrate().await.unwrap();
    store.take_over_operations().await.unwrap();

    // the older build writes, and the newer one reads
    for op_id in ["op_c1", "op_a1"] {
        assert_eq!(read(&store, op_id).await, of_node_1(Pending, None), "{op_id}");
    }
    assert_eq!((older.end_run("op_c1").await, older.end_arithmetic("op_a1").await), (1, 1));
    assert_eq!((older.end_run("op_c1").await, older.end_arithmetic("op_a1").await), (0, 0), "an operation ends once");
    assert_eq!(read(&store, "op_c1").await, of_node_1(Completed, Some(400)));
    assert_eq!(read(&store, "op_a1").await, of_node_1(Completed, Some(5)));
    assert_eq!((older.begin_run("op_c2").await, older.begin_arithmetic("op_a2").await), (1, 1));
    assert_eq!(
        (older.begin_run("op_c2").await, older.begin_arithmetic("op_a2").await),
        (0, 0),
        "a row is written once"
    );

    // the newer build writes, and the older one reads
    store.submit(new_operation("op_c3", new_run())).await.unwrap();
    store.submit(new_operation("op_a3", new_arithmetic())).await.unwrap();
    assert_eq!(older.read(READ_RUN, "op_c3").await, row("pending", None));
    assert_eq!(older.read(READ_ARITHMETIC, "op_a3").await, row("pending", None));
    assert_eq!((older.read(READ_RUN, "op_a3").await, older.read(READ_ARITHMETIC, "op_c3").await), (None, None));

    // a node that starts again with either build fails the operations of both
    let node = |node_id| [Text(node_id), Text("CODE"), Text("why"), Integer(15)];
    assert_eq!(older.write(FAIL_RUNS, &node("node_2")).await + older.write(FAIL_ARITHMETIC, &node("node_2")).await, 0);
    assert_eq!(
        (older.write(FAIL_RUNS, &node("node_1")).await, older.write(FAIL_ARITHMETIC, &node("node_1")).await),
        (2, 2)
    );
    for op_id in ["op_c2", "op_c3", "op_a2", "op_a3"] {
        assert_eq!(read(&store, op_id).await, of_node_1(Failed, Some(0)), "{op_id}");
    }
    assert_eq!((older.begin_run("op_c4").await, older.begin_arithmetic("op_a4").await), (1, 1));
    let fail = async |node_id| store.fail_unfinished_operations(node_id, "CODE", ["", ""], 16).await.unwrap();
    assert_eq!((fail("node_2").await, fail("node_1").await), (0, 2));
    assert_eq!(older.read(READ_RUN, "op_c4").await, row("failed", Some(0)));
    assert_eq!(older.read(READ_ARITHMETIC, "op_a4").await, row("failed", Some(0)));

    // either build forgets the operations of both; the older one each kind with its own statement
    let before = [Integer(16), Integer(1000)];
    assert_eq!(older.write(FORGET_SESSIONS, &[Integer(100)]).await, 0, "operations refer to the session");
    assert_eq!((older.write(FORGET_RUNS, &before).await, older.write(FORGET_ARITHMETIC, &before).await), (3, 3));
    assert_eq!(read(&store, "op_c1").await.or(read(&store, "op_a1").await), None);
    assert_eq!(store.forget_operations(17).await.unwrap(), 2);
    assert_eq!(older.read(READ_RUN, "op_c4").await.or(older.read(READ_ARITHMETIC, "op_a4").await), None);

    // an account that is erased by the older build loses its operations
    store.submit(new_operation("op_c5", new_run())).await.unwrap();
    store.submit(new_operation("op_a5", new_arithmetic())).await.unwrap();
    assert_eq!(older.write(ERASE_ARITHMETIC, &[Text("acct_1")]).await, 1);
    assert!(read(&store, "op_c5").await.is_some());
    assert_eq!(older.write(ERASE_RUNS, &[Text("acct_1")]).await, 1);
    assert_eq!(older.write(FORGET_SESSIONS, &[Integer(100)]).await, 1);
}

#[tokio::test]
async fn d15_an_older_build_that_is_started_again_keeps_its_own_operations_sqlite() {
    use OperationStatus::{Completed, Pending};
    let (_folder, url, store) = before_the_upgrade(Kind::Sqlite).await.unwrap();
    let mut older = OlderBuild::connect(&url).await;
    assert_eq!((older.begin_run("op_c1").await, older.begin_arithmetic("op_a1").await), (1, 1));
    store.migrate().await.unwrap();
    store.take_over_operations().await.unwrap();
    assert_eq!(read(&store, "op_c1").await, of_node_1(Pending, None));
    assert_eq!(read(&store, "op_a1").await, of_node_1(Pending, None));

    // the older build is started again, and begins operations in its own tables
    assert_eq!((older.begin_run("op_c2").await, older.begin_arithmetic("op_a2").await), (1, 1));
    assert_eq!((older.begin_run("op_c2").await, older.begin_arithmetic("op_a2").await), (0, 0));
    assert_eq!((older.end_run("op_c2").await, older.end_arithmetic("op_a2").await), (1, 1));
    assert_eq!(older.read(READ_RUN, "op_c2").await, row("completed", Some(400)));
    assert_eq!(older.read(READ_ARITHMETIC, "op_a2").await, row("completed", Some(5)));

    // the newer build takes them over at its next start
    store.take_over_operations().await.unwrap();
    assert_eq!(read(&store, "op_c2").await, of_node_1(Completed, Some(400)));
    assert_eq!(read(&store, "op_a2").await, of_node_1(Completed, Some(5)));
    assert_eq!(older.read(READ_RUN, "op_c2").await.or(older.read(READ_ARITHMETIC, "op_a2").await), None);
    store.take_over_operations().await.unwrap();
    assert_eq!(store.forget_operations(13).await.unwrap(), 2);
}
