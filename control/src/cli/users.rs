//! `ango admin` commands for users of the dashboard.

use std::io::Read;

use anyhow::Context;
use api::AccountId;
use clap::{Args, Subcommand};
use serde_json::json;
use zeroize::Zeroizing;

use super::common::Common;
use crate::admin::{Operator, users};
use crate::caller::Role;
use crate::ids;

/// Largest size of a password on stdin in bytes.
const PASSWORD_BYTES_MAX: u64 = 4096;

/// The operator's commands for users.
#[derive(Debug, Subcommand)]
pub enum Users {
    CreateUser(CreateUser),
    ListUsers(ListUsers),
    DisableUser(DisableUser),
    EnableUser(EnableUser),
    SetRole(SetRole),
    SignOut(SignOut),
    DeleteUser(DeleteUser),
    ResetPassword(ResetPassword),
    SetupLink(SetupLink),
    RotateSigningKey(RotateSigningKey),
}

/// Create a user of the dashboard. Without --password-stdin, prints a random password once.
#[derive(Debug, Args)]
pub struct CreateUser {
    /// The user's e-mail.
    #[arg(value_name = "EMAIL")]
    email: String,
    /// The user's role.
    #[arg(long, value_enum, default_value = "developer")]
    role: Role,
    /// The user's account. When omitted, the first sign-in creates one.
    #[arg(long, value_name = "ACCOUNT_ID")]
    account: Option<AccountId>,
    /// Read the password from the standard input.
    #[arg(long)]
    password_stdin: bool,
    #[command(flatten)]
    common: Common,
}

/// List the users, oldest first.
#[derive(Debug, Args)]
pub struct ListUsers {
    #[command(flatten)]
    common: Common,
}

/// Disable a user. The user's session tokens are refused within a second. The user's API keys continue to work.
#[derive(Debug, Args)]
pub struct DisableUser {
    /// The user's e-mail or id, as `list-users` shows them.
    #[arg(value_name = "USER")]
    user: String,
    #[command(flatten)]
    common: Common,
}

/// Enable a disabled user.
#[derive(Debug, Args)]
pub struct EnableUser {
    /// The user's e-mail or id, as `list-users` shows them.
    #[arg(value_name = "USER")]
    user: String,
    #[command(flatten)]
    common: Common,
}

/// Change the role of a user. The user has to sign in again.
#[derive(Debug, Args)]
pub struct SetRole {
    /// The user's e-mail or id, as `list-users` shows them.
    #[arg(value_name = "USER")]
    user: String,
    /// The new role.
    #[arg(value_enum)]
    role: Role,
    #[command(flatten)]
    common: Common,
}

/// End all sign-ins of a user. The user's session tokens are refused within a second.
#[derive(Debug, Args)]
pub struct SignOut {
    /// The user's e-mail or id, as `list-users` shows them.
    #[arg(value_name = "USER")]
    user: String,
    #[command(flatten)]
    common: Common,
}

/// Delete a user and revoke the API keys that the user made. The account is kept.
#[derive(Debug, Args)]
pub struct DeleteUser {
    /// The user's e-mail or id, as `list-users` shows them.
    #[arg(value_name = "USER")]
    user: String,
    #[command(flatten)]
    common: Common,
}

/// Print a link with which a user sets a new password. The link works once, within a day.
#[derive(Debug, Args)]
pub struct ResetPassword {
    /// The user's e-mail or id, as `list-users` shows them.
    #[arg(value_name = "USER")]
    user: String,
    #[command(flatten)]
    common: Common,
}

/// Print a new link that creates the first administrator. The link works once, within a day.
#[derive(Debug, Args)]
pub struct SetupLink {
    #[command(flatten)]
    common: Common,
}

