//! The statements for callers, their credentials and their limits.

use super::*;

/// Runs the statements that nodes use for callers and their limits.
pub async fn tour(store: &Store) -> store::Result<()> {
    store.settle_requests(&[Settlement { subject: "acct_1".to_owned(), ..Settlement::default() }]).await?;
    store.take_tokens("acct_1", 1, 1).await?;
    store.lockouts_since(0).await?;
    store.user_of_email("a@b").await?;
    store.user("usr_1").await?;
    store.token_standing("usr_1", "sgn_1", "acct_1").await?;
    store.is_token_ended(&[1; 32]).await?;
    let next = NextRefreshToken { digest: &[1; 32], sealed: &[], grace_us: 1 };
    store.exchange_refresh_token(&[2; 32], &next, 1).await?;
    store.revoke_api_key("acct_2", 10).await?;
    store.revoke_keys_of_account("acct_2", 10).await?;
    store.revoke_keys_of_user("usr_1", 10).await?;
    store.delete_user("usr_1", 10).await?;
    // statements of periodic work
    store.forget_full_buckets(1).await?;
    store.forget_lockouts(5).await?;
    store.forget_request_counts(1).await?;
    store.forget_sign_ins(5, 5).await?;
    Ok(())
}
