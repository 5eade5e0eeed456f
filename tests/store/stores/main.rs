//! The store on both databases, with the same behaviour. Every test runs on SQLite and, on a machine with the server,
//! on PostgreSQL.

use api::circuits::OperationStatus;
use api::{Environment, KeyStatus, Plan, Role};
use store::*;
use tests_store::{Kind, new_store};

/// Makes two tests of each function, one for each database.
macro_rules! on_both {
    ($($(#[$attribute:meta])* async fn $name:ident($store:ident: Store) $body:block)*) => {
        mod on {
            use super::*;
            $(pub async fn $name($store: Store) $body)*
        }
        mod sqlite {
            use super::*;
            $(#[tokio::test] $(#[$attribute])* async fn $name() { run(Kind::Sqlite, on::$name).await })*
        }
        mod postgres {
            use super::*;
            $(#[tokio::test] $(#[$attribute])* async fn $name() { run(Kind::Postgres, on::$name).await })*
        }
    };
}

mod api_keys;
mod audit;
mod ciphertexts;
mod encryption_keys;
mod fairness;
mod groups;
mod invoices;
mod kept_answers;
mod ledger;
mod ledger_model;
mod limits;
mod moves;
mod pages;
mod retention;
mod trials;
mod users;
mod waiting_line;

async fn run(kind: Kind, test: impl AsyncFnOnce(Store)) {
    if let Some((_folder, store)) = new_store(kind).await {
        test(store).await;
    }
}

fn key<'a>(digest: &'a [u8; 32], key_id: &'a str, account_id: &'a str) -> NewApiKey<'a> {
    NewApiKey {
        key_id,
        account_id,
        lineage_id: "lin_1",
        digest,
        key_prefix: "svc_live_0123456",
        role: Role::Developer,
        environment: Environment::Live,
        office: true,
        plan: Plan::Free,
        created_at: 5,
        expires_at: None,
    }
}

fn session<'a>(digest: &'a [u8; 32], account_id: &'a str) -> NewGateSession<'a> {
    NewGateSession {
        digest,
        account_id,
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
    }
}

/// Opens a session and returns the outcome.
async fn open(store: &Store, session: &NewGateSession<'_>) -> SessionOpened {
    store.write(async |tx| tx.insert_gate_session(session).await).await.unwrap()
}

/// Rotates a key that is not a trial key, so it has no prefix tags.
async fn rotate(store: &Store, old_key_id: &str, old_ends_at: i64, new: &NewApiKey<'_>) -> bool {
    store.write(async |tx| tx.rotate_api_key(old_key_id, old_ends_at, new, None).await).await.unwrap()
}

fn charge(usage: GateUsage) -> Unit {
    Unit { charge: Some(usage), ..Unit::default() }
}

fn posting(transfer_id: &str, account_id: &str) -> Unit {
    let (transfer_id, account_id) = (transfer_id.to_owned(), account_id.to_owned());
    let posting = Posting { transfer_id, account_id, allowance: None, nano_usd_of_unit: 0, at: 20 };
    Unit { posting: Some(posting), ..Unit::default() }
}

/// Returns the faults that an audit found, without those about work: these tests post transfers for which no work was
/// done.
fn without_work(report: &AuditReport) -> Vec<AuditFinding> {
    let of_work = ["a posted transfer has not one usage row", "a count of operations is not that of the usage rows"];
    report.findings.iter().filter(|one| !of_work.contains(&one.what.as_str())).cloned().collect()
}

fn begin(operation: NewOperation) -> Unit {
    Unit { operation: Some(operation), ..Unit::default() }
}

fn ended(op_id: &str, status: OperationStatus, ended_at: i64) -> Unit {
    Unit { operation_end: Some(end(op_id, status, ended_at)), ..begin(operation(op_id)) }
}

fn budget(account_id: &str) -> MonthlyCap {
    MonthlyCap {
        account_id: account_id.to_owned(),
        cap_nano_usd: 10_000_000,
        hard_cap: true,
        allow_soft_overage: true,
        alert_email: String::new(),
        updated_at: 5,
    }
}

/// January 1970, in which the times of these tests are.
const JANUARY: i64 = 1970 * 12;
/// February 1970, and its first moment.
const FEBRUARY: (i64, i64) = (JANUARY + 1, 31 * 86_400_000_000);

/// Describes a reservation in January 1970, at 150 yen a dollar.
fn reservation(transfer_id: &str, account_id: &str, wanted: Wanted) -> NewReservation {
    NewReservation {
        transfer_id: transfer_id.to_owned(),
        account_id: account_id.to_owned(),
        node_id: "node_1".to_owned(),
        month: JANUARY,
        usd_milli_jpy: 150_000,
        created_at: 10,
        wanted,
    }
}

fn usage(usage_id: &str, session_digest: &[u8; 32]) -> GateUsage {
    GateUsage {
        usage_id: usage_id.to_owned(),
        transfer_id: None,
        session_digest: *session_digest,
        account_id: "acct_1".to_owned(),
        environment: Environment::Live,
        gates: 2,
        by_gate: r#"{"NAND":1,"MUX":1}"#.to_owned(),
        bootstrap_ops: 4,
        bootstraps_done: 3,
        cost_milli_yen: 400,
        compute_us: 7,
        created_at: 12,
    }
}

fn circuit<'a>(account_id: &'a str, name: &'a str, netlist: &'a NetlistPlace, now: i64) -> NewCircuit<'a> {
    NewCircuit {
        account_id,
        name,
        netlist,
        bytes: if let NetlistPlace::Text(text) = netlist { text.len() as i64 } else { 6 },
        sha256: &[7; 32],
        gates: 1,
        by_gate: r#"{"AND":1}"#,
        levels: 1,
        input_widths: "[2]",
        output_widths: "[1]",
        now,
    }
}

