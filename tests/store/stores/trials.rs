//! Rotated keys, trials and the largest number of open sessions, on both databases.

use super::*;

fn trial_key<'a>(digest: &'a [u8; 32], key_id: &'a str, account_id: &'a str) -> NewApiKey<'a> {
    let of_trial = NewApiKey {
        role: Role::Trial,
        environment: Environment::Trial,
        office: false,
        plan: Plan::Trial,
        ..key(digest, key_id, "")
    };
    NewApiKey { account_id, lineage_id: account_id, expires_at: Some(100), key_prefix: "svc_trial_012345", ..of_trial }
}

const WINDOW: TrialWindow<'_> = TrialWindow { network: &[9; 32], keys_max: 5, length: 60 };

on_both! {
    async fn a22_a_network_gets_so_many_trial_keys_within_a_window_that_slides(store: Store) {
        let give = async |number: u8, network: &[u8; 32], now: i64| {
            let (digest, key_id, account) = ([number; 32], format!("ak_{number}"), format!("acct_{number}"));
            let key = NewApiKey { created_at: now, ..trial_key(&digest, &key_id, &account) };
            store.insert_trial_key(&key, &[7; 52], TrialWindow { network, ..WINDOW }).await.unwrap()
        };
        for number in 0..5 {
            assert_eq!(give(number, &[1; 32], 100 + i64::from(number)).await, TrialKeyMade::Made);
        }
        assert_eq!(give(5, &[1; 32], 159).await, TrialKeyMade::TooMany { oldest_at: 100 });
        // no row of the refused trial exists, and another network has its own window
        assert!(store.api_key(&[5; 32]).await.unwrap().is_none());
        assert_eq!(give(6, &[2; 32], 159).await, TrialKeyMade::Made);
        // a revoked key is still one of the five keys that its network gets in a window
        assert_eq!(store.revoke_lineage("acct_0", 159).await.unwrap(), 1);
        assert_eq!(give(7, &[1; 32], 159).await, TrialKeyMade::TooMany { oldest_at: 100 });
        assert_eq!(give(8, &[1; 32], 160).await, TrialKeyMade::Made);
        assert_eq!(give(9, &[1; 32], 160).await, TrialKeyMade::TooMany { oldest_at: 101 });
        // a clock that was set back does not lock a network out
        assert_eq!(give(10, &[1; 32], 10).await, TrialKeyMade::Made);
        assert_eq!(store.forget_trial_windows(219).await.unwrap(), 2);
    }

    async fn a22_of_trial_keys_asked_for_at_once_no_more_are_given_than_may(store: Store) {
        let mut asked = Vec::new();
        for number in 0..20_u8 {
            let store = store.clone();
            asked.push(tokio::spawn(async move {
                let (digest, key_id, account) = ([number; 32], format!("ak_{number}"), format!("acct_{number}"));
                store.insert_trial_key(&trial_key(&digest, &key_id, &account), &[7; 52], WINDOW).await.unwrap()
            }));
        }
        let mut made = 0;
        for asked in asked {
            made += usize::from(asked.await.unwrap() == TrialKeyMade::Made);
        }
        assert_eq!(made, 5);
    }

    async fn a18_a_key_is_rotated_once_and_keeps_what_it_was(store: Store) {
        store.insert_api_key(&NewApiKey { expires_at: Some(90), ..key(&[1; 32], "ak_1", "acct_1") }).await.unwrap();
        let new = NewApiKey { created_at: 20, expires_at: Some(90), ..key(&[2; 32], "ak_2", "acct_1") };
        assert!(rotate(&store, "ak_1", 44, &new).await);
        let again = NewApiKey { key_id: "ak_3", digest: &[3; 32], ..new };
        assert!(!rotate(&store, "ak_1", 44, &again).await);
        assert!(store.api_key(&[3; 32]).await.unwrap().is_none());
        let old = store.api_key_of_id("ak_1").await.unwrap().unwrap();
        assert_eq!((old.rotated_at, old.expires_at), (Some(20), Some(44)));
        assert_eq!((old.status(43), old.status(44)), (KeyStatus::Rotating, KeyStatus::Expired));
        let new = store.api_key(&[2; 32]).await.unwrap().unwrap();
        assert_eq!((new.expires_at, new.status(50)), (Some(90), KeyStatus::Active));
        assert_eq!(store.revoke_lineage("lin_1", 60).await.unwrap(), 2);
        // a revoked key does not rotate
        assert!(!rotate(&store, "ak_2", 70, &again).await);
    }

    async fn a_key_s_last_use_never_goes_back(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        for (at, seen) in [(30, 30), (20, 30), (40, 40)] {
            store.keys_used(&[("ak_1".to_owned(), at), ("ak_unknown".to_owned(), at)]).await.unwrap();
            assert_eq!(store.api_key_of_id("ak_1").await.unwrap().unwrap().last_used_at, Some(seen));
        }
    }

    async fn a14_operations_of_a_trial_are_counted_up_to_their_bound(store: Store) {
        store.insert_trial_key(&trial_key(&[1; 32], "ak_1", "acct_1"), &[7; 52], WINDOW).await.unwrap();
        let take = async |transfer: &str, account: &str, count| {
            let wanted = Wanted::TrialOperations { count, max: 10 };
            let foretold = store.would_reserve(&reservation(transfer, account, wanted)).await.unwrap();
            let reserved = store.reserve(reservation(transfer, account, wanted)).await.unwrap();
            assert_eq!(foretold, reserved, "{transfer}");
            reserved
        };
        let made = |trial_operations| Reserved::Made(Amounts { trial_operations, ..Amounts::default() });
        assert_eq!(take("t_1", "acct_1", 7).await, made(7));
        assert_eq!(take("t_2", "acct_1", 4).await, Reserved::TrialExhausted);
        assert_eq!(take("t_3", "acct_1", 3).await, made(3));
        store.void_reservation("t_1", "acct_1", 20).await.unwrap();
        assert_eq!(store.trial("acct_1").await.unwrap(), Some(Trial { expires_at: 100, operations_used: 3 }));
        assert_eq!(take("t_4", "acct_2", 1).await, Reserved::TrialExhausted);
        // a second return of a reservation has no effect, nor has the return of a reservation that was posted
        store.void_reservation("t_1", "acct_1", 20).await.unwrap();
        store.submit(posting("t_3", "acct_1")).await.unwrap();
        store.void_reservation("t_3", "acct_1", 20).await.unwrap();
        assert_eq!(store.trial("acct_1").await.unwrap(), Some(Trial { expires_at: 100, operations_used: 3 }));
        assert_eq!(without_work(&store.audit_ledger(100).await.unwrap()), []);
    }

    async fn a12_an_ended_trial_is_erased_when_its_sessions_are_closed(store: Store) {
        for (digest, key_id, account) in [([1; 32], "ak_1", "acct_1"), ([2; 32], "ak_2", "acct_2")] {
            store.insert_trial_key(&trial_key(&digest, key_id, account), &[7; 52], WINDOW).await.unwrap();
        }
        open(&store, &session(&[1; 32], "acct_1")).await;
        store.submit(charge(usage("use_1", &[1; 32]))).await.unwrap();
        store.submit(begin(operation("op_1"))).await.unwrap();
        let counted = Settlement { subject: "acct_1".into(), day: 1, month: 1, day_spent: 3, month_spent: 3, ..Settlement::default() };
        store.settle_requests(std::slice::from_ref(&counted)).await.unwrap();
        let wanted = Wanted::TrialOperations { count: 1, max: 10 };
        store.reserve(reservation("t_1", "acct_1", wanted)).await.unwrap();
        assert!(store.ended_trials(99, 10).await.unwrap().is_empty());
        store.revoke_lineage("acct_2", 15).await.unwrap();
        assert_eq!(store.ended_trials(16, 10).await.unwrap(), ["acct_2"]);
        assert_eq!(store.ended_trials(100, 10).await.unwrap(), ["acct_1", "acct_2"]);
        assert!(!store.erase_trial("acct_1", 19, 100).await.unwrap());
        store.end_gate_session(&[1; 32], SessionEnd::Expired, 20).await.unwrap();
        assert!(!store.erase_trial("acct_1", 19, 100).await.unwrap());
        assert!(store.erase_trial("acct_1", 20, 100).await.unwrap());
        assert_eq!(store.gate_usage_totals("acct_1").await.unwrap(), (0, 0, 0));
        assert_eq!(recorded(&store, "op_1").await, None);
        let audit = store.audit_ledger(100).await.unwrap();
        assert_eq!((audit.transfers, audit.open, audit.findings), (0, 0, vec![]));
        let none = Settlement { day_spent: 0, month_spent: 0, ..counted };
        assert_eq!(store.settle_requests(&[none]).await.unwrap(), [Settled::default()]);
        assert!(store.api_key(&[1; 32]).await.unwrap().is_none() && store.trial("acct_1").await.unwrap().is_none());
        assert_eq!(store.ended_trials(100, 10).await.unwrap(), ["acct_2"]);
        // an erased account cannot open a session
        let opened = open(&store, &session(&[3; 32], "acct_1")).await;
        assert_eq!(opened, SessionOpened::NoAccount);
        assert!(store.api_key(&[2; 32]).await.unwrap().is_some());
        // the row of an erased account is deleted later; from then on the account is unknown
        assert_eq!(store.forget_erased_accounts(100).await.unwrap(), 0);
        assert_eq!(store.forget_erased_accounts(101).await.unwrap(), 1);
        assert!(!store.has_account("acct_1").await.unwrap() && store.has_account("acct_2").await.unwrap());
        let opened = open(&store, &session(&[3; 32], "acct_1")).await;
        assert_eq!(opened, SessionOpened::NoAccount);
    }

    async fn ended_sessions_that_charged_nothing_are_forgotten(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        // sessions 1 to 3 end: 1 has a charge, 2 a circuit run, 3 neither; 4 expires on a lost node, and 5 stays open
        for (number, expires_at) in [(1, 20), (2, 20), (3, 20), (4, 20), (5, 90)] {
            let new = NewGateSession { digest: &[number; 32], expires_at, ..session(&[0; 32], "acct_1") };
            assert_eq!(open(&store, &new).await, SessionOpened::Opened);
        }
        store.submit(charge(usage("use_1", &[1; 32]))).await.unwrap();
        store.submit(begin(operation_of("op_1", NewOperationOf::Circuit(new_run([2; 32]))))).await.unwrap();
        for number in 1..=3 {
            store.end_gate_session(&[number; 32], SessionEnd::Deleted, 15).await.unwrap();
        }
        assert_eq!(store.forget_gate_sessions(20).await.unwrap(), 0);
        assert_eq!(store.forget_gate_sessions(30).await.unwrap(), 2);
        for (number, stays) in [(1, true), (2, true), (3, false), (4, false), (5, true)] {
            assert_eq!(store.gate_session("acct_1", &[number; 32]).await.unwrap().is_some(), stays, "{number}");
        }
    }

    async fn g3_the_sessions_of_a_node_expire_on_record_in_one_statement(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        for (number, node_id, expires_at) in [(1, "node_1", 20), (2, "node_1", 20), (3, "node_1", 31), (4, "node_2", 20)] {
            let new = NewGateSession { digest: &[number; 32], node_id, expires_at, ..session(&[0; 32], "acct_1") };
            open(&store, &new).await;
        }
        assert_eq!(store.expire_gate_sessions("node_1", 30).await.unwrap(), 2);
        assert_eq!(store.expire_gate_sessions("node_1", 30).await.unwrap(), 0);
        let one = store.gate_session("acct_1", &[1; 32]).await.unwrap().unwrap();
        assert_eq!((one.state, one.ended_at), (RecordedState::Expired, Some(30)));
        assert_eq!(store.end_gate_sessions_of("acct_1", "node_1", 30).await.unwrap(), 1);
        assert_eq!(store.gate_session("acct_1", &[4; 32]).await.unwrap().unwrap().state, RecordedState::Active);
    }

    async fn l9_open_sessions_are_counted_with_the_new_one(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        let one_of = |max| NewGateSession { open_max: Some(max), ..session(&[9; 32], "acct_1") };
        // a bound of zero refuses even the first session
        let refused = open(&store, &one_of(0)).await;
        assert_eq!(refused, SessionOpened::TooMany { first_ends_at: None });
        let first = NewGateSession { digest: &[1; 32], ..one_of(1) };
        assert_eq!(open(&store, &first).await, SessionOpened::Opened);
        let refused = open(&store, &one_of(1)).await;
        assert_eq!(refused, SessionOpened::TooMany { first_ends_at: Some(20) });
        assert!(store.gate_session("acct_1", &[9; 32]).await.unwrap().is_none());
        assert_eq!(open(&store, &one_of(2)).await, SessionOpened::Opened);
        // an expired session is no longer an open one, even before its end is recorded
        let later = NewGateSession { digest: &[3; 32], created_at: 20, expires_at: 30, ..one_of(1) };
        assert_eq!(open(&store, &later).await, SessionOpened::Opened);
    }
}
