//! Users, sign-ins and the users' keys (readings A10, A11, A23, A24).

use super::*;

fn user<'a>(user_id: &'a str, email: &'a str) -> NewUser<'a> {
    NewUser { user_id, account_id: None, email, password_hash: "hash", role: Role::Developer, created_at: 5 }
}

fn sign_in<'a>(sign_in_id: &'a str, account_id: &'a str, refresh: &'a [u8; 32]) -> NewSignIn<'a> {
    NewSignIn { sign_in_id, user_id: "usr_1", account_id, plan: Plan::Free, refresh, now: 10, expires_at: 100 }
}

fn seen<'a>(subject: &'a str, account: Option<&'a str>, user_id: &'a str, account_id: &'a str) -> NewExternalUser<'a> {
    NewExternalUser {
        user_id,
        account_id,
        issuer: "https://id.example.org",
        subject,
        account,
        role: Role::Developer,
        plan: Plan::Free,
        trusts_account_ids: true,
        made_max: 100,
        now: 5,
    }
}

/// Exchanges a refresh token for another one, with a grace time of 20 microseconds.
async fn exchange(store: &Store, old: u8, new: u8, now: i64) -> Refreshed {
    let next = NextRefreshToken { digest: &[new; 32], sealed: &[new], grace_us: 20 };
    store.exchange_refresh_token(&[old; 32], &next, now).await.unwrap()
}

fn exchanged(sign_in_id: &str) -> Refreshed {
    Refreshed::Exchanged { sign_in_id: sign_in_id.to_owned(), user_id: "usr_1".to_owned(), expires_at: 100 }
}