/// Describes a run of a circuit in session 1, on `node_1`.
fn operation(op_id: &str) -> NewOperation {
    operation_of(op_id, NewOperationOf::Circuit(new_run([1; 32])))
}

fn operation_of(op_id: &str, of: NewOperationOf) -> NewOperation {
    NewOperation {
        op_id: op_id.to_owned(),
        account_id: "acct_1".to_owned(),
        node_id: "node_1".to_owned(),
        created_at: 10,
        of,
    }
}

fn new_run(session_digest: [u8; 32]) -> NewCircuitRun {
    NewCircuitRun {
        session_digest,
        gates_total: 2,
        by_gate: r#"{"AND":2}"#.to_owned(),
        levels: 1,
        plan: "{}".to_owned(),
    }
}

fn end(op_id: &str, status: OperationStatus, ended_at: i64) -> OperationEnd {
    let outcome = CircuitOutcome { gates_done: 2, bootstrap_ops: 4, cost_milli_yen: 400, discounted: false };
    end_of(op_id, status, ended_at, Outcome::Circuit(outcome))
}

fn end_of(op_id: &str, status: OperationStatus, ended_at: i64, outcome: Outcome) -> OperationEnd {
    OperationEnd { op_id: op_id.to_owned(), status, compute_us: 7, error: None, ended_at, outcome, line: None }
}

/// Reads what the records of all kinds have of an operation of `acct_1`.
async fn recorded(store: &Store, op_id: &str) -> Option<OperationRecord> {
    store.operation("acct_1", op_id).await.unwrap().map(|(record, _)| record)
}

/// Reads the columns that only runs of circuits have, for a run of `acct_1`.
async fn recorded_run(store: &Store, op_id: &str) -> CircuitRun {
    store.operation("acct_1", op_id).await.unwrap().unwrap().1.circuit().unwrap()
}

