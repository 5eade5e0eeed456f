//! The operator's commands on a data folder or a database. Nodes may run on the same folder or database meanwhile.

pub mod backup;
pub mod fleet;
pub mod invoices;
pub mod keys;
pub mod ledger;
pub mod lockouts;
pub mod moving;
pub mod preview;
pub mod provider_events;
pub mod reconcile;
pub mod signing_key;
pub mod unpaid;
pub mod usage;
pub mod users;

use anyhow::bail;
use api::{AccountId, KeyId};
use serde::Serialize;
use store::{NewApiKey, Store};
use zeroize::Zeroizing;

use crate::access::api_key::FreshKey;
use crate::access::trials;
use crate::billing::payments::PaymentsConfig;
use crate::cache_store::{self, CacheStoreConfig, News};
use crate::caller::{Environment, Plan, Role};
use crate::clock::{Clock, Timestamp};
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::secrets::{Purpose, Secrets};
use crate::work::fleet::FleetConfig;
use crate::{database, database_clock, ids};

/// A new key.
pub struct CreatedKey {
    /// The key itself. The key is not stored, so this is the only copy.
    pub key: Zeroizing<String>,
    /// The id of the key's record.
    pub key_id: KeyId,
    /// The account that owns the key.
    pub account_id: AccountId,
}

/// Returns the key for the workers of the fleet, as 64 hexadecimal characters. The key follows from the server's secret.
///
/// # Errors
/// When there is no secret: neither the settings nor the data folder have one.
pub fn fleet_key(config: &Config) -> anyhow::Result<Zeroizing<String>> {
    let folder = match &config.secret {
        Some(_) => DataDir::at(&config.data_dir),
        None => DataDir::of_node(&config.data_dir)?,
    };
    let secrets = Secrets::load(config.secret.as_ref(), &folder, true)?;
    Ok(Zeroizing::new(hex::encode(&secrets.key(Purpose::Fleet)[..])))
}

/// Makes an API key for an existing account, or for a new account on this plan. The default plan is free, or trial for
/// a trial key. Nodes may run on the same folder.
///
/// # Errors
/// When role and environment contradict each other, the account does not exist, or the secret or the database cannot be
/// used.
pub async fn create_key(
    config: &Config,
    role: Role,
    environment: Environment,
    account: Option<AccountId>,
    plan: Option<Plan>,
) -> anyhow::Result<CreatedKey> {
    if (role == Role::Trial) != (environment == Environment::Trial) {
        bail!("a trial key has the role trial and the environment trial: give both or neither");
    }
    if role == Role::Trial && account.is_some() {
        bail!("a trial key always gets a new account, which ends with the key: leave --account out");
    }
    let store = database::open_as_is(config).await?;
    let pepper = checked_secrets(config, &store).await?.pepper();
    let now = database_clock::of_command(&store).await?.now();
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
        role,
        environment,
        office: role != Role::Trial,
        plan: plan.unwrap_or(if role == Role::Trial { Plan::Trial } else { Plan::Free }),
        created_at: now.0,
        expires_at: (role == Role::Trial).then(|| now.plus(trials::TTL).0),
    };
    store.insert_api_key(&record).await?;
    tracing::info!(
        target: "security",
        key_id = key_id.as_str(),
        account_id = account_id.as_str(),
        role = role.as_str(),
        "key made by the operator"
    );
    store.close().await;
    Ok(CreatedKey { key: fresh.secret, key_id, account_id })
}

/// Prepares the data folder, the node's id and the database, as a node's first start does, so that keys can be made
/// before that start.
pub async fn prepare(config: &Config) -> anyhow::Result<()> {
    DataDir::open(&config.data_dir)?.node_id()?;
    database::migrate(config).await.map(drop)
}

/// Returns the server's secret. Fails if the keys in the database were made under another secret.
async fn checked_secrets(config: &Config, store: &Store) -> anyhow::Result<Secrets> {
    let has_keys = store.has_api_keys().await?;
    // a secret in the settings needs no data folder
    let folder = match &config.secret {
        Some(_) => DataDir::at(&config.data_dir),
        None => DataDir::of_node(&config.data_dir)?,
    };
    let secrets = Secrets::load(config.secret.as_ref(), &folder, has_keys)?;
    secrets.check(store, has_keys).await?;
    Ok(secrets)
}

