//! What an operator does on a data folder, whether a node runs on it or not.

use std::time::Duration;

use anyhow::bail;
use api::{AccountId, KeyId};
use store::{NewApiKey, Store};
use zeroize::Zeroizing;

use crate::auth::api_key::FreshKey;
use crate::auth::{Environment, Pepper, Role};
use crate::clock::Clock;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::ids;

/// Life of a trial key (specification, Limits).
const TRIAL_TTL: Duration = Duration::from_secs(30 * 60);

/// A key that was just made.
pub struct CreatedKey {
    /// The key itself. It is stored nowhere: whoever drops it has lost it.
    pub key: Zeroizing<String>,
    /// Its record's id.
    pub key_id: KeyId,
    /// Its owner.
    pub account_id: AccountId,
}

/// Makes an API key: of an existing account, else of a new one. Works while a node runs on the same folder.
pub async fn create_key(
    config: &Config,
    role: Role,
    environment: Environment,
    account: Option<AccountId>,
) -> anyhow::Result<CreatedKey> {
    if (role == Role::Trial) != (environment == Environment::Trial) {
        bail!("the role trial and the environment trial go together");
    }
    let data_dir = DataDir::open(&config.data_dir)?;
    let store = Store::open(&config.database_url).await?;
    let pepper = Pepper(data_dir.pepper(store.has_api_keys().await?)?);
    let now = Clock::system().now();
    let account_id = match account {
        Some(account) if !store.has_account(account.as_str()).await? => bail!("there is no account {account}"),
        Some(account) => account,
        None => ids::account(now),
    };
    let fresh = FreshKey::generate(environment);
    let (key_id, lineage_id) = (ids::key(now), ids::lineage(now));
    let record = NewApiKey {
        key_id: key_id.as_str(),
        account_id: account_id.as_str(),
        lineage_id: lineage_id.as_str(),
        digest: &pepper.digest(&fresh.secret),
        key_prefix: &fresh.display_prefix,
        role: role.as_str(),
        environment: environment.as_str(),
        created_at: now.0,
        expires_at: (role == Role::Trial).then(|| now.plus(TRIAL_TTL).0),
    };
    store.insert_api_key(&record).await?;
    store.close().await;
    Ok(CreatedKey { key: fresh.secret, key_id, account_id })
}