on_both! {
    async fn a_key_is_found_by_its_digest_until_it_is_revoked_and_still_listed_after(store: Store) {
        assert!(!store.has_api_keys().await.unwrap());
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        store.insert_api_key(&NewApiKey { lineage_id: "lin_2", ..key(&[2; 32], "ak_2", "acct_1") }).await.unwrap();
        assert!(store.has_api_keys().await.unwrap());
        assert!(store.has_account("acct_1").await.unwrap());
        assert!(!store.has_account("acct_2").await.unwrap());
        assert_eq!(store.api_key(&[3; 32]).await.unwrap(), None);
        assert_eq!(store.api_key(&[1; 32]).await.unwrap().unwrap().revoked_at, None);
        let revoked = RevokedLineage { lineage_id: "lin_1".to_owned(), key_ids: vec!["ak_1".to_owned()] };
        assert_eq!(store.revoke_api_key("ak_1", 9).await.unwrap(), Some(revoked));
        assert_eq!(store.revoke_api_key("ak_1", 10).await.unwrap(), None);
        assert_eq!(store.revoke_api_key("ak_unknown", 10).await.unwrap(), None);
        assert_eq!(store.api_key(&[1; 32]).await.unwrap().unwrap().revoked_at, Some(9));
        assert_eq!(store.api_key(&[2; 32]).await.unwrap().unwrap().revoked_at, None);
    }

    async fn accounts_are_listed_with_their_plan_and_their_keys(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        store.insert_api_key(&NewApiKey { lineage_id: "lin_2", ..key(&[2; 32], "ak_2", "acct_1") }).await.unwrap();
        store.insert_api_key(&NewApiKey { lineage_id: "lin_3", created_at: 6, plan: Plan::Pro, ..key(&[3; 32], "ak_3", "acct_2") }).await.unwrap();
        store.revoke_api_key("ak_1", 9).await.unwrap().unwrap();
        assert!(store.grant_plan("acct_1", Plan::Scale, 9).await.unwrap());
        assert!(!store.grant_plan("acct_3", Plan::Scale, 9).await.unwrap());
        let accounts = store.accounts().await.unwrap();
        let listed = accounts.iter().map(|one| (one.account_id.as_str(), one.plan, one.keys));
        assert_eq!(listed.collect::<Vec<_>>(), [("acct_1", Plan::Scale, 1), ("acct_2", Plan::Pro, 1)]);
        assert_eq!(store.api_key(&[2; 32]).await.unwrap().unwrap().plan, Plan::Scale);
    }

    async fn a_key_that_is_refused_leaves_no_account(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        assert!(store.insert_api_key(&key(&[1; 32], "ak_2", "acct_2")).await.is_err());
        assert!(!store.has_account("acct_2").await.unwrap());
    }

    async fn every_word_can_be_stored_and_is_read_as_it_was_written(store: Store) {
        for (plan, number) in Plan::ALL.into_iter().zip(1_u8..) {
            let (role, environment) = (Role::ALL[usize::from(number) % 4], Environment::ALL[usize::from(number) % 4]);
            let id = format!("acct_{number}");
            store.insert_api_key(&NewApiKey { role, environment, plan, ..key(&[number; 32], &id, &id) }).await.unwrap();
            let read = store.api_key(&[number; 32]).await.unwrap().unwrap();
            assert_eq!((read.role, read.environment, read.plan), (role, environment, plan));
        }
    }

    async fn a_session_is_visible_to_its_account_only_and_ends_once(store: Store) {
        for account in ["acct_1", "acct_2"] {
            store.insert_api_key(&key(&[account.as_bytes()[5]; 32], account, account)).await.unwrap();
        }
        open(&store, &session(&[1; 32], "acct_1")).await;
        assert_eq!(store.gate_session("acct_2", &[1; 32]).await.unwrap(), None);
        assert_eq!(store.gate_session("acct_1", &[1; 32]).await.unwrap().unwrap().state, RecordedState::Active);
        assert_eq!(store.gate_sessions_page("acct_1", "node_1", 19, None, 9).await.unwrap().rows.len(), 1);
        assert!(store.end_gate_session(&[1; 32], SessionEnd::Deleted, 15).await.unwrap());
        assert!(!store.end_gate_session(&[1; 32], SessionEnd::Expired, 16).await.unwrap());
        let ended = store.gate_session("acct_1", &[1; 32]).await.unwrap().unwrap();
        assert_eq!((ended.state, ended.ended_at), (RecordedState::Deleted, Some(15)));
        assert_eq!(store.gate_sessions_page("acct_1", "node_1", 19, None, 9).await.unwrap(), PageRows { rows: Vec::new(), total: 0 });
    }

    async fn a_charge_moves_the_session_and_the_record_together_or_not_at_all(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        open(&store, &session(&[1; 32], "acct_1")).await;
        store.submit(charge(usage("use_1", &[1; 32]))).await.unwrap();
        // a unit with a repeated usage id fails, and so does a unit with an unknown session; neither changes anything
        store.submit(charge(usage("use_1", &[1; 32]))).await.unwrap_err();
        store.submit(charge(usage("use_2", &[9; 32]))).await.unwrap_err();
        let row = store.gate_session("acct_1", &[1; 32]).await.unwrap().unwrap();
        assert_eq!((row.gates_used, row.total_cost_milli_yen), (2, 400));
        assert_eq!(store.gate_usage_totals("acct_1").await.unwrap(), (2, 4, 400));
    }

    async fn concurrent_charges_add_up(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        open(&store, &session(&[1; 32], "acct_1")).await;
        let tasks: Vec<_> = (0..50)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move { store.submit(charge(usage(&format!("use_{n}"), &[1; 32]))).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let row = store.gate_session("acct_1", &[1; 32]).await.unwrap().unwrap();
        assert_eq!((row.gates_used, row.total_cost_milli_yen), (100, 20_000));
        assert_eq!(store.gate_usage_totals("acct_1").await.unwrap(), (100, 200, 20_000));
    }

    async fn sessions_of_an_earlier_process_are_lost(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        open(&store, &session(&[1; 32], "acct_1")).await;
        open(&store, &session(&[2; 32], "acct_1")).await;
        store.end_gate_session(&[2; 32], SessionEnd::Deleted, 11).await.unwrap();
        assert_eq!(store.lose_gate_sessions("node_2", 14).await.unwrap(), 0);
        assert_eq!(store.lose_gate_sessions("node_1", 15).await.unwrap(), 1);
        assert_eq!(store.gate_session("acct_1", &[1; 32]).await.unwrap().unwrap().state, RecordedState::Lost);
        assert_eq!(store.gate_session("acct_1", &[2; 32]).await.unwrap().unwrap().state, RecordedState::Deleted);
    }

    async fn g3_every_end_of_a_session_of_a_fleet_erases_its_data_key(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        let at_rest = |object: &str| FleetKey { object: object.to_owned(), bytes: 7, secret: vec![9; 72], facts: "{}".to_owned() };
        let keys = ["one", "two", "three", "four"].map(at_rest);
        for (number, key) in (1..).zip(&keys) {
            open(&store, &NewGateSession { node_id: FLEET, key: Some(key), ..session(&[number; 32], "acct_1") }).await;
        }
        let opens = async |number: u8| store.fleet_key(&[number; 16]).await.unwrap();
        let first = opens(1).await.unwrap();
        assert_eq!((first.object.as_str(), first.secret, first.facts.as_str(), first.expires_at), ("one", vec![9; 72], "{}", 20));
        assert_eq!((opens(5).await, store.fleet_key_bytes().await.unwrap()), (None, 28));
        assert_eq!(store.fleet_sessions_of("acct_1").await.unwrap().len(), 4);
        // the end of a node, and a node that starts, are not the end of a session of the fleet
        assert_eq!(store.lose_gate_sessions("node_1", 11).await.unwrap(), 0);
        assert_eq!(store.gate_sessions_page("acct_1", "node_2", 19, None, 9).await.unwrap().total, 4);
        assert!(store.ended_fleet_keys(9).await.unwrap().is_empty());
        store.end_gate_session(&[1; 32], SessionEnd::Deleted, 11).await.unwrap();
        store.end_gate_session(&[2; 32], SessionEnd::Lost, 11).await.unwrap();
        assert_eq!(store.end_gate_sessions_of("acct_1", FLEET, 12).await.unwrap(), 2);
        for number in 1..=4 {
            assert_eq!(opens(number).await, None, "{number}");
        }
        assert_eq!(store.ended_fleet_keys(9).await.unwrap().len(), 4);
        // a row stays until the object is removed
        assert_eq!(store.forget_gate_sessions(100).await.unwrap(), 0);
        store.forget_fleet_key(&[1; 32]).await.unwrap();
        assert_eq!(store.fleet_key_objects().await.unwrap().len(), 3);
        assert_eq!(store.forget_gate_sessions(100).await.unwrap(), 1);
        // a session that expires
        open(&store, &NewGateSession { node_id: FLEET, key: Some(&keys[0]), ..session(&[6; 32], "acct_1") }).await;
        assert_eq!((store.expire_gate_sessions(FLEET, 20).await.unwrap(), opens(6).await), (1, None));
    }

    async fn what_a_node_left_behind_that_does_not_come_back_is_ended_and_forgotten(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        store.renew_lease("node_1", 15).await.unwrap();
        open(&store, &session(&[1; 32], "acct_1")).await;
        let seen = async |now| store.gate_sessions_page("acct_1", "node_2", now, None, 9).await.unwrap().total;
        assert_eq!((seen(14).await, seen(15).await), (1, 0), "another node sees it until the lease ends");
        // the session expired at 20 and the lease ended at 15; neither is before the time that is given for it here, so
        // both rows stay
        assert_eq!((store.lose_forsaken_sessions(20).await.unwrap(), store.forget_nodes(15).await.unwrap()), (0, 0));
        assert_eq!((store.lose_forsaken_sessions(21).await.unwrap(), store.forget_nodes(16).await.unwrap()), (1, 1));
        let left = store.gate_session("acct_1", &[1; 32]).await.unwrap().unwrap();
        assert_eq!((left.state, left.ended_at, left.sealed_id, left.lease_until), (RecordedState::Lost, Some(20), None, None));
    }

    async fn an_account_keeps_circuits_by_name_within_its_bounds(store: Store) {
        for account in ["acct_1", "acct_2"] {
            store.insert_api_key(&key(&[account.as_bytes()[5]; 32], account, account)).await.unwrap();
        }
        let max = CircuitsMax { count: 2, bytes: 10 };
        let put =
            async |account, name, text: &str, now| store.put_circuit(&circuit(account, name, &NetlistPlace::Text(text.to_owned()), now), max).await.unwrap();
        assert!(matches!(put("acct_1", "a", "1234", 5).await, CircuitKept::Created(_)));
        assert!(matches!(put("acct_1", "b", "1234", 6).await, CircuitKept::Created(_)));
        assert_eq!(put("acct_1", "c", "1", 7).await, CircuitKept::TooMuch);
        assert_eq!(put("acct_1", "b", "1234567", 7).await, CircuitKept::TooMuch);
        let CircuitKept::Replaced(replaced, None) = put("acct_1", "b", "123456", 8).await else { panic!("circuit b existed") };
        assert_eq!((replaced.bytes, replaced.created_at, replaced.updated_at), (6, 6, 8));
        // the circuit that was refused did not replace the older circuit of its name
        assert_eq!(store.netlist("acct_1", "b").await.unwrap(), Some(NetlistPlace::Text("123456".to_owned())));
        assert!(matches!(put("acct_2", "a", "x", 9).await, CircuitKept::Created(_)));
        let names: Vec<_> = store.circuits_page("acct_1", None, 9).await.unwrap().rows.into_iter().map(|circuit| circuit.name).collect();
        assert_eq!(names, ["b", "a"]);
        assert_eq!(store.delete_circuit("acct_1", "a").await.unwrap(), Some(ForgottenCircuit { blob: None }));
        assert_eq!(store.delete_circuit("acct_1", "a").await.unwrap(), None);
        assert_eq!(store.circuit("acct_1", "a").await.unwrap(), None);
        assert!(store.circuit("acct_2", "a").await.unwrap().is_some());
    }

    async fn netlists_move_from_rows_to_objects_once(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        let max = CircuitsMax { count: 9, bytes: 100 };
        let put = async |name, netlist, now| store.put_circuit(&circuit("acct_1", name, &netlist, now), max).await.unwrap();
        let object = |name: &str| NetlistPlace::Object(name.to_owned());
        put("a", NetlistPlace::Text("123456".to_owned()), 5).await;
        put("b", object("object b"), 6).await;
        let in_row = store.circuit_in_row(("", "")).await.unwrap().unwrap();
        assert_eq!((in_row.name.as_str(), in_row.text.as_str()), ("a", "123456"));
        assert_eq!(store.circuit_in_row(("acct_1", "a")).await.unwrap(), None);
        let replaced = CircuitInRow { sha256: vec![8; 32], ..in_row.clone() };
        assert!(!store.put_netlist_out(&replaced, "object a").await.unwrap());
        assert!(store.put_netlist_out(&in_row, "object a").await.unwrap());
        assert!(!store.put_netlist_out(&in_row, "object c").await.unwrap());
        assert_eq!(store.netlist("acct_1", "a").await.unwrap(), Some(object("object a")));
        assert_eq!(store.circuit("acct_1", "a").await.unwrap().unwrap().bytes, 6);
        let mut named = store.circuit_blobs().await.unwrap();
        named.sort_unstable();
        assert_eq!(named, ["object a", "object b"]);
        // the store returns the object to which no row refers any more, so that the caller can remove the object
        let kept = put("b", object("object d"), 7).await;
        assert!(matches!(kept, CircuitKept::Replaced(_, Some(blob)) if blob == "object b"));
        let blob = Some("object a".to_owned());
        assert_eq!(store.delete_circuit("acct_1", "a").await.unwrap(), Some(ForgottenCircuit { blob }));
        assert_eq!(store.circuit_blobs().await.unwrap(), ["object d"]);
    }

    async fn a_run_ends_once_and_is_charged_in_the_same_step(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        open(&store, &session(&[1; 32], "acct_1")).await;
        store.submit(begin(operation("op_1"))).await.unwrap();
        assert_eq!(recorded(&store, "op_1").await.unwrap().status, OperationStatus::Pending);
        assert_eq!(store.operation("acct_2", "op_1").await.unwrap(), None);
        let first = usage("use_1", &[1; 32]);
        store.submit(Unit { charge: Some(first.clone()), ..ended("op_1", OperationStatus::Completed, 12) }).await.unwrap();
        let second = usage("use_2", &[1; 32]);
        let twice = store.submit(Unit { charge: Some(second), ..ended("op_1", OperationStatus::Cancelled, 13) }).await;
        assert!(matches!(twice, Err(Error::OperationEnded)));
        // op_2 and op_3 get no row before they end, because their callers wait for the result. The charge of op_3
        // fails, so op_3 gets no row at all.
        store.submit(ended("op_2", OperationStatus::Completed, 14)).await.unwrap();
        store.submit(Unit { charge: Some(first), ..ended("op_3", OperationStatus::Completed, 14) }).await.unwrap_err();
        assert_eq!(recorded(&store, "op_3").await, None);
        assert_eq!(store.gate_usage_totals("acct_1").await.unwrap(), (2, 4, 400));
        let (row, run) = (recorded(&store, "op_1").await.unwrap(), recorded_run(&store, "op_1").await);
        assert_eq!((row.status, run.cost_milli_yen, row.ended_at), (OperationStatus::Completed, Some(400), Some(12)));
        assert_eq!((row.compute_us, run.gates_total, run.gates_done), (Some(7), 2, 2));
        assert_eq!((run.bootstrap_ops, run.discounted, run.session_digest), (Some(4), Some(false), vec![1; 32]));
    }

    async fn runs_of_an_earlier_process_have_failed_and_old_ones_are_forgotten(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        open(&store, &session(&[1; 32], "acct_1")).await;
        store.submit(begin(operation("op_1"))).await.unwrap();
        store.submit(ended("op_2", OperationStatus::Completed, 12)).await.unwrap();
        let fail = async |node_id, at| {
            let why = ["the circuit", "the operation"];
            store.fail_unfinished_operations(node_id, "SERVICE_UNAVAILABLE", why, at).await.unwrap()
        };
        assert_eq!(fail("node_2", 19).await, 0);
        assert_eq!(fail("node_1", 20).await, 1);
        let failed = recorded(&store, "op_1").await.unwrap();
        assert_eq!((failed.status, failed.error_code.as_deref()), (OperationStatus::Failed, Some("SERVICE_UNAVAILABLE")));
        assert_eq!((failed.error_message.as_deref(), failed.ended_at), (Some("the circuit"), Some(20)));
        let nothing = recorded_run(&store, "op_1").await;
        assert_eq!((nothing.bootstrap_ops, nothing.cost_milli_yen, nothing.discounted), (Some(0), Some(0), Some(false)));
        assert_eq!(store.forget_operations(20).await.unwrap(), 1);
        assert_eq!(recorded(&store, "op_2").await, None);
    }
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
    for url in ["sqlite::memory:", "sqlite:", "mysql://h/db", ""] {
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
