//! `ango admin`: accounts, keys and plans. A node may run on the data folder at the same time. Prints a table for
//! people, JSON for scripts.

use std::net::IpAddr;

use anyhow::ensure;
use api::{AccountId, KeyId};
use clap::{Args, Subcommand};
use serde_json::json;

use super::common::Common;
use super::{backups, fleet, invoices, moving, provider_events, reconcile, unpaid, users};
use crate::admin::ledger::FindingFacts;
use crate::admin::lockouts::LockoutChoice;
use crate::admin::{self, Operator};
use crate::caller::{Environment, Plan, Role};

/// The operator's commands.
#[derive(Debug, Subcommand)]
pub enum Admin {
    CreateKey(CreateKey),
    ListKeys(ListKeys),
    RevokeKey(RevokeKey),
    RevokeKeys(RevokeKeys),
    ListAccounts(ListAccounts),
    SetPlan(SetPlan),
    Usage(Usage),
    AuditLedger(AuditLedger),
    #[command(flatten)]
    Invoices(invoices::Invoices),
    #[command(flatten)]
    Unpaid(unpaid::Unpaid),
    #[command(flatten)]
    ProviderEvents(provider_events::ProviderEvents),
    #[command(flatten)]
    Reconcile(reconcile::Reconcile),
    #[command(flatten)]
    Users(users::Users),
    ListLockouts(ListLockouts),
    ClearLockout(ClearLockout),
    #[command(flatten)]
    Fleet(fleet::FleetCommands),
    Move(moving::Move),
    #[command(flatten)]
    Backups(backups::Backups),
}

/// Make an API key and print it once.
#[derive(Debug, Args)]
pub struct CreateKey {
    /// The key's role.
    #[arg(long, value_enum, default_value = "developer")]
    role: Role,
    /// The key's environment, which decides its prefix.
    #[arg(long, value_enum, default_value = "live")]
    environment: Environment,
    /// The account that owns the key. When omitted, a new account.
    #[arg(long, value_name = "ACCOUNT_ID")]
    account: Option<AccountId>,
    /// Plan of the new account. When omitted, free, but trial for a trial key.
    #[arg(long, value_enum, conflicts_with = "account")]
    plan: Option<Plan>,
    #[command(flatten)]
    common: Common,
}

