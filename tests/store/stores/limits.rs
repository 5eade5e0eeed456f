//! Limits on requests that several nodes count together, and lockouts that nodes share, on both databases.

use super::*;

/// Makes the report of a node that spent `spent` requests and reserves `need` more, for an account with 100 requests a
/// day and 1000 a month.
fn told(spent: i64, need: i64) -> Settlement {
    let reservation = Some(Reservation { need, spare: 0, day_limit: 100, month_limit: 1000 });
    let subject = "acct_1".to_owned();
    Settlement { subject, day: 5, month: 1, day_spent: spent, month_spent: spent, reservation }
}

async fn settle(store: &Store, told: Settlement) -> Settled {
    store.settle_requests(&[told]).await.unwrap()[0]
}

fn failed(subject: u8, failures: &[i64]) -> Lockout {
    Lockout {
        subject: [subject; 32],
        kind: LockoutKind::Key,
        failures: failures.to_vec(),
        locked_until: None,
        expires_at: 0,
    }
}

/// Adds the failures of `new` to a lockout. Three failures lock the subject until the time 100.
fn add(lockout: &mut Lockout, new: &Lockout) {
    lockout.failures.extend(&new.failures);
    lockout.locked_until = (lockout.failures.len() >= 3).then_some(100);
    lockout.expires_at = 100;
}

