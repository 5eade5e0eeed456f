//! API keys that several nodes change at the same time (readings A17, A18).

use super::*;

/// Describes a new key with a lineage of its own.
fn lone_key<'a>(digest: &'a [u8; 32], key_id: &'a str) -> NewApiKey<'a> {
    NewApiKey { lineage_id: key_id, ..key(digest, key_id, "acct_1") }
}

on_both! {
    async fn a17_of_a_lineage_that_is_revoked_while_it_rotates_no_key_is_left(store: Store) {
        for round in 0..40_u8 {
            let lineage = format!("lin_{round}");
            let (old_id, new_id) = (format!("ak_{round}"), format!("ak_{round}_new"));
            let (old_digest, new_digest) = ([round; 32], [round + 100; 32]);
            let of_lineage = |key| NewApiKey { lineage_id: &lineage, ..key };
            store.insert_api_key(&of_lineage(key(&old_digest, &old_id, "acct_1"))).await.unwrap();
            let new = of_lineage(key(&new_digest, &new_id, "acct_1"));
            let (rotated, revoked) =
                tokio::join!(rotate(&store, &old_id, 44, &new), store.revoke_api_key(&old_id, 30));
            let revoked = revoked.unwrap().expect("the key was not revoked before");
            assert_eq!(revoked.key_ids.len(), 1 + usize::from(rotated), "round {round}");
            for digest in [&old_digest, &new_digest] {
                let left = store.api_key(digest).await.unwrap();
                assert!(left.is_none_or(|key| key.revoked_at == Some(30)), "round {round}");
            }
        }
    }

    async fn a17_two_who_revoke_one_lineage_do_it_once(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        let (one, other) = tokio::join!(store.revoke_api_key("ak_1", 9), store.revoke_api_key("ak_1", 10));
        assert_eq!(usize::from(one.unwrap().is_some()) + usize::from(other.unwrap().is_some()), 1);
    }

    async fn nodes_that_record_the_use_of_the_same_keys_do_not_stand_in_each_other_s_way(store: Store) {
        let ids: Vec<String> = (0..100).map(|number| format!("ak_{number:03}")).collect();
        for (number, key_id) in ids.iter().enumerate() {
            store.insert_api_key(&lone_key(&[number as u8; 32], key_id)).await.unwrap();
        }
        for round in 1..6 {
            let used: Vec<(String, i64)> = ids.iter().map(|key_id| (key_id.clone(), round)).collect();
            let backwards: Vec<_> = used.iter().rev().cloned().collect();
            let (one, other) = tokio::join!(store.keys_used(&used), store.keys_used(&backwards));
            one.and(other).unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
    }
}
