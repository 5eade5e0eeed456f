//! Claims and stored answers (readings I3, I4).

use super::*;

fn claim(digest: [u8; 32], claim: [u8; 16], node_id: &str, held_until: i64, now: i64) -> NewClaim {
    NewClaim { digest, account_id: "acct_1".to_owned(), claim, node_id: node_id.to_owned(), held_until, now }
}

fn kept(digest: u8, claim: u8, held_until: i64) -> KeptAnswer {
    let blob = Some("b".to_owned());
    KeptAnswer { digest: [digest; 32], claim: [claim; 16], answer: b"sealed".to_vec(), blob, held_until }
}

async fn with_session(store: &Store) {
    store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
    open(store, &session(&[1; 32], "acct_1")).await;
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
        assert_eq!(store.release_claims_of("node").await.unwrap(), 2);
        assert_eq!(state(1, 1).await, Claimed::Mine);
        assert_eq!((state(3, 99).await, state(3, 100).await), (Claimed::Running, Claimed::Mine));
        assert!(matches!(state(4, 199).await, Claimed::Kept { .. }));
        assert_eq!(store.kept_blobs().await.unwrap(), ["b"]);
        assert_eq!(store.forget_kept_answers(199).await.unwrap(), 0);
        assert_eq!(store.forget_kept_answers(200).await.unwrap(), 1);
        assert!(store.kept_blobs().await.unwrap().is_empty());
        assert_eq!(state(4, 200).await, Claimed::Mine);
    }
}
