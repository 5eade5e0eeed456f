//! The waiting line of a fleet, and the values that its sessions keep.

use api::Environment;
use api::circuits::OperationStatus;

use super::*;

/// An operation for the waiting line of a fleet.
pub fn waiting(op_id: &str, account_id: &str) -> NewWaiting {
    NewWaiting {
        op_id: op_id.to_owned(),
        account_id: account_id.to_owned(),
        counted: format!("account {account_id}"),
        counted_max: 10,
        cost: 1,
        weight: 1,
        left_us: 60_000_000,
        transfer_id: None,
        work_object: format!("object of {op_id}"),
        booking: "{}".to_owned(),
    }
}

/// The unit that records an operation and enters it in the line.
pub fn in_line(new: NewWaiting) -> Unit {
    let of = NewOperationOf::Arithmetic(NewArithmetic {
        key_id: "key_1".to_owned(),
        environment: Environment::Live,
        operation: "add".to_owned(),
    });
    let (op_id, account_id, node_id) = (new.op_id.clone(), new.account_id.clone(), FLEET.to_owned());
    let operation = NewOperation { op_id, account_id, node_id, created_at: 5, of };
    Unit { operation: Some(operation), waiting: Some(new), ..Unit::default() }
}

/// The unit that ends an operation of the line.
pub fn left_by(op_id: &str, status: OperationStatus, line: LineEnd) -> Unit {
    let end = OperationEnd {
        op_id: op_id.to_owned(),
        status,
        compute_us: 1,
        error: None,
        ended_at: 6,
        outcome: Outcome::Arithmetic(ArithmeticOutcome::default()),
        line: Some(line),
    };
    Unit { operation_end: Some(end), ..Unit::default() }
}