on_both! {
    async fn a_password_link_is_used_once_by_an_enabled_user_in_its_time(store: Store) {
        let user = NewUser {
            user_id: "usr_1", account_id: None, email: "ada@example.org", password_hash: "old", role: Role::Viewer, created_at: 1,
        };
        assert!(store.insert_user(&user).await.unwrap());
        let hash = async || store.user("usr_1").await.unwrap().unwrap().password_hash.unwrap();
        store.put_password_link(&[1; 32], "usr_1", 100).await.unwrap();
        store.put_password_link(&[2; 32], "usr_1", 100).await.unwrap();
        for (link, at) in [([1; 32], 50), ([2; 32], 100), ([3; 32], 50)] {
            assert!(!store.use_password_link(&link, "new", at).await.unwrap());
        }
        assert!(store.disable_user("usr_1", 40).await.unwrap());
        assert!(!store.use_password_link(&[2; 32], "new", 50).await.unwrap());
        assert!(store.enable_user("usr_1").await.unwrap() && !store.enable_user("usr_1").await.unwrap());
        assert_eq!(hash().await, "old");
        assert!(store.use_password_link(&[2; 32], "new", 50).await.unwrap());
        assert!(!store.use_password_link(&[2; 32], "newer", 50).await.unwrap());
        assert_eq!(hash().await, "new");
        store.put_password_link(&[4; 32], "usr_1", 100).await.unwrap();
        assert_eq!((store.forget_password_links(99).await.unwrap(), store.forget_password_links(100).await.unwrap()), (0, 1));
    }

    async fn a24_an_e_mail_is_one_user_s_and_the_first_sign_in_makes_the_account(store: Store) {
        assert!(!store.has_users().await.unwrap());
        assert!(store.insert_user(&user("usr_1", "a@b")).await.unwrap());
        assert!(!store.insert_user(&user("usr_2", "a@b")).await.unwrap());
        assert_eq!(store.user_of_email("a@b").await.unwrap().unwrap().account_id, None);
        let made = store.begin_sign_in(&sign_in("sgn_1", "acct_1", &[1; 32])).await.unwrap();
        assert_eq!(made.as_deref(), Some("acct_1"));
        let again = store.begin_sign_in(&sign_in("sgn_2", "acct_2", &[2; 32])).await.unwrap();
        assert_eq!(again.as_deref(), Some("acct_1"));
        assert!(!store.has_account("acct_2").await.unwrap());
    }

    async fn a10_a_setup_link_makes_the_first_user_once(store: Store) {
        store.put_setup_link(&[1; 32], 1, 100).await.unwrap();
        store.put_setup_link(&[2; 32], 2, 100).await.unwrap();
        let first = user("usr_1", "a@b");
        assert_eq!(store.insert_first_user(&[1; 32], &first).await.unwrap(), FirstUser::BadLink);
        let late = NewUser { created_at: 100, ..first.clone() };
        assert_eq!(store.insert_first_user(&[2; 32], &late).await.unwrap(), FirstUser::BadLink);
        assert_eq!(store.insert_first_user(&[2; 32], &first).await.unwrap(), FirstUser::Made);
        assert_eq!(store.insert_first_user(&[2; 32], &user("usr_2", "c@d")).await.unwrap(), FirstUser::BadLink);
        store.put_setup_link(&[3; 32], 3, 100).await.unwrap();
        assert_eq!(store.insert_first_user(&[3; 32], &user("usr_2", "c@d")).await.unwrap(), FirstUser::NotTheFirst);
        assert!(store.has_setup_link().await.unwrap());
    }

    async fn a10_an_exchanged_refresh_token_gives_the_same_successor_for_a_moment_and_one_generation(store: Store) {
        store.insert_user(&user("usr_1", "a@b")).await.unwrap();
        store.begin_sign_in(&sign_in("sgn_1", "acct_1", &[1; 32])).await.unwrap();
        let exchange = async |old, new, now| exchange(&store, old, new, now).await;
        let repeated = |successor: u8| Refreshed::Repeated {
            sign_in_id: "sgn_1".to_owned(), user_id: "usr_1".to_owned(), expires_at: 100, successor: vec![successor],
        };
        assert_eq!(exchange(1, 2, 20).await, exchanged("sgn_1"));
        assert_eq!(exchange(1, 3, 39).await, repeated(2));
        // a clock that was set back does not lengthen the grace time
        assert_eq!(exchange(1, 3, 1).await, repeated(2));
        assert_eq!(exchange(2, 4, 40).await, exchanged("sgn_1"), "a token that was not given out is unknown");
        assert_eq!(exchange(2, 5, 41).await, repeated(4));
        assert_eq!(exchange(1, 5, 41).await, Refreshed::Reused, "two generations are too many");
        assert_eq!(exchange(4, 5, 42).await, Refreshed::Unknown);
    }

    async fn a10_of_two_exchanges_at_once_both_give_one_successor(store: Store) {
        store.insert_user(&user("usr_1", "a@b")).await.unwrap();
        store.begin_sign_in(&sign_in("sgn_1", "acct_1", &[1; 32])).await.unwrap();
        let (one, other) = tokio::join!(exchange(&store, 1, 2, 20), exchange(&store, 1, 3, 20));
        let repeated = |one: &Refreshed| matches!(one, Refreshed::Repeated { .. });
        assert_eq!(usize::from(repeated(&one)) + usize::from(repeated(&other)), 1, "{one:?} {other:?}");
    }

    async fn a10_a_refresh_token_is_exchanged_once_and_a_second_time_ends_the_family(store: Store) {
        store.insert_user(&user("usr_1", "a@b")).await.unwrap();
        store.begin_sign_in(&sign_in("sgn_1", "acct_1", &[1; 32])).await.unwrap();
        let exchange = async |old, new, now| exchange(&store, old, new, now).await;
        assert_eq!(exchange(9, 2, 20).await, Refreshed::Unknown);
        assert_eq!(exchange(1, 2, 20).await, exchanged("sgn_1"));
        assert_eq!(exchange(2, 3, 100).await, Refreshed::Unknown, "the token has expired");
        assert_eq!(exchange(2, 3, 21).await, exchanged("sgn_1"), "a refused exchange does not use up the token");
        assert_eq!(exchange(1, 4, 42).await, Refreshed::Reused);
        assert_eq!(exchange(3, 5, 43).await, Refreshed::Unknown);
        let standing = store.token_standing("usr_1", "sgn_1", "acct_1").await.unwrap().unwrap();
        assert_eq!((standing.revoked_at, standing.role), (Some(42), Role::Developer));
    }

    async fn a11_an_ended_token_is_known_until_it_would_have_ended(store: Store) {
        store.insert_user(&user("usr_1", "a@b")).await.unwrap();
        store.begin_sign_in(&sign_in("sgn_1", "acct_1", &[1; 32])).await.unwrap();
        store.write(async |tx| tx.end_token(&[7; 32], 50, Some("sgn_1"), 20).await).await.unwrap();
        store.write(async |tx| tx.end_token(&[7; 32], 50, None, 21).await).await.unwrap();
        assert!(store.is_token_ended(&[7; 32]).await.unwrap());
        assert!(!store.is_token_ended(&[8; 32]).await.unwrap());
        let standing = store.token_standing("usr_1", "sgn_1", "acct_1").await.unwrap().unwrap();
        assert_eq!((standing.revoked_at, standing.plan), (Some(20), Plan::Free));
        assert_eq!(store.token_standing("usr_1", "sgn_1", "acct_2").await.unwrap(), None);
        store.forget_sign_ins(101, 51).await.unwrap();
        assert!(!store.is_token_ended(&[7; 32]).await.unwrap());
        assert_eq!(store.token_standing("usr_1", "sgn_1", "acct_1").await.unwrap(), None);
    }

    async fn a_disabled_user_s_sign_ins_end(store: Store) {
        store.insert_user(&user("usr_1", "a@b")).await.unwrap();
        store.begin_sign_in(&sign_in("sgn_1", "acct_1", &[1; 32])).await.unwrap();
        assert!(store.disable_user("usr_1", 20).await.unwrap());
        assert!(!store.disable_user("usr_1", 21).await.unwrap());
        assert_eq!(exchange(&store, 1, 2, 30).await, Refreshed::Unknown);
        assert_eq!(store.begin_sign_in(&sign_in("sgn_2", "acct_2", &[3; 32])).await.unwrap(), None);
    }

    async fn a10_nodes_that_start_at_once_sign_with_one_key(store: Store) {
        assert!(!store.rotate_signing_key(b"none", 100, 40).await.unwrap());
        let first = store.signing_key(b"first").await.unwrap();
        assert_eq!(store.signing_key(b"second").await.unwrap(), first);
        assert_eq!(store.replace_signing_key(b"first", b"third").await.unwrap(), b"third");
        assert_eq!(store.replace_signing_key(b"first", b"fourth").await.unwrap(), b"third", "another node was quicker");
        assert!(store.rotate_signing_key(b"fifth", 100, 40).await.unwrap());
        assert!(store.rotate_signing_key(b"sixth", 120, 60).await.unwrap());
        let retired = |sealed: &[u8], ends_at| RetiredSigningKey { sealed: sealed.to_vec(), ends_at };
        let both = vec![retired(b"fifth", 120), retired(b"third", 100)];
        assert_eq!(store.signing_keys(99).await.unwrap(), (b"sixth".to_vec(), both));
        assert_eq!(store.signing_keys(100).await.unwrap().1, [retired(b"fifth", 120)]);
    }

    async fn a24_external_users_and_accounts_are_made_once(store: Store) {
        let alone = store.external_user(&seen("ada", None, "usr_1", "acct_1")).await.unwrap().unwrap();
        assert_eq!((alone.user_id.as_str(), alone.account_id.as_str()), ("usr_1", "acct_1"));
        assert_eq!(store.external_user(&seen("ada", None, "usr_2", "acct_2")).await.unwrap().unwrap(), alone);
        let named = store.external_user(&seen("bob", Some("acme"), "usr_3", "acct_3")).await.unwrap().unwrap();
        let colleague = store.external_user(&seen("cid", Some("acme"), "usr_4", "acct_4")).await.unwrap().unwrap();
        assert_eq!((named.account_id.as_str(), colleague.account_id.as_str()), ("acct_3", "acct_3"));
        // the token of a trusted issuer may name an account by its Ango id
        let ours = store.external_user(&seen("ada", Some("acct_3"), "usr_5", "acct_5")).await.unwrap().unwrap();
        assert_eq!((ours.user_id.as_str(), ours.account_id.as_str()), ("usr_1", "acct_3"));
        assert_eq!(store.external_user(&seen("ada", None, "usr_6", "acct_6")).await.unwrap().unwrap(), alone);
    }

    async fn a24_an_issuer_s_name_of_an_account_is_not_our_id_unless_it_is_trusted_with_those(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_ours")).await.unwrap();
        let stranger = NewExternalUser { trusts_account_ids: false, ..seen("eve", Some("acct_ours"), "usr_1", "acct_1") };
        assert_eq!(store.external_user(&stranger).await.unwrap().unwrap().account_id, "acct_1");
        let colleague = seen("ada", Some("acct_ours"), "usr_2", "acct_2");
        // the issuer was untrusted when its name `acct_ours` was first seen, so this name stands for acct_1, and still
        // does now that the issuer is trusted. An operator must therefore declare an issuer trusted before the issuer's
        // users sign in.
        assert_eq!(store.external_user(&colleague).await.unwrap().unwrap().account_id, "acct_1");
    }

    async fn a24_an_issuer_makes_no_more_users_and_accounts_than_it_may(store: Store) {
        let bounded = |subject, account, user_id, account_id| NewExternalUser {
            made_max: 3, ..seen(subject, account, user_id, account_id)
        };
        let (ada, bob) = (bounded("ada", Some("acme"), "usr_1", "acct_1"), bounded("bob", None, "usr_2", "acct_2"));
        for known in [&ada, &bob] {
            assert!(store.external_user(known).await.unwrap().is_some());
        }
        for new in [bounded("cid", None, "usr_3", "acct_3"), bounded("ada", Some("other"), "usr_3", "acct_3")] {
            assert_eq!(store.external_user(&new).await.unwrap(), None);
        }
        for known in [&ada, &bob] {
            assert!(store.external_user(known).await.unwrap().is_some(), "a known user can still sign in");
        }
        assert!(!store.has_account("acct_3").await.unwrap());
    }

    async fn a24_of_nodes_that_meet_an_external_user_at_once_all_see_the_same(store: Store) {
        let tasks: Vec<_> = (0..8)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move {
                    let (user_id, account_id) = (format!("usr_{n}"), format!("acct_{n}"));
                    store.external_user(&seen("ada", Some("acme"), &user_id, &account_id)).await
                })
            })
            .collect();
        let mut users = Vec::new();
        for task in tasks {
            users.push(task.await.unwrap().unwrap().unwrap());
        }
        users.dedup();
        assert_eq!(users.len(), 1, "{users:?}");
    }

    async fn a23_keys_of_a_user_are_counted_and_revoked_by_lineage(store: Store) {
        store.insert_user(&user("usr_1", "a@b")).await.unwrap();
        store.begin_sign_in(&sign_in("sgn_1", "acct_1", &[1; 32])).await.unwrap();
        for (digest, key_id) in [([1; 32], "ak_1"), ([2; 32], "ak_2")] {
            let lineage_id = if key_id == "ak_1" { "lin_1" } else { "lin_2" };
            let key = NewApiKey { lineage_id, ..key(&digest, key_id, "acct_1") };
            assert_eq!(store.write(async |tx| tx.insert_user_key(&key, "usr_1", 0, 2).await).await.unwrap(), UserKeyMade::Made);
        }
        let third = NewApiKey { lineage_id: "lin_3", ..key(&[3; 32], "ak_3", "acct_1") };
        let refused = store.write(async |tx| tx.insert_user_key(&third, "usr_1", 0, 2).await).await.unwrap();
        assert_eq!(refused, UserKeyMade::TooMany { oldest_at: 5 });
        // ak_4 is a successor of the first key
        store.insert_api_key(&key(&[4; 32], "ak_4", "acct_1")).await.unwrap();
        let all = UserKeysSeen { account_id: "acct_1", user_id: None, ended_after: 0 };
        let own = UserKeysSeen { user_id: Some("usr_1"), ..all };
        let strangers = UserKeysSeen { user_id: Some("usr_2"), ..all };
        let ids = async |seen, after| -> Vec<String> {
            store.user_keys_page(seen, after, 10).await.unwrap().rows.into_iter().map(|key| key.key_id).collect()
        };
        assert_eq!(ids(own, None).await, ["ak_4", "ak_2", "ak_1"]);
        assert_eq!(ids(own, Some((5, "ak_2"))).await, ["ak_1"]);
        assert!(ids(strangers, None).await.is_empty());
        assert_eq!(store.revoke_user_key(strangers, "ak_4", 20).await.unwrap(), None);
        assert_eq!(store.revoke_user_key(own, "ak_4", 20).await.unwrap().as_deref(), Some("lin_1"));
        assert_eq!(store.revoke_user_key(own, "ak_1", 21).await.unwrap(), None);
        let left = store.user_keys_page(UserKeysSeen { ended_after: 20, ..own }, None, 10).await.unwrap();
        assert_eq!((left.rows.len(), left.total), (1, 1));
    }
}