/// The operator's access to the database of a data folder.
pub struct Operator {
    store: Store,
    clock: Clock,
    cache_store: Option<CacheStoreConfig>,
    fleet: FleetConfig,
    payments: PaymentsConfig,
}

/// An account, as shown to an operator.
#[derive(Debug, Serialize)]
pub struct AccountFacts {
    /// The account's id: `acct_...`.
    pub account_id: String,
    /// The account's plan.
    pub plan: Plan,
    /// Number of the account's API keys that are not revoked.
    pub keys: i64,
    /// When the account was created.
    pub created_at: String,
}

impl Operator {
    /// Opens the database of these settings.
    ///
    /// # Errors
    /// When the database does not exist or does not answer, or its schema is older than this program's.
    pub async fn open(config: &Config) -> anyhow::Result<Operator> {
        let store = database::open_as_is(config).await?;
        let (cache_store, fleet) = (config.cache_store.clone(), config.fleet.clone());
        let payments = config.payments.clone();
        let clock = database_clock::of_command(&store).await?;
        Ok(Operator { store, clock, cache_store, fleet, payments })
    }

    /// Takes the time from this clock.
    pub fn with_clock(self, clock: &Clock) -> Operator {
        Operator { clock: clock.clone(), ..self }
    }

    /// Sends news to the running nodes at once, in the way in which the nodes tell each other: through the cache store, or
    /// else through the broker of a fleet. Without the news, the nodes would read the change from the database within a
    /// second.
    async fn tell_nodes(&self, news: News) {
        self.tell_nodes_all(vec![news]).await;
    }

    async fn tell_nodes_all(&self, news: Vec<News>) {
        let (setting, told) = match &self.cache_store {
            _ if news.is_empty() => return,
            Some(cache_store) => ("ANGO_REDIS_URL", publish_all(cache_store, news).await),
            None if self.fleet.is_member() => ("ANGO_NATS_URL", fleet::tell_api_nodes(&self.fleet, &news).await),
            None => return,
        };
        if let Err(error) = told {
            eprintln!("{setting}: {error:#}; running nodes apply the change within a second all the same");
        }
    }

    /// Revokes a key at once, together with the keys that it replaced and the keys that replaced it (readings A17).
    /// Returns the ids of the keys that this call revoked.
    ///
    /// # Errors
    /// When the key does not exist, or its whole lineage was revoked before.
    pub async fn revoke_key(&self, key: &KeyId) -> anyhow::Result<Vec<String>> {
        let Some(revoked) = self.store.revoke_api_key(key.as_str(), self.clock.now().0).await? else {
            bail!("there is no API key {key}, or it is revoked already");
        };
        tracing::info!(target: "security", key_id = key.as_str(), "key revoked by the operator");
        self.tell_nodes(News::Keys { lineage: revoked.lineage_id }).await;
        Ok(revoked.key_ids)
    }

    /// All accounts, oldest first.
    pub async fn accounts(&self) -> anyhow::Result<Vec<AccountFacts>> {
        let accounts = self.store.accounts().await?;
        let facts = accounts.into_iter().map(|account| AccountFacts {
            account_id: account.account_id,
            plan: account.plan,
            keys: account.keys,
            created_at: Timestamp(account.created_at).rfc3339(),
        });
        Ok(facts.collect())
    }

    /// Grants a plan to an account. Returns the plan in force, which is higher if a subscription or a purchase gives the
    /// account a higher plan (readings B7).
    ///
    /// # Errors
    /// When the account does not exist.
    pub async fn set_plan(&self, account: &AccountId, plan: Plan) -> anyhow::Result<Plan> {
        let now = self.clock.now();
        if !self.store.grant_plan(account.as_str(), plan, now.0).await? {
            bail!("there is no account {account}")
        }
        let (account_id, granted) = (account.as_str(), plan.as_str());
        tracing::info!(target: "security", account_id, plan = granted, "plan granted by the operator");
        self.tell_nodes(News::Account { account_id: account_id.to_owned() }).await;
        Ok(self.store.account_standing(account_id).await?.map_or(plan, |standing| standing.plan))
    }
}

async fn publish_all(cache_store: &CacheStoreConfig, news: Vec<News>) -> anyhow::Result<()> {
    for news in news {
        cache_store::publish_once(cache_store, news).await?;
    }
    Ok(())
}
