//! The schema's version: which migrations this build knows, and which of them the database has.
//!
//! A migration only adds what an older build can ignore (expand; a later release contracts). So a node of the release
//! before goes on beside one that has migrated, and can be started again after it.

use std::collections::BTreeMap;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{Executor, SqlStr};

use crate::database::{Database, Sql, from_row, values};
use crate::{Result, Store};

/// The migrations of this build, made by `build.rs`: `SQLITE` and `POSTGRES`, each `(version, description, text)` in order.
mod migrations {
    include!(concat!(env!("OUT_DIR"), "/migrations.rs"));
}

/// How a database's schema stands to the migrations that a build knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schema {
    /// No migration has run.
    Empty,
    /// These migrations have not run.
    Older(Vec<i64>),
    /// All have run, and no other.
    Current,
    /// All have run, and these of a newer build.
    Newer(Vec<i64>),
}

struct Applied {
    version: i64,
    success: bool,
    checksum: Vec<u8>,
}

from_row!(Applied { version, success, checksum });

impl Store {
    /// How the database's schema stands to this build. Changes nothing.
    ///
    /// # Errors
    /// When a migration broke off half-way, or has another text here than the one that ran.
    pub async fn schema(&self) -> Result<Schema> {
        let applied = self.applied().await?;
        if applied.is_empty() {
            return Ok(Schema::Empty);
        }
        let known: BTreeMap<i64, Migration> = known(&self.db).map(|one| (one.version, one)).collect();
        for (version, done) in &applied {
            if !done.success {
                return Err(MigrateError::Dirty(*version).into());
            }
            if known.get(version).is_some_and(|known| *known.checksum != *done.checksum) {
                return Err(MigrateError::VersionMismatch(*version).into());
            }
        }
        let missing: Vec<i64> = known.keys().filter(|version| !applied.contains_key(version)).copied().collect();
        let newer: Vec<i64> = applied.keys().filter(|version| !known.contains_key(version)).copied().collect();
        Ok(match (missing.is_empty(), newer.is_empty()) {
            (false, _) => Schema::Older(missing),
            (true, false) => Schema::Newer(newer),
            (true, true) => Schema::Current,
        })
    }

    /// Brings the schema up to date, under a lock. Migrations of a newer build are left as they are.
    pub async fn migrate(&self) -> Result<()> {
        self.migrate_up_to(i64::MAX).await
    }

    /// Brings the schema to this migration, as the build did whose last one it was: for tests of upgrades and roll-backs.
    pub async fn migrate_up_to(&self, last: i64) -> Result<()> {
        let mut migrator = Migrator::with_migrations(known(&self.db).filter(|one| one.version <= last).collect());
        // else a node could not start again once a newer one has migrated
        migrator.set_ignore_missing(true);
        match &self.db {
            Database::Sqlite { writer, .. } => migrator.run(writer).await?,
            Database::Postgres(pool) => {
                let mut connection = pool.acquire().await?;
                // a migration may take longer than any statement of a node, and so may the one that it waits for
                connection.execute("SET statement_timeout = 0").await?;
                migrator.run(&mut *connection).await?;
                connection.close().await?;
            }
        }
        Ok(())
    }

    /// The database's id, random, which a copy of it has too.
    pub async fn database_id(&self) -> Result<String> {
        let (id,): (String,) = self.db.fetch_one("SELECT database_id FROM database_identity", values![]).await?;
        Ok(id)
    }

    async fn applied(&self) -> Result<BTreeMap<i64, Applied>> {
        let sql = Sql {
            sqlite: "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = '_sqlx_migrations'",
            postgres: "SELECT COUNT(to_regclass('_sqlx_migrations'))",
        };
        let (tables,): (i64,) = self.db.fetch_one(sql, values![]).await?;
        if tables == 0 {
            return Ok(BTreeMap::new());
        }
        let sql = "SELECT version, success, checksum FROM _sqlx_migrations";
        let applied: Vec<Applied> = self.db.fetch_all(sql, values![]).await?;
        Ok(applied.into_iter().map(|one| (one.version, one)).collect())
    }
}

fn known(db: &Database) -> impl Iterator<Item = Migration> {
    let migrations = match db {
        Database::Sqlite { .. } => migrations::SQLITE,
        Database::Postgres(_) => migrations::POSTGRES,
    };
    migrations.iter().map(|&(version, description, text)| {
        Migration::new(version, description.into(), MigrationType::Simple, SqlStr::from_static(text), false)
    })
}
