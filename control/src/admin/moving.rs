//! Moves a node from SQLite and its folder to PostgreSQL and a bucket, so that one machine can become a fleet.
//!
//! The node's rows and objects are copied and stay where they are. The target records the move before the first row, so
//! no node starts on a half, and a second run continues after a break: tables and objects that are equal on both sides
//! are not copied again. The move is complete when all checks have found both sides equal.

mod objects;
mod rows;

use anyhow::{Context, bail, ensure};
use docs_module::audit::Head;
use serde::Serialize;
use store::{Move, Schema, Store};

use crate::billing::ledger;
use crate::blobs;
use crate::clock::{Clock, Timestamp};
use crate::compute::operation::record;
use crate::config::{BucketConfig, Config};
use crate::data_dir::{DataDir, OWN_DATABASE};
use crate::database;
use crate::office::audit_log::AuditLog;
use crate::sealing::AccountSeals;
use crate::secrets::{Purpose, Secrets};

pub use rows::LEFT_OUT;

/// A number or a digest on both sides.
#[derive(Debug, Serialize)]
pub struct Check {
    /// The rows of a table, the sum of a column, or the objects of a kind.
    pub what: String,
    /// The value at the source.
    pub source: String,
    /// The value at the target.
    pub target: String,
    /// Whether both sides are equal.
    pub is_same: bool,
}

impl Check {
    fn new(what: impl Into<String>, source: impl ToString, target: impl ToString) -> Check {
        let (source, target) = (source.to_string(), target.to_string());
        Check { what: what.into(), is_same: source == target, source, target }
    }
}

/// The end of a move.
#[derive(Debug)]
pub enum Moved {
    /// The move was finished before, at this time. Nothing was changed.
    Before(Timestamp),
    /// Both sides were compared. The move is finished if all checks are the same.
    Now(Vec<Check>),
}

/// Moves the node of the data folder to the PostgreSQL and the bucket in the settings. `from_database` is the URL of the
/// node's SQLite file. `None`: the file in the data folder. `tell` is called with a line about each step.
///
/// # Errors
/// When the node runs, the target has data of another node, an object is missing, or a database or the bucket fails.
pub async fn run(config: &Config, from_database: Option<&str>, tell: &dyn Fn(String)) -> anyhow::Result<Moved> {
    let bucket = target_bucket(config)?;
    let folder = DataDir::of_node(&config.data_dir)?;
    let _lock = folder.lock().context("stop the node first, because its rows must not change while they are copied")?;
    let clock = Clock::system();
    let node_id = folder.node_id()?;
    let source = open_source(&folder, from_database).await?;
    let alive = source.nodes_alive(clock.now().0).await?;
    // a node that was killed leaves a lease; the lock of its folder shows that it does not run
    let alive: Vec<String> = alive.into_iter().filter(|node| *node != node_id).collect();
    ensure!(
        alive.is_empty(),
        "the nodes {} use the database of this node: stop them, or wait for half a minute if they were killed",
        alive.join(", ")
    );
    let has_keys = source.has_api_keys().await?;
    let secrets = Secrets::load(config.secret.as_ref(), &folder, has_keys)?;
    secrets.check(&source, has_keys).await?;

    let target = open_target(config).await?;
    let (source_id, tables) = (source.database_id().await?, rows::tables(&source, &target).await?);
    match target.recorded_move().await? {
        Some(Move { source_id: other, .. }) if other != source_id => {
            bail!("ANGO_DATABASE_URL: another database was moved, or is being moved, into this one")
        }
        Some(Move { ended_at: Some(at), .. }) => return Ok(Moved::Before(Timestamp(at))),
        Some(_) => tell("an earlier move broke off; continuing".to_owned()),
        None => rows::refuse_used(&target, &tables).await?,
    }
    // the target becomes a copy of the source, with the id of the source
    blobs::claim(bucket, &source_id).await?;
    let Some(held) = target.hold_move(&source_id, clock.now().0).await? else {
        bail!("ANGO_DATABASE_URL: another process is moving the node into this database")
    };
    end_earlier_process(&source, &node_id, clock.now()).await?;
    let seals = AccountSeals::new(secrets.key(Purpose::Accounts));
    let mut checks = objects::copy(&source, folder.path(), (bucket, &source_id), &seals, tell).await?;
    checks.extend(rows::copy(&source, &target, &tables, tell).await?);
    checks.extend(ledger_checks(&source, &target, clock.now()).await?);
    if let Some(path) = &config.office.audit_log {
        checks.push(log_check(&AuditLog::at(path)).context("SERVICE_AUDIT_LOG")?);
    }
    if checks.iter().all(|check| check.is_same) {
        held.end(clock.now().0).await?;
        let node = config.data_dir.display();
        tracing::info!(target: "security", folder = %node, "node moved to PostgreSQL by the operator");
    } else {
        // the connections can close only after the held one has come back
        drop(held);
    }
    source.close().await;
    target.close().await;
    Ok(Moved::Now(checks))
}