on_both! {
    async fn the_waiting_line_releases_accounts_in_proportion_to_their_weights(store: Store) {
        const ACCOUNTS: usize = 12;
        let weight = |account: usize| 1 + account as i64 % 8;
        let mut units = Vec::new();
        for number in 0..100 {
            for account in 0..ACCOUNTS {
                // an operation of an account costs as much as any other
                let new = waiting(&format!("op_{account}_{number}"), &format!("acct_{account}"));
                units.push(in_line(NewWaiting { cost: 8, weight: weight(account), counted_max: 1000, ..new }));
            }
        }
        let mut entering = tokio::task::JoinSet::new();
        for unit in units {
            let store = store.clone();
            entering.spawn(async move { store.submit(unit).await });
        }
        entering.join_all().await.into_iter().for_each(|entered| entered.unwrap());
        let mut shares = [0; ACCOUNTS];
        let total: i64 = (0..ACCOUNTS).map(weight).sum();
        for _ in 0..total {
            let released = store.release_waiting(5, 100, 1_000_000_000).await.unwrap();
            assert_eq!(released.len(), 5);
            for one in released {
                shares[one.account_id["acct_".len()..].parse::<usize>().unwrap()] += 1;
                store.submit(left_by(&one.op_id, OperationStatus::Completed, LineEnd::Released(one.epoch))).await.unwrap();
            }
        }
        // five times as many operations as all weights together
        for account in 0..ACCOUNTS {
            assert!((shares[account] - 5 * weight(account)).abs() <= 1, "{account}: {shares:?}");
        }
        // an account that paused has earned nothing: its operations come in turn with those of the others
        store.submit(in_line(NewWaiting { cost: 8, weight: 1, ..waiting("op_late", "acct_late") })).await.unwrap();
        store.submit(in_line(NewWaiting { cost: 8, weight: 1, ..waiting("op_later", "acct_late") })).await.unwrap();
        let first = store.release_waiting(ACCOUNTS as i64, 100, 1_000_000_000).await.unwrap();
        assert!(first.iter().all(|one| one.op_id != "op_later"));
    }

    async fn an_operation_of_the_line_is_ended_by_its_last_release_alone(store: Store) {
        let (ended_at, lease) = (|one: &Released| left_by(&one.op_id, OperationStatus::Completed, LineEnd::Released(one.epoch)), 1_000_000_000);
        for name in ["op_1", "op_2", "op_3"] {
            store.submit(in_line(NewWaiting { counted_max: 3, ..waiting(name, "acct_1") })).await.unwrap();
        }
        // the largest number of operations that are counted together
        let fourth = in_line(NewWaiting { counted_max: 3, ..waiting("op_4", "acct_1") });
        assert!(matches!(store.submit(fourth.clone()).await, Err(store::Error::TooManyWait)));
        assert!(store.operation("acct_1", "op_4").await.unwrap().is_none());
        // no more than there is room for, and no more than are wanted
        assert_eq!(store.release_waiting(0, 9, lease).await.unwrap(), []);
        assert_eq!(store.release_waiting(9, 0, lease).await.unwrap(), []);
        let first = store.release_waiting(1, 9, lease).await.unwrap();
        assert_eq!((first.len(), first[0].op_id.as_str(), first[0].epoch), (1, "op_1", 1));
        assert!(first[0].left_us > 0 && first[0].left_us <= 60_000_000);
        assert_eq!(store.release_waiting(1, 9, lease).await.unwrap(), []);
        assert_eq!(store.note_progress("op_1", 1, 7, lease).await.unwrap(), Some(false));
        assert_eq!(store.operation("acct_1", "op_1").await.unwrap().unwrap().0.line_done, Some(7));
        assert_eq!(store.take_back_silent_releases().await.unwrap(), 0);
        // the node falls silent
        assert_eq!(store.note_progress("op_1", 1, 8, -1).await.unwrap(), Some(false));
        assert_eq!(store.take_back_silent_releases().await.unwrap(), 1);
        assert_eq!(store.note_progress("op_1", 1, 9, lease).await.unwrap(), None);
        assert!(matches!(store.submit(ended_at(&first[0])).await, Err(store::Error::OperationEnded)));
        let again = store.release_waiting(1, 9, lease).await.unwrap();
        assert_eq!((again[0].op_id.as_str(), again[0].epoch), ("op_1", 2));
        // a node that slept ends nothing, and puts nothing back
        assert!(matches!(store.submit(ended_at(&first[0])).await, Err(store::Error::OperationEnded)));
        assert!(!store.take_back_release("op_1", 1).await.unwrap());
        store.submit(ended_at(&again[0])).await.unwrap();
        assert!(matches!(store.submit(ended_at(&again[0])).await, Err(store::Error::OperationEnded)));
        assert_eq!(store.operation("acct_1", "op_1").await.unwrap().unwrap().0.status, OperationStatus::Completed);
        // there is room for another one
        store.submit(fourth).await.unwrap();
        // an operation that waits is cancelled by any node, and one that is released by its node
        assert!(!store.cancel_waiting("op_2").await.unwrap().unwrap().released);
        store.submit(left_by("op_2", OperationStatus::Cancelled, LineEnd::Waiting)).await.unwrap();
        assert_eq!(store.cancel_waiting("op_2").await.unwrap(), None);
        let third = store.release_waiting(1, 9, lease).await.unwrap();
        assert!(store.cancel_waiting("op_3").await.unwrap().unwrap().released);
        assert!(matches!(store.submit(left_by("op_3", OperationStatus::Cancelled, LineEnd::Waiting)).await, Err(store::Error::OperationEnded)));
        assert_eq!(store.note_progress("op_3", 1, 0, lease).await.unwrap(), Some(true));
        assert!(store.take_back_release("op_3", 1).await.unwrap());
        assert!(store.release_waiting(1, 9, lease).await.unwrap()[0].cancelled);
        assert_eq!(third[0].op_id, "op_3");
        assert_eq!(store.waiting_line(9).await.unwrap().len(), 2);
        assert_eq!(store.work_objects().await.unwrap().len(), 2);
    }

    async fn the_length_of_the_line_tells_what_waits_and_since_when(store: Store) {
        let empty = LineLength { waiting: 0, released: 0, oldest_us: None };
        assert_eq!(store.line_length().await.unwrap(), empty);
        for name in ["op_1", "op_2", "op_3"] {
            store.submit(in_line(waiting(name, "acct_1"))).await.unwrap();
        }
        store.release_waiting(1, 9, 1_000_000_000).await.unwrap();
        let length = store.line_length().await.unwrap();
        assert_eq!((length.waiting, length.released), (2, 1));
        assert!((0..60_000_000).contains(&length.oldest_us.unwrap()), "{length:?}");
        store.release_waiting(9, 9, 1_000_000_000).await.unwrap();
        assert_eq!(store.line_length().await.unwrap(), LineLength { waiting: 0, released: 3, oldest_us: None });
    }

    async fn circuits_of_a_session_are_bounded_on_all_living_nodes_together(store: Store) {
        let lease = 60_000_000;
        for node in ["node_1", "node_2"] {
            store.begin_generation(node, 5, lease).await.unwrap();
        }
        let begin = async |op: &str, node: &str| store.begin_circuit(op, "session", node, 2).await.unwrap();
        assert!(begin("op_1", "node_1").await && begin("op_2", "node_2").await);
        assert!(!begin("op_3", "node_1").await);
        assert!(store.begin_circuit("op_3", "another", "node_1", 2).await.unwrap());
        // the circuits of the line are counted with them, in both directions
        let new = NewWaiting { counted: "session".to_owned(), counted_max: 2, ..waiting("op_4", "acct_1") };
        let enter = async || store.submit(in_line(new.clone())).await;
        assert!(matches!(enter().await, Err(store::Error::TooManyWait)));
        store.end_circuit("op_1").await.unwrap();
        enter().await.unwrap();
        assert!(!begin("op_5", "node_1").await);
        // a process that ended counts no more: its node began again, or fell silent
        store.begin_generation("node_2", 6, lease).await.unwrap();
        assert!(begin("op_5", "node_1").await && !begin("op_6", "node_2").await);
        store.begin_generation("node_1", 5, -1).await.unwrap();
        assert!(begin("op_6", "node_2").await && !begin("op_7", "node_2").await);
        assert_eq!(store.forget_circuits().await.unwrap(), 1);
        assert!(!begin("op_7", "node_2").await);
    }

    async fn circuits_that_begin_at_once_do_not_pass_the_bound(store: Store) {
        store.begin_generation("node_1", 5, 60_000_000).await.unwrap();
        let mut beginning = tokio::task::JoinSet::new();
        for number in 0..40 {
            let store = store.clone();
            beginning.spawn(async move {
                let name = format!("op_{number}");
                if number % 2 == 0 {
                    return store.begin_circuit(&name, "session", "node_1", 5).await.unwrap();
                }
                let new = NewWaiting { counted: "session".to_owned(), counted_max: 5, ..waiting(&name, &format!("acct_{number}")) };
                store.submit(in_line(new)).await.is_ok()
            });
        }
        let begun = beginning.join_all().await;
        assert_eq!(begun.into_iter().filter(|begun| *begun).count(), 5);
    }

    async fn the_fleet_holds_the_reservations_of_the_line_until_their_operations_end(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        let new = reservation("t_1", "acct_1", Wanted::MilliYen(5));
        assert!(matches!(store.reserve(new).await.unwrap(), Reserved::Made(_)));
        let paid = |op: &str, transfer: &str| in_line(NewWaiting { transfer_id: Some(transfer.to_owned()), ..waiting(op, "acct_1") });
        store.submit(paid("op_1", "t_1")).await.unwrap();
        let findings = async || store.audit_ledger(100).await.unwrap().findings;
        assert_eq!(findings().await, []);
        // neither the end nor the silence of the node that accepted the operation gives the reservation back
        assert!(store.reservations_of_node("node_1", "", 9).await.unwrap().is_empty());
        assert!(store.forsaken_reservations("node_2", 1000, 9).await.unwrap().is_empty());
        assert!(store.reservations_without_operation(9).await.unwrap().is_empty());
        // a reservation that is not open fails the whole unit
        assert!(matches!(store.submit(paid("op_2", "t_none")).await, Err(store::Error::ReservationLost)));
        assert!(store.operation("acct_1", "op_2").await.unwrap().is_none());
        store.submit(left_by("op_1", OperationStatus::Cancelled, LineEnd::Waiting)).await.unwrap();
        assert_eq!(store.reservations_without_operation(9).await.unwrap(), [("t_1".to_owned(), "acct_1".to_owned())]);
        store.void_reservation("t_1", "acct_1", 2).await.unwrap();
        assert!(store.reservations_without_operation(9).await.unwrap().is_empty());
        assert_eq!(findings().await, []);
    }

    async fn values_of_a_session_of_a_fleet_are_bounded_and_end_with_the_session(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        let at_rest = FleetKey { object: "key".to_owned(), bytes: 7, secret: vec![9; 72], facts: "{}".to_owned() };
        for number in 1..=2 {
            open(&store, &NewGateSession { node_id: FLEET, key: Some(&at_rest), ..session(&[number; 32], "acct_1") }).await;
        }
        let value = |name: &str, of_run: Option<i64>, bytes| NewSessionValue {
            name: name.to_owned(),
            session_digest: [1; 32],
            of_run: of_run.map(|place| ("op_1".to_owned(), place)),
            object: format!("object of {name}"),
            bytes,
            bytes_max: 100,
        };
        let keep = async |values: Vec<NewSessionValue>| store.submit(Unit { values, ..Unit::default() }).await;
        keep(vec![value("op_1-1", Some(1), 30), value("hdl_1", Some(0), 0), value("hdl_2", None, 30)]).await.unwrap();
        // all of a unit or nothing
        assert!(matches!(keep(vec![value("hdl_3", None, 40), value("hdl_4", None, 1)]).await, Err(store::Error::ValuesFull)));
        keep(vec![value("hdl_3", None, 40)]).await.unwrap();
        let at = async |session: u8, name: &str| store.session_value(&[session; 32], name).await.unwrap();
        assert_eq!(at(1, "hdl_2").await.unwrap().object.as_deref(), Some("object of hdl_2"));
        assert_eq!((at(2, "hdl_2").await, at(1, "hdl_4").await), (None, None));
        assert_eq!(store.fleet_key(&[1; 16]).await.unwrap().unwrap().value_bytes, 100);
        let outputs = async || {
            let outputs = store.outputs_of_run(&[1; 32], "op_1").await.unwrap();
            outputs.into_iter().map(|value| (value.name, value.object.is_some())).collect::<Vec<_>>()
        };
        assert_eq!(outputs().await, [("hdl_1".to_owned(), true), ("op_1-1".to_owned(), true)]);
        // another session's handle is unknown, and a value is deleted once
        assert_eq!(store.forget_session_value(&[2; 32], "hdl_1").await.unwrap(), None);
        assert_eq!(store.forget_session_value(&[1; 32], "hdl_1").await.unwrap().as_deref(), Some("object of hdl_1"));
        assert_eq!(store.forget_session_value(&[1; 32], "hdl_1").await.unwrap(), None);
        assert_eq!(outputs().await, [("hdl_1".to_owned(), false), ("op_1-1".to_owned(), true)]);
        assert_eq!(store.forget_outputs_of_run(&[1; 32], "op_1").await.unwrap(), ["object of op_1-1"]);
        assert_eq!(store.fleet_key(&[1; 16]).await.unwrap().unwrap().value_bytes, 70);
        assert_eq!(store.value_objects().await.unwrap().len(), 2);
        store.end_gate_session(&[1; 32], SessionEnd::Deleted, 11).await.unwrap();
        assert!(matches!(keep(vec![value("hdl_5", None, 0)]).await, Err(store::Error::SessionEnded)));
        assert_eq!(at(1, "hdl_2").await, None);
        assert_eq!(store.forget_values_of(&[1; 32]).await.unwrap().len(), 2);
        assert!(store.value_objects().await.unwrap().is_empty() && outputs().await.is_empty());
    }
}