/// Make a new key that signs session tokens. Running nodes use it within a minute. Tokens signed by the old key stay valid until
/// they expire.
#[derive(Debug, Args)]
pub struct RotateSigningKey {
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
///
/// # Errors
/// When the settings are refused, the database does not answer, or the command names an object that does not exist.
pub async fn run(command: Users) -> anyhow::Result<()> {
    match command {
        Users::CreateUser(args) => create_user(args).await,
        Users::ListUsers(args) => list_users(args).await,
        Users::DisableUser(args) => disable_user(args).await,
        Users::EnableUser(args) => enable_user(args).await,
        Users::SetRole(args) => set_role(args).await,
        Users::SignOut(args) => sign_out(args).await,
        Users::DeleteUser(args) => delete_user(args).await,
        Users::ResetPassword(args) => reset_password(args).await,
        Users::SetupLink(args) => setup_link(args).await,
        Users::RotateSigningKey(args) => rotate_signing_key(args).await,
    }
}

async fn create_user(args: CreateUser) -> anyhow::Result<()> {
    let password = if args.password_stdin { given_password()? } else { ids::random_hex::<32>("") };
    let operator = args.common.operator().await?;
    let user_id = operator.create_user(&args.email, &password, args.role, args.account.as_ref()).await?;
    let shown = (!args.password_stdin).then_some(&*password);
    if args.common.json {
        println!("{}", json!({ "user_id": user_id, "email": args.email, "password": shown }));
        return Ok(());
    }
    if let Some(password) = shown {
        println!("{password}");
        eprintln!("the password of {}. Keep the password: it cannot be shown again", args.email);
    }
    eprintln!("user {user_id} is created");
    Ok(())
}

/// Reads the first line of stdin.
fn given_password() -> anyhow::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    std::io::stdin().take(PASSWORD_BYTES_MAX).read_to_string(&mut text).context("the password cannot be read")?;
    Ok(Zeroizing::new(text.lines().next().unwrap_or_default().to_owned()))
}

async fn list_users(args: ListUsers) -> anyhow::Result<()> {
    let users = args.common.operator().await?.users().await?;
    let columns = ["user_id", "email", "account_id", "role", "created_at", "last_sign_in_at", "disabled_at"];
    args.common.list(columns, users.iter().map(|user| json!(user)).collect());
    Ok(())
}

async fn disable_user(args: DisableUser) -> anyhow::Result<()> {
    let user = args.common.operator().await?.disable_user(&args.user).await?;
    let line = format!("{} is disabled", args.user);
    args.common.done(json!({ "user_id": user.user_id, "disabled_at": user.disabled_at }), line);
    Ok(())
}

async fn enable_user(args: EnableUser) -> anyhow::Result<()> {
    let user = args.common.operator().await?.enable_user(&args.user).await?;
    let line = format!("{} is enabled", args.user);
    args.common.done(json!({ "user_id": user.user_id, "disabled_at": user.disabled_at }), line);
    Ok(())
}

async fn set_role(args: SetRole) -> anyhow::Result<()> {
    let user = args.common.operator().await?.set_role(&args.user, args.role).await?;
    let line = format!("{} has the role {}", args.user, user.role.as_str());
    args.common.done(json!({ "user_id": user.user_id, "role": user.role }), line);
    Ok(())
}

async fn sign_out(args: SignOut) -> anyhow::Result<()> {
    let (user, ended) = args.common.operator().await?.sign_out(&args.user).await?;
    let line = format!("{}: {ended} sign-ins ended", args.user);
    args.common.done(json!({ "user_id": user.user_id, "ended": ended }), line);
    Ok(())
}

async fn delete_user(args: DeleteUser) -> anyhow::Result<()> {
    let (user, keys) = args.common.operator().await?.delete_user(&args.user).await?;
    let line = format!("{} is deleted; {keys} keys revoked", args.user);
    args.common.done(json!({ "user_id": user.user_id, "revoked": keys }), line);
    Ok(())
}

async fn reset_password(args: ResetPassword) -> anyhow::Result<()> {
    let config = args.common.config()?;
    let (user, link) = Operator::open(&config).await?.reset_link(&config, &args.user).await?;
    args.common.done(json!({ "user_id": user.user_id, "reset_link": *link }), link.to_string());
    Ok(())
}

async fn setup_link(args: SetupLink) -> anyhow::Result<()> {
    let link = users::setup_link(&args.common.config()?).await?;
    args.common.done(json!({ "setup_link": *link }), link.to_string());
    Ok(())
}

async fn rotate_signing_key(args: RotateSigningKey) -> anyhow::Result<()> {
    let config = args.common.config()?;
    let rotated = Operator::open(&config).await?.rotate_signing_key(&config).await?;
    let line = format!(
        "{} is the new signing key; the last token of the old key expires at {}",
        rotated.kid, rotated.old_key_ends_at
    );
    args.common.done(json!(rotated), line);
    Ok(())
}