/// Returns the bucket of the target, if the settings name a PostgreSQL too.
fn target_bucket(config: &Config) -> anyhow::Result<&BucketConfig> {
    ensure!(
        matches!(store::Url::parse(&config.database_url), Ok(store::Url::Postgres)),
        "ANGO_DATABASE_URL: set the postgres: URL of the database to which the node moves"
    );
    config.bucket.as_ref().context("ANGO_OBJECTS_URL: set the bucket to which the node's objects move")
}

async fn open_source(folder: &DataDir, url: Option<&str>) -> anyhow::Result<Store> {
    let own = format!("sqlite:{}", folder.path().join(OWN_DATABASE).display());
    let url = url.unwrap_or(&own);
    ensure!(
        matches!(store::Url::parse(url), Ok(store::Url::Sqlite(_))),
        "--from-database: must be a sqlite: URL of a file"
    );
    let source = Store::connect(url).await.context("cannot open the SQLite database of the node")?;
    match source.schema().await? {
        Schema::Current => Ok(source),
        Schema::Empty => bail!("the SQLite database of the node is empty"),
        Schema::Older(missing) => bail!(
            "the SQLite database of the node has an older schema, without {}: run `ango migrate` with the settings of \
             the node, without ANGO_DATABASE_URL",
            database::list(&missing)
        ),
        Schema::Newer(newer) => bail!(
            "the SQLite database of the node has {}, which this program does not know: use the program of the node",
            database::list(&newer)
        ),
    }
}

/// Opens the target, and makes its tables if it is empty. Both schemas are then those of this program.
async fn open_target(config: &Config) -> anyhow::Result<Store> {
    let target = Store::connect(&config.database_url).await.context("ANGO_DATABASE_URL: cannot open the database")?;
    match target.schema().await? {
        Schema::Current => {}
        Schema::Empty => target.migrate().await?,
        Schema::Older(missing) => bail!(
            "ANGO_DATABASE_URL: the database has an older schema, without {}: run `ango migrate` first",
            database::list(&missing)
        ),
        Schema::Newer(newer) => bail!(
            "ANGO_DATABASE_URL: the database has {}, which this program does not know: name an empty database",
            database::list(&newer)
        ),
    }
    Ok(target)
}

/// Ends at the source what a process of the node left behind, as the next start of the node would: nodes of the target
/// have other ids, so they would not end it.
async fn end_earlier_process(source: &Store, node_id: &str, now: Timestamp) -> Result<(), store::Error> {
    source.end_claims_of_node(node_id).await?;
    record::fail_unfinished(source, node_id, now).await?;
    ledger::give_back_lost(source, node_id, now).await?;
    source.lose_gate_sessions(node_id, now.0).await.map(drop)
}

/// Audits the ledgers of both sides.
async fn ledger_checks(source: &Store, target: &Store, now: Timestamp) -> Result<Vec<Check>, store::Error> {
    let (here, there) = tokio::try_join!(source.audit_ledger(now.0), target.audit_ledger(now.0))?;
    Ok(vec![
        Check::new("ledger: transfers", here.transfers, there.transfers),
        Check::new("ledger: balances", here.balances, there.balances),
        Check::new("ledger: open reservations", here.open, there.open),
        Check::new("ledger: faults that the audit found", here.findings.len(), there.findings.len()),
    ])
}

/// Checks the chain of the log of registration numbers, which is a file that the operator gives to the API nodes. Compares
/// the end that was noted with the end of the lines.
fn log_check(log: &AuditLog) -> std::io::Result<Check> {
    let (noted, chain) = log.check()?;
    let end = |head: &Head| format!("{} lines, {}", head.seq, head.hash);
    let found = match chain.broken_at {
        Some(line) => format!("line {line} does not follow from the line before"),
        None => end(&chain.head),
    };
    let mut check = Check::new("log of registration numbers", noted.as_ref().map_or("-".to_owned(), end), found);
    check.is_same = chain.broken_at.is_none() && noted.is_none_or(|noted| noted == chain.head);
    Ok(check)
}
