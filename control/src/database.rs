//! Which database a process opens, and what it may change there: a node's, an operator's, that of `ango migrate`.
//!
//! A node brings the schema up to date where the database is its own (SQLite) or empty, so that a first start needs
//! nothing before it. A PostgreSQL database with an older schema serves other nodes: there the operator says when,
//! by `ango migrate` or `ANGO_MIGRATE_AT_START`. A newer schema is served as it is, so that a roll-back is a start of
//! the older build. Operator's commands change no schema.

use anyhow::{Context, bail};
use store::{Schema, Store};

use crate::config::Config;
use crate::data_dir::DataDir;

/// The database of a node that starts.
///
/// # Errors
/// When it does not answer, or has an older schema that the node may not change.
pub async fn open_to_serve(config: &Config) -> anyhow::Result<Store> {
    if is_embedded(config) {
        return Store::open(&config.database_url).await.context("ANGO_DATABASE_URL: cannot open the database");
    }
    let store = connect(config).await?;
    match store.schema().await? {
        Schema::Empty => store.migrate().await?,
        Schema::Older(_) if config.migrate_at_start => store.migrate().await?,
        Schema::Older(missing) => bail!(
            "ANGO_DATABASE_URL: the database has an older schema, without {}; run `ango migrate` (nodes of the version \
             before go on meanwhile), or set ANGO_MIGRATE_AT_START=true",
            list(&missing)
        ),
        Schema::Newer(newer) => {
            tracing::warn!(migrations = list(&newer), "the database's schema is of a newer version than this node");
        }
        Schema::Current => {}
    }
    Ok(store)
}

/// The database of a node that is there, for a command: nothing is made and nothing migrated.
///
/// # Errors
/// When there is none, it does not answer, or its schema is older than this program.
pub async fn open_as_is(config: &Config) -> anyhow::Result<Store> {
    if config.has_own_database() {
        DataDir::of_node(&config.data_dir)?;
    }
    let store = connect(config).await?;
    match store.schema().await? {
        Schema::Current | Schema::Newer(_) => Ok(store),
        Schema::Empty => bail!("the database is empty: start a node on it, or run `ango migrate`"),
        Schema::Older(missing) => bail!(
            "the database has an older schema, without {}: use the program of the version that its nodes have, or run \
             `ango migrate` first",
            list(&missing)
        ),
    }
}

/// Brings the schema up to date; makes the file of an embedded database, and the data folder where that file is in it.
/// How the schema stood before.
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

/// How the database stands to a node that would start, in words. Nothing is made.
///
/// # Errors
/// When a node could not start on it.
pub async fn standing(config: &Config) -> anyhow::Result<String> {
    if let Ok(store::Url::Sqlite(path)) = store::Url::parse(&config.database_url)
        && !path.exists()
    {
        return Ok(format!("{} is not there: the first start makes it", path.display()));
    }
    let store = connect(config).await?;
    let words = match store.schema().await? {
        Schema::Empty => "it is empty: the first start makes its tables".to_owned(),
        Schema::Current => "its schema is up to date".to_owned(),
        Schema::Newer(newer) => format!("its schema is newer than this program, by {}", list(&newer)),
        Schema::Older(missing) if is_embedded(config) || config.migrate_at_start => {
            format!("a start brings its schema up to date, by {}", list(&missing))
        }
        Schema::Older(missing) => bail!("its schema is older, without {}: run `ango migrate`", list(&missing)),
    };
    Ok(format!("{} answers; {words}", store.database()))
}

/// The database's id; `None`: it has none yet, since no node of this version has started on it.
///
/// # Errors
/// When it does not answer.
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

/// Migrations as a person reads them.
pub fn list(migrations: &[i64]) -> String {
    let numbers: Vec<String> = migrations.iter().map(|version| format!("{version:04}")).collect();
    format!("migration{} {}", if numbers.len() == 1 { "" } else { "s" }, numbers.join(", "))
}