on_both! {
    async fn l1_nodes_together_let_no_more_pass_than_the_limit(store: Store) {
        // of the hundred requests, two nodes reserve forty each; then the store refuses to reserve 21, because only
        // twenty are left
        let first = settle(&store, told(0, 40)).await;
        assert_eq!(first, Settled { day_used: 40, month_used: 40, reserved: 40, free: 60 });
        assert_eq!(settle(&store, told(0, 40)).await.reserved, 40);
        let refused = settle(&store, told(0, 21)).await;
        assert_eq!(refused, Settled { day_used: 80, month_used: 80, reserved: 0, free: 20 });
        // a node that used thirty of its forty requests gives ten back and reserves 21
        let settled = settle(&store, told(-10, 21)).await;
        assert_eq!(settled, Settled { day_used: 91, month_used: 91, reserved: 21, free: 9 });
    }

    async fn l3_a_new_day_and_a_new_month_begin_at_zero(store: Store) {
        settle(&store, told(100, 0)).await;
        assert_eq!(settle(&store, told(0, 1)).await.reserved, 0);
        let tomorrow = Settlement { day: 6, ..told(0, 1) };
        let settled = settle(&store, tomorrow).await;
        assert_eq!((settled.day_used, settled.month_used, settled.reserved), (1, 101, 1));
        let next_month = Settlement { day: 36, month: 2, ..told(0, 1) };
        assert_eq!(settle(&store, next_month).await.month_used, 1);
        assert_eq!(store.forget_request_counts(2).await.unwrap(), 0);
        assert_eq!(store.forget_request_counts(3).await.unwrap(), 1);
    }

    async fn l1_settlements_at_once_lose_nothing_and_do_not_wait_for_one_another_for_ever(store: Store) {
        let of = |subject: &str| Settlement { subject: subject.to_owned(), reservation: None, ..told(1, 0) };
        let settling = (0..20).map(|turn| {
            let mut both = vec![of("acct_1"), of("acct_2")];
            if turn % 2 == 0 {
                both.reverse();
            }
            let store = store.clone();
            tokio::spawn(async move { store.settle_requests(&both).await.unwrap() })
        });
        for settled in settling.collect::<Vec<_>>() {
            settled.await.unwrap();
        }
        assert_eq!(settle(&store, told(0, 0)).await.day_used, 20);
    }

    async fn l6_a_bucket_gives_its_tokens_at_once_and_no_more_whichever_node_asks(store: Store) {
        // a bucket of ten tokens, one a minute
        const MINUTE: i64 = 60_000_000;
        let take = async |subject, tokens| store.take_tokens(subject, tokens * MINUTE, 10 * MINUTE).await.unwrap();
        assert!(take("acct_1", 3).await && take("acct_1", 3).await && take("acct_1", 3).await);
        // one token is left: all or none
        assert!(!take("acct_1", 3).await && !take("acct_1", 2).await);
        assert!(take("acct_1", 1).await && !take("acct_1", 1).await);
        assert!(take("acct_2", 10).await && !take("acct_2", 1).await);
        // another rate of the same bucket: all of what is ahead counts as used, but not the time beyond twice the span
        assert!(!store.take_tokens("acct_2", 1, 9 * MINUTE).await.unwrap());
        assert!(store.take_tokens("acct_2", 1, 4 * MINUTE).await.unwrap());
        assert_eq!(store.forget_full_buckets(-9 * MINUTE).await.unwrap(), 1, "acct_2");
        assert!(take("acct_2", 10).await && !take("acct_1", 1).await);
        assert_eq!(store.forget_full_buckets(0).await.unwrap(), 0);
        assert_eq!(store.forget_full_buckets(i64::MIN / 2).await.unwrap(), 2);
        assert!(take("acct_1", 10).await);
    }

    async fn l6_of_many_askers_at_once_as_many_get_tokens_as_there_are(store: Store) {
        const HOUR: i64 = 3_600_000_000;
        let asking = (0..40).map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.take_tokens("acct_1", HOUR, 7 * HOUR).await.unwrap() })
        });
        let mut taken = 0;
        for asked in asking.collect::<Vec<_>>() {
            taken += usize::from(asked.await.unwrap());
        }
        assert_eq!(taken, 7);
    }

    async fn l1_units_of_a_day_are_taken_up_to_the_limit_and_go_with_the_day(store: Store) {
        let day_end = 1_000_000_000;
        let take = async |units: i64| store.take_units("addr_1@5", units, 10, day_end).await.unwrap();
        assert_eq!((take(11).await, take(4).await, take(4).await), (None, Some(4), Some(8)));
        assert_eq!((take(4).await, take(2).await, take(1).await), (None, Some(10), None));
        assert_eq!(store.take_units("addr_2@5", 1, 10, day_end).await.unwrap(), Some(1));
        // the day is long over
        assert_eq!(store.forget_full_buckets(60_000_000).await.unwrap(), 2);
    }

    async fn l1_of_many_that_take_units_at_once_as_many_get_them_as_there_are(store: Store) {
        let mut taking = tokio::task::JoinSet::new();
        for _ in 0..40 {
            let store = store.clone();
            taking.spawn(async move { store.take_units("addr_1@5", 3, 10, i64::MAX / 2).await.unwrap().is_some() });
        }
        assert_eq!(taking.join_all().await.into_iter().filter(|taken| *taken).count(), 3);
    }

    async fn a21_failures_of_all_nodes_add_up_and_every_change_is_told_once(store: Store) {
        let known = store.add_lockout_failures(&[failed(1, &[10, 11])], add).await.unwrap();
        assert_eq!((&known[0].failures[..], known[0].locked_until), (&[10, 11][..], None));
        let (changed, version) = store.lockouts_since(0).await.unwrap();
        assert_eq!(changed, known);
        let known = store.add_lockout_failures(&[failed(1, &[12]), failed(2, &[12])], add).await.unwrap();
        assert_eq!((known[0].failures.len(), known[0].locked_until, known[1].locked_until), (3, Some(100), None));
        let (changed, later) = store.lockouts_since(version).await.unwrap();
        assert!(changed.len() == 2 && later > version);
        assert_eq!(store.lockouts_since(later).await.unwrap(), (Vec::new(), later));
        let locked = store.locked(50).await.unwrap();
        assert_eq!((locked.len(), &locked[0].subject[..], locked[0].locked_until), (1, &[1; 32][..], 100));
        assert!(store.locked(100).await.unwrap().is_empty());
    }

    async fn a21_who_is_forgiven_starts_anew_and_nodes_hear_of_it(store: Store) {
        store.add_lockout_failures(&[failed(1, &[1, 2, 3]), failed(2, &[1])], add).await.unwrap();
        let (_, version) = store.lockouts_since(0).await.unwrap();
        assert_eq!(store.clear_lockouts(Some(&[1; 32]), 50).await.unwrap(), 1);
        let (changed, _) = store.lockouts_since(version).await.unwrap();
        assert_eq!((changed.len(), changed[0].locked_until, changed[0].failures.len()), (1, None, 0));
        assert_eq!(store.clear_lockouts(Some(&[1; 32]), 50).await.unwrap(), 0);
        assert_eq!(store.clear_lockouts(None, 50).await.unwrap(), 1);
        assert_eq!(store.forget_lockouts(99).await.unwrap(), 0);
        assert_eq!(store.forget_lockouts(100).await.unwrap(), 2);
    }

    async fn a21_a_locked_key_is_named_to_the_operator(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        store.add_lockout_failures(&[failed(1, &[1, 2, 3])], add).await.unwrap();
        let locked = store.locked(50).await.unwrap();
        assert_eq!((locked[0].key_id.as_deref(), locked[0].account_id.as_deref()), (Some("ak_1"), Some("acct_1")));
    }

    async fn a21_failures_told_at_once_all_count(store: Store) {
        let telling = (0..10).map(|at| {
            let store = store.clone();
            tokio::spawn(async move { store.add_lockout_failures(&[failed(1, &[at])], add).await.unwrap() })
        });
        for told in telling.collect::<Vec<_>>() {
            told.await.unwrap();
        }
        let (changed, _) = store.lockouts_since(0).await.unwrap();
        assert_eq!(changed[0].failures.len(), 10);
    }
}
