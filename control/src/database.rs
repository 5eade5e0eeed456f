//! Opens the database for a node, for an operator's command or for `ango migrate`, each with its own right to change
//! the schema.
//!
//! A node migrates a database that is its own (SQLite) or empty, so that a first start needs no preparation. A
//! PostgreSQL database with an older schema serves other nodes, so the operator decides when to migrate it, with `ango
//! migrate` or `ANGO_MIGRATE_AT_START`. A newer schema is used as it is, so that a rollback only means starting the
//! older build. Operator's commands change no schema.

use anyhow::{Context, bail};
use store::{Move, Schema, Store};

use crate::config::Config;
use crate::data_dir::DataDir;

/// Opens the database for a starting node.
///
/// # Errors
/// When the database does not answer, or has an older schema that the node may not migrate.
pub async fn open_to_serve(config: &Config) -> anyhow::Result<Store> {
    if is_embedded(config) {
        return Store::open(&config.database_url).await.context("ANGO_DATABASE_URL: cannot open the database");
    }
    let store = connect(config).await?;
    match store.schema().await? {
        Schema::Empty => store.migrate().await?,
        Schema::Older(_) if config.migrate_at_start => store.migrate().await?,
        Schema::Older(missing) => bail!(
            "ANGO_DATABASE_URL: the database has an older schema, without {}; run `ango migrate` (nodes of the earlier \
             version continue to work), or set ANGO_MIGRATE_AT_START=true",
            list(&missing)
        ),
        Schema::Newer(newer) => {
            tracing::warn!(migrations = list(&newer), "the database's schema is newer than this node");
        }
        Schema::Current => {}
    }
    refuse_half_moved(&store).await?;
    Ok(store)
}

/// Refuses a database into which `ango admin move` has copied a part of the rows.
async fn refuse_half_moved(store: &Store) -> anyhow::Result<()> {
    match store.recorded_move().await? {
        Some(Move { ended_at: None, .. }) => bail!(
            "ANGO_DATABASE_URL: the move of a node into this database is not finished: run `ango admin move` again"
        ),
        _ => Ok(()),
    }
}

/// Opens an existing database for an operator's command. Makes and migrates nothing.
///
/// # Errors
/// When the database does not exist or does not answer, or its schema is older than this program's.
pub async fn open_as_is(config: &Config) -> anyhow::Result<Store> {
    if config.has_own_database() {
        DataDir::of_node(&config.data_dir)?;
    }
    let store = connect(config).await?;
    match store.schema().await? {
        Schema::Current | Schema::Newer(_) => refuse_half_moved(&store).await.map(|()| store),
        Schema::Empty => bail!("the database is empty: start a node on it, or run `ango migrate`"),
        Schema::Older(missing) => bail!(
            "the database has an older schema, without {}: use the program in the version of its nodes, or run \
             `ango migrate` first",
            list(&missing)
        ),
    }
}

/// Migrates the schema. Makes the file of an embedded database, and the data folder if the file is in it. Returns the
/// earlier state of the schema.
///
/// # Errors
/// When the database does not answer, or a migration fails.
pub async fn migrate(config: &Config) -> anyhow::Result<Schema> {
    if config.has_own_database() {
        DataDir::open(&config.data_dir)?;
    }
    if is_embedded(config) {
        Store::make_file(&config.database_url)?;
    }
    let store = connect(config).await?;
    let before = store.schema().await?;
    store.migrate().await?;
    store.close().await;
    Ok(before)
}

/// Checks whether a node could start on the database. Returns the database's state in words. Makes nothing.
///
/// # Errors
/// When a node could not start on the database.
pub async fn standing(config: &Config) -> anyhow::Result<String> {
    if let Ok(store::Url::Sqlite(path)) = store::Url::parse(&config.database_url)
        && !path.exists()
    {
        return Ok(format!("{} does not exist yet: the node creates the database at startup", path.display()));
    }
    if let Ok(store::Url::Sqlite(path)) = store::Url::parse(&config.database_url)
        && std::fs::metadata(&path)?.permissions().readonly()
    {
        bail!("{} is read-only", path.display());
    }
    let store = connect(config).await?;
    store.probe().await?;
    let schema = store.schema().await?;
    if matches!(schema, Schema::Current | Schema::Newer(_)) {
        refuse_half_moved(&store).await?;
    }
    let words = match schema {
        Schema::Empty => "the database is empty: the node creates the tables at startup".to_owned(),
        Schema::Current => "the schema is up to date".to_owned(),
        Schema::Newer(newer) => format!("the schema has {}, which this program does not know", list(&newer)),
        Schema::Older(missing) if is_embedded(config) || config.migrate_at_start => {
            format!("the schema lacks {}, which the node applies at startup", list(&missing))
        }
        Schema::Older(missing) => bail!("the schema lacks {}: run `ango migrate`", list(&missing)),
    };
    let pooler = match store.is_behind_pooler() {
        true => " behind a pooler that shares connections, so a statement takes four round trips, not one",
        false => "",
    };
    Ok(format!("{} answers{pooler}; {words}", store.database()))
}

/// Reads the database's id. `None`: no node of this version has started on it yet.
///
/// # Errors
/// When the database does not answer.
pub async fn id(config: &Config) -> anyhow::Result<Option<String>> {
    if let Ok(store::Url::Sqlite(path)) = store::Url::parse(&config.database_url)
        && !path.exists()
    {
        return Ok(None);
    }
    let store = connect(config).await?;
    Ok(match store.schema().await? {
        Schema::Current | Schema::Newer(_) => Some(store.database_id().await?),
        Schema::Empty | Schema::Older(_) => None,
    })
}

async fn connect(config: &Config) -> anyhow::Result<Store> {
    Store::connect(&config.database_url).await.context("ANGO_DATABASE_URL: cannot open the database")
}

fn is_embedded(config: &Config) -> bool {
    matches!(store::Url::parse(&config.database_url), Ok(store::Url::Sqlite(_)))
}

/// Writes a list of migrations for people to read.
pub fn list(migrations: &[i64]) -> String {
    let numbers: Vec<String> = migrations.iter().map(|version| format!("{version:04}")).collect();
    format!("migration{} {}", if numbers.len() == 1 { "" } else { "s" }, numbers.join(", "))
}
