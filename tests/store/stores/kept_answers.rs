//! Claims and stored answers (readings I3, I4).

use super::*;

/// An hour in microseconds.
const HOUR_US: i64 = 3_600_000_000;

fn claim(digest: [u8; 32], claim: [u8; 16], node_id: &str, held_until: i64, now: i64) -> NewClaim {
    let (account_id, node_id) = ("acct_1".to_owned(), node_id.to_owned());
    NewClaim { digest, account_id, claim, node_id, generation: 1, held_until, now }
}

fn kept(digest: u8, claim: u8, held_until: i64) -> KeptAnswer {
    let blob = Some("b".to_owned());
    KeptAnswer {
        digest: [digest; 32],
        claim: [claim; 16],
        answer: b"sealed".to_vec(),
        blob,
        held_until,
        provisional: false,
    }
}

async fn with_session(store: &Store) {
    store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
    open(store, &session(&[1; 32], "acct_1")).await;
    for node in ["node", "other", "new"] {
        store.begin_generation(node, 1, HOUR_US).await.unwrap();
    }
}

on_both! {
    async fn i3_m_of_fifty_claims_at_once_one_is_granted(store: Store) {
        with_session(&store).await;
        let tasks: Vec<_> = (0..50u8)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move { store.claim(claim([1; 32], [n; 16], "node", 100, 1)).await })
            })
            .collect();
        let mut granted = 0;
        for task in tasks {
            match task.await.unwrap().unwrap() {
                Claimed::Mine => granted += 1,
                other => assert_eq!(other, Claimed::Running),
            }
        }
        assert_eq!(granted, 1);
    }

    async fn i4_an_answer_is_kept_with_its_charge_or_neither(store: Store) {
        with_session(&store).await;
        assert_eq!(store.claim(claim([1; 32], [1; 16], "node", 100, 1)).await.unwrap(), Claimed::Mine);
        // if the charge fails, the answer is not stored
        store.submit(Unit { keep: Some(kept(1, 1, 100)), ..charge(usage("use_1", &[9; 32])) }).await.unwrap_err();
        assert_eq!(store.claim(claim([1; 32], [2; 16], "node", 100, 1)).await.unwrap(), Claimed::Running);
        // the claim of this answer belongs to another request, so the whole unit fails, including its charge
        let lost = store.submit(Unit { keep: Some(kept(1, 2, 100)), ..charge(usage("use_1", &[1; 32])) }).await.unwrap_err();
        assert!(matches!(lost, Error::ClaimLost));
        assert_eq!(store.gate_usage_totals("acct_1").await.unwrap(), (0, 0, 0));
        store.submit(Unit { keep: Some(kept(1, 1, 100)), ..charge(usage("use_1", &[1; 32])) }).await.unwrap();
        let answer = Claimed::Kept { answer: b"sealed".to_vec(), blob: Some("b".to_owned()) };
        assert_eq!(store.claim(claim([1; 32], [3; 16], "node", 100, 1)).await.unwrap(), answer);
        // an answer is stored only once
        assert!(matches!(store.submit(Unit { keep: Some(kept(1, 1, 100)), ..Unit::default() }).await, Err(Error::ClaimLost)));
    }

    async fn i4_an_answer_that_only_names_an_operation_is_replaced_once_and_goes_with_its_claim(store: Store) {
        with_session(&store).await;
        let put = async |kept: KeptAnswer| store.submit(Unit { keep: Some(kept), ..Unit::default() }).await;
        for n in 1..=2 {
            assert_eq!(store.claim(claim([n; 32], [n; 16], "node", 100, 1)).await.unwrap(), Claimed::Mine);
            put(KeptAnswer { answer: b"pending".to_vec(), provisional: true, ..kept(n, n, 100) }).await.unwrap();
        }
        let found = async |n: u8| store.claim(claim([n; 32], [9; 16], "node", 100, 1)).await.unwrap();
        let of = |text: &[u8]| Claimed::Kept { answer: text.to_vec(), blob: Some("b".to_owned()) };
        assert_eq!(found(1).await, of(b"pending"));
        // the end of a process takes its claims, and this answer names an operation that goes on
        store.end_claims_of_node("node").await.unwrap();
        assert_eq!(found(1).await, of(b"pending"));
        assert!(matches!(put(kept(1, 2, 100)).await, Err(Error::ClaimLost)));
        put(kept(1, 1, 100)).await.unwrap();
        assert_eq!(found(1).await, of(b"sealed"));
        assert!(matches!(put(kept(1, 1, 100)).await, Err(Error::ClaimLost)));
        // the request may be answered with an error while its operation goes on, so a release leaves the answer
        store.release_claim(&[2; 32], &[2; 16]).await.unwrap();
        assert_eq!(found(2).await, of(b"pending"));
        // an operation that failed leaves no answer
        for n in 1..=2 {
            store.drop_provisional_answer(&[n; 32], &[n; 16]).await.unwrap();
        }
        assert_eq!((found(1).await, found(2).await), (of(b"sealed"), Claimed::Mine));
        // two answers at once
        for n in 3..=4 {
            assert_eq!(store.claim(claim([n; 32], [n; 16], "node", 100, 1)).await.unwrap(), Claimed::Mine);
        }
        let pending = |n| KeptAnswer { answer: b"pending".to_vec(), provisional: true, ..kept(n, n, 100) };
        let (one, two) = tokio::join!(put(pending(3)), put(pending(4)));
        assert!(one.is_ok() && two.is_ok());
        let (one, two) = tokio::join!(put(kept(3, 3, 100)), put(kept(4, 4, 100)));
        assert!(one.is_ok() && two.is_ok());
        assert_eq!((found(3).await, found(4).await), (of(b"sealed"), of(b"sealed")));
    }

    async fn claims_end_by_release_restart_and_time_and_answers_by_time_alone(store: Store) {
        with_session(&store).await;
        for n in 1..=4 {
            let node = if n == 3 { "other" } else { "node" };
            assert_eq!(store.claim(claim([n; 32], [n; 16], node, 100, 1)).await.unwrap(), Claimed::Mine);
        }
        store.submit(Unit { keep: Some(kept(4, 4, 200)), ..Unit::default() }).await.unwrap();
        let state = async |n: u8, now| store.claim(claim([n; 32], [9; 16], "new", 300, now)).await.unwrap();
        // a release affects neither another request's claim nor a stored answer
        store.release_claim(&[1; 32], &[2; 16]).await.unwrap();
        store.release_claim(&[4; 32], &[4; 16]).await.unwrap();
        assert_eq!(state(1, 1).await, Claimed::Running);
        store.begin_generation("node", 2, HOUR_US).await.unwrap();
        assert_eq!(state(1, 1).await, Claimed::Mine);
        assert_eq!((state(3, 99).await, state(3, 100).await), (Claimed::Running, Claimed::Mine));
        assert!(matches!(state(4, 199).await, Claimed::Kept { .. }));
        assert_eq!(store.kept_blobs().await.unwrap(), ["b"]);
        assert_eq!(store.forget_kept_answers(199).await.unwrap(), 0);
        assert_eq!(store.forget_kept_answers(200).await.unwrap(), 1);
        assert!(store.kept_blobs().await.unwrap().is_empty());
        assert_eq!(state(4, 200).await, Claimed::Mine);
    }

    async fn i3_a_claim_is_free_when_the_lease_of_its_process_is_over_and_not_before(store: Store) {
        with_session(&store).await;
        // a lease of no length is over when the next statement runs
        for (n, lease_us) in [(1, HOUR_US), (2, 0), (3, -1), (4, -HOUR_US), (5, HOUR_US)] {
            store.begin_generation(&format!("node_{n}"), 7, lease_us).await.unwrap();
            let new = NewClaim { generation: 7, ..claim([n; 32], [n; 16], &format!("node_{n}"), i64::MAX, 1) };
            assert_eq!(store.claim(new).await.unwrap(), Claimed::Mine, "{n}");
        }
        // a node without a row, and a generation that is not its node's present one
        for (n, node, generation) in [(6, "unknown", 7), (7, "node_1", 6)] {
            let new = NewClaim { generation, ..claim([n; 32], [n; 16], node, i64::MAX, 1) };
            assert_eq!(store.claim(new).await.unwrap(), Claimed::Mine, "{n}");
        }
        // an answer stays, whatever becomes of the process
        store.submit(Unit { keep: Some(kept(5, 5, i64::MAX)), ..Unit::default() }).await.unwrap();
        store.begin_generation("node_5", 8, HOUR_US).await.unwrap();
        // all at once, so that some claims share a statement
        let tasks: Vec<_> = (1..=7u8)
            .rev()
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move { (n, store.claim(claim([n; 32], [90 + n; 16], "new", i64::MAX, 1)).await) })
            })
            .collect();
        for task in tasks {
            let (n, claimed) = task.await.unwrap();
            match (n, claimed.unwrap()) {
                (1, claimed) => assert_eq!(claimed, Claimed::Running),
                (5, claimed) => assert!(matches!(claimed, Claimed::Kept { .. }), "{claimed:?}"),
                (n, claimed) => assert_eq!(claimed, Claimed::Mine, "{n}"),
            }
        }
        // the request that was suspended ends: neither its answer nor its charge is stored, and its release changes nothing
        let late = Unit { keep: Some(kept(2, 2, 100)), ..charge(usage("use_1", &[1; 32])) };
        assert!(matches!(store.submit(late).await, Err(Error::ClaimLost)));
        store.release_claim(&[2; 32], &[2; 16]).await.unwrap();
        assert_eq!(store.gate_usage_totals("acct_1").await.unwrap(), (0, 0, 0));
        store.submit(Unit { keep: Some(kept(2, 92, 100)), ..charge(usage("use_1", &[1; 32])) }).await.unwrap();
    }

    async fn i3_a_lease_that_was_over_or_taken_is_not_renewed_and_its_generation_ends(store: Store) {
        with_session(&store).await;
        let renew = async |generation, lease_us| store.renew_generation("node", generation, lease_us).await.unwrap();
        assert!(!store.renew_generation("unknown", 1, HOUR_US).await.unwrap());
        assert!(!renew(2, HOUR_US).await);
        // the renewal counts from now, so a lease may also become shorter
        assert!(renew(1, i64::from(u32::MAX)).await && renew(1, 0).await);
        assert!(!renew(1, HOUR_US).await && !renew(1, HOUR_US).await);
        assert_eq!(store.claim(claim([1; 32], [1; 16], "node", 100, 1)).await.unwrap(), Claimed::Mine);
        assert_eq!(store.claim(claim([2; 32], [2; 16], "other", 100, 1)).await.unwrap(), Claimed::Mine);
        store.begin_generation("node", i64::MIN, HOUR_US).await.unwrap();
        assert!(renew(i64::MIN, HOUR_US).await && !renew(1, HOUR_US).await);
        // the claims of the generation before are lost, and those of another node stay
        let late = Unit { keep: Some(kept(1, 1, 100)), ..Unit::default() };
        assert!(matches!(store.submit(late).await, Err(Error::ClaimLost)));
        store.submit(Unit { keep: Some(kept(2, 2, 100)), ..Unit::default() }).await.unwrap();
        // a node that stops in order ends its lease, and the row of its sessions goes with it
        store.renew_lease("node", 15).await.unwrap();
        assert!(renew(i64::MIN, HOUR_US).await, "the two leases do not touch each other");
        store.end_lease("node").await.unwrap();
        assert!(!renew(i64::MIN, HOUR_US).await);
    }

    async fn i3_fifty_requests_take_a_dead_process_s_claim_and_one_gets_it(store: Store) {
        with_session(&store).await;
        assert_eq!(store.claim(claim([1; 32], [99; 16], "node", 100, 1)).await.unwrap(), Claimed::Mine);
        assert!(store.renew_generation("node", 1, 0).await.unwrap());
        let tasks: Vec<_> = (0..50u8)
            .map(|n| {
                let store = store.clone();
                let node = if n % 2 == 0 { "other" } else { "new" };
                tokio::spawn(async move { store.claim(claim([1; 32], [n; 16], node, 100, 1)).await })
            })
            .collect();
        let mut granted = 0;
        for task in tasks {
            match task.await.unwrap().unwrap() {
                Claimed::Mine => granted += 1,
                other => assert_eq!(other, Claimed::Running),
            }
        }
        assert_eq!(granted, 1);
    }
}