/// List API keys, oldest first. Shows their ids and prefixes: the keys themselves are not stored.
#[derive(Debug, Args)]
pub struct ListKeys {
    /// Only keys of this account.
    #[arg(long, value_name = "ACCOUNT_ID")]
    account: Option<AccountId>,
    /// Only keys that this user made on the dashboard. An e-mail or an id.
    #[arg(long, value_name = "USER", conflicts_with = "account")]
    user: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Revoke all API keys of an account, or all API keys that a user made.
#[derive(Debug, Args)]
pub struct RevokeKeys {
    /// The account's id, as `list-accounts` shows it.
    #[arg(long, value_name = "ACCOUNT_ID", required_unless_present = "user", conflicts_with = "user")]
    account: Option<AccountId>,
    /// The user's e-mail or id, as `list-users` shows them.
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Show an account's use, by month (UTC) and environment, the newest month first.
#[derive(Debug, Args)]
pub struct Usage {
    /// The account's id, as `list-accounts` shows it.
    #[arg(value_name = "ACCOUNT_ID")]
    account: AccountId,
    /// Number of months to show, counted back from this one.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=120))]
    months: u32,
    #[command(flatten)]
    common: Common,
}

/// Check that the ledger adds up: balances are the sums of transfers, and each charge equals the posting for it. Exits
/// with 1 if not.
#[derive(Debug, Args)]
pub struct AuditLedger {
    #[command(flatten)]
    common: Common,
}

/// Revoke an API key, the keys that it replaced and the keys that replaced it.
#[derive(Debug, Args)]
pub struct RevokeKey {
    /// The key's id, as `list-keys` shows it.
    #[arg(value_name = "KEY_ID")]
    key: KeyId,
    #[command(flatten)]
    common: Common,
}

/// List accounts, oldest first.
#[derive(Debug, Args)]
pub struct ListAccounts {
    #[command(flatten)]
    common: Common,
}

/// Grant a plan to an account. The plan in force is the highest of this plan, the subscription's and those of bought keys.
/// Running nodes apply the change within a second.
#[derive(Debug, Args)]
pub struct SetPlan {
    /// The account's id, as `list-accounts` shows it.
    #[arg(value_name = "ACCOUNT_ID")]
    account: AccountId,
    /// The new plan.
    #[arg(value_enum)]
    plan: Plan,
    #[command(flatten)]
    common: Common,
}

/// List the keys, addresses and users that are locked out after too many failed attempts.
#[derive(Debug, Args)]
pub struct ListLockouts {
    #[command(flatten)]
    common: Common,
}

/// End lockouts and reset their counts of failed attempts. Running nodes apply the change within a second.
#[derive(Debug, Args)]
pub struct ClearLockout {
    /// The lockout's id, as `list-lockouts` shows it.
    #[arg(value_name = "LOCKOUT_ID", required_unless_present_any = ["address", "user", "all"])]
    lockout: Option<String>,
    /// The lockout of this client's address. An IPv6 address stands for its /64 network.
    #[arg(long, conflicts_with_all = ["lockout", "user", "all"])]
    address: Option<IpAddr>,
    /// The lockout of the user with this e-mail.
    #[arg(long, value_name = "EMAIL", conflicts_with_all = ["lockout", "all"])]
    user: Option<String>,
    /// All lockouts.
    #[arg(long, conflicts_with = "lockout")]
    all: bool,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
///
/// # Errors
/// When the settings are refused, the database does not answer, or the command names an object that does not exist.
pub async fn run(command: Admin) -> anyhow::Result<()> {
    match command {
        Admin::CreateKey(args) => create_key(args).await,
        Admin::ListKeys(args) => list_keys(args).await,
        Admin::RevokeKey(args) => revoke_key(args).await,
        Admin::RevokeKeys(args) => revoke_keys(args).await,
        Admin::Usage(args) => usage(args).await,
        Admin::AuditLedger(args) => audit_ledger(args).await,
        Admin::Backups(command) => backups::run(command).await,
        Admin::ListAccounts(args) => list_accounts(args).await,
        Admin::SetPlan(args) => set_plan(args).await,
        Admin::Invoices(command) => invoices::run(command).await,
        Admin::Unpaid(command) => unpaid::run(command).await,
        Admin::ProviderEvents(command) => provider_events::run(command).await,
        Admin::Reconcile(command) => reconcile::run(command).await,
        Admin::Users(command) => users::run(command).await,
        Admin::ListLockouts(args) => list_lockouts(args).await,
        Admin::ClearLockout(args) => clear_lockout(args).await,
        Admin::Fleet(command) => fleet::run(command).await,
        Admin::Move(args) => moving::run(args).await,
    }
}

async fn create_key(args: CreateKey) -> anyhow::Result<()> {
    let config = args.common.config()?;
    let created = admin::create_key(&config, args.role, args.environment, args.account, args.plan).await?;
    if args.common.json {
        let (key, key_id, account_id) = (&*created.key, &created.key_id, &created.account_id);
        println!("{}", json!({ "key": key, "key_id": key_id, "account_id": account_id }));
    } else {
        println!("{}", *created.key);
        eprintln!("key {} of account {}. Keep the key: it cannot be shown again", created.key_id, created.account_id);
    }
    Ok(())
}

async fn list_keys(args: ListKeys) -> anyhow::Result<()> {
    let operator = args.common.operator().await?;
    let keys = match &args.user {
        Some(user) => operator.keys_of_user(user).await?,
        None => operator.keys(args.account.as_ref()).await?,
    };
    let columns = [
        "key_id",
        "lineage_id",
        "account_id",
        "key_prefix",
        "role",
        "environment",
        "status",
        "made_by",
        "created_at",
        "last_used_at",
        "rotated_at",
        "expires_at",
        "revoked_at",
    ];
    args.common.list(columns, keys.iter().map(|key| json!(key)).collect());
    Ok(())
}

async fn revoke_key(args: RevokeKey) -> anyhow::Result<()> {
    let revoked = args.common.operator().await?.revoke_key(&args.key).await?;
    let line = format!("revoked: {}", revoked.join(", "));
    args.common.done(json!({ "key_id": args.key, "status": "revoked", "revoked_key_ids": revoked }), line);
    Ok(())
}

async fn revoke_keys(args: RevokeKeys) -> anyhow::Result<()> {
    let operator = args.common.operator().await?;
    let revoked = match (&args.account, &args.user) {
        (Some(account), _) => operator.revoke_keys_of_account(account).await?,
        (None, user) => operator.revoke_keys_of_user(user.as_deref().unwrap_or_default()).await?,
    };
    args.common.done(json!({ "revoked": revoked }), format!("{revoked} keys revoked"));
    Ok(())
}

async fn usage(args: Usage) -> anyhow::Result<()> {
    let months = args.common.operator().await?.usage(&args.account, args.months).await?;
    let columns = ["month", "environment", "operations", "gates", "bootstrap_ops", "cost_milli_yen", "compute_s"];
    args.common.list(columns, months.iter().map(|one| json!(one)).collect());
    Ok(())
}

async fn audit_ledger(args: AuditLedger) -> anyhow::Result<()> {
    let facts = args.common.operator().await?.audit_ledger().await?;
    let line = format!(
        "{} transfers in {} balances, {} reservations open: {}",
        facts.transfers,
        facts.balances,
        facts.open,
        if facts.findings.is_empty() { "the ledger adds up" } else { "the ledger does not add up" }
    );
    let findings: Vec<String> = facts.findings.iter().map(finding_words).collect();
    args.common.done(json!(facts), [vec![line], findings.clone()].concat().join("\n"));
    ensure!(findings.is_empty(), "{} faults in the ledger", findings.len());
    Ok(())
}

fn finding_words(one: &FindingFacts) -> String {
    let FindingFacts { account_id, what, of, expected, found } = one;
    let account = if account_id.is_empty() { String::new() } else { format!("{account_id}: ") };
    format!("{account}{what} ({of})\n  expected: {expected}\n  found: {found}")
}

async fn list_accounts(args: ListAccounts) -> anyhow::Result<()> {
    let accounts = args.common.operator().await?.accounts().await?;
    args.common.list(["account_id", "plan", "keys", "created_at"], accounts.iter().map(|one| json!(one)).collect());
    Ok(())
}

async fn set_plan(args: SetPlan) -> anyhow::Result<()> {
    let in_force = args.common.operator().await?.set_plan(&args.account, args.plan).await?;
    let mut line = format!("{} is on the plan {}", args.account, in_force.as_str());
    if in_force != args.plan {
        line += &format!(": a subscription or a purchase gives a higher plan than {}", args.plan.as_str());
    }
    args.common.done(
        json!({ "account_id": args.account, "plan": in_force.as_str(), "granted_plan": args.plan.as_str() }),
        line,
    );
    Ok(())
}

async fn list_lockouts(args: ListLockouts) -> anyhow::Result<()> {
    let locked = args.common.operator().await?.lockouts().await?;
    let columns = ["lockout_id", "kind", "locked_until", "key_id", "account_id"];
    args.common.list(columns, locked.iter().map(|one| json!(one)).collect());
    Ok(())
}

async fn clear_lockout(args: ClearLockout) -> anyhow::Result<()> {
    let choice = match (args.lockout, args.address, args.user) {
        (Some(id), ..) => LockoutChoice::Lockout(id),
        (None, Some(address), _) => LockoutChoice::Address(address),
        (None, None, Some(email)) => LockoutChoice::User(email),
        (None, None, None) => LockoutChoice::All,
    };
    let config = args.common.config()?;
    let cleared = Operator::open(&config).await?.clear_lockouts(&config, &choice).await?;
    args.common.done(json!({ "cleared": cleared }), format!("{cleared} lockouts cleared"));
    Ok(())
}
