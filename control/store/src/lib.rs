//! The service's database, in SQL: one file for each table, for SQLite and PostgreSQL alike (`database.rs`).
//!
//! The store has no clock and no randomness: callers give the times (microseconds since 1970) and ids. Effects that
//! belong together are written in one transaction. This transaction belongs to one caller ([`Store::write`]) or is
//! shared with other callers ([`Store::submit`], `writers.rs`).

pub mod accounts;
pub mod alerts;
pub mod api_keys;
pub mod arithmetic_usage;
pub mod backlog;
pub mod backup;
pub mod bursts;
pub mod ciphertexts;
pub mod circuits;
pub mod commits;
pub mod dropped_objects;
pub mod encryption_keys;
pub mod gate_sessions;
pub mod invoices;
pub mod jobs;
pub mod kept_answers;
pub mod key_materials;
pub mod key_uploads;
pub mod ledger;
pub mod lockouts;
pub mod moves;
pub mod nodes;
pub mod office;
pub mod operation_counts;
pub mod operations;
pub mod outbox;
pub mod pages;
pub mod password_links;
pub mod provider_events;
pub mod request_counts;
pub mod running_circuits;
pub mod schema;
pub mod seeds;
pub mod server_secret;
pub mod session_values;
pub mod sign_ins;
pub mod signing_keys;
pub mod standing;
pub mod statements;
pub mod subscriptions;
pub mod tables;
pub mod trials;
pub mod usage_bills;
pub mod user_keys;
pub mod users;
pub mod waiting_line;
pub mod webhooks;

mod database;
mod units;
mod work;
mod writers;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use tokio::sync::Notify;

use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use database::{Database, faults};
use writers::Writers;

pub use accounts::Account;
pub use alerts::{Alert, AlertKind, Email};
pub use api_keys::{ApiKey, NewApiKey, RevokedLineage};
pub use arithmetic_usage::ArithmeticUsage;
pub use backlog::Backlog;
pub use ciphertexts::{CIPHERTEXT_OBJECTS, CiphertextRecord, NewCiphertext};
pub use circuits::{CircuitInRow, CircuitKept, CircuitRecord, CircuitsMax, ForgottenCircuit, NetlistPlace, NewCircuit};
pub use database::{Connections, Tx};
pub use dropped_objects::DroppedObject;
pub use encryption_keys::{DeletedKey, EncryptionKey, KeyMade, NewEncryptionKey};
pub use gate_sessions::{
    FLEET, FleetKey, GateSession, GateUsage, NewGateSession, OpenFleetKey, RecordedState, SessionEnd, SessionOpened,
    UsageTotals,
};
pub use invoices::{DueNotice, Invoice, InvoiceItem, InvoiceState};
pub use kept_answers::{Claimed, KeptAnswer, NewClaim};
pub use key_materials::{Added, KEY_OBJECTS, KeyMaterial, KeyRowRecord, NewKeyHead, NewKeyMaterial, NewPublicKey};
pub use key_uploads::{KeyUpload, NewKeyUpload};
pub use ledger::{
    Amounts, AuditFinding, AuditReport, BUDGET_THRESHOLDS, BeyondAllowance, LostReservation, MonthlyCap,
    NewReservation, Posting, Reserved, Spend, USAGE_THRESHOLDS, UsedInMonth, Wanted, is_reached,
};
pub use lockouts::{Locked, Lockout, LockoutKind};
pub use moves::{HeldMove, Move};
pub use office::{
    Announcement, CAP_THRESHOLDS, CapAlert, DeliveryState, DocumentClaim, DocumentFilter, DocumentIssuer,
    DocumentState, DueDocument, EndedPurchase, FamilyDocument, IssuerProfile, NewPurchase, NewReturn, NewSale,
    OfficeCharge, OfficeCharged, OfficeTotal, Purchase, RecordedSale, StoredDocument, UnissuedDocument, UnissuedFilter,
    Verdict,
};
pub use operation_counts::OperationCounts;
pub use operations::{
    Arithmetic, ArithmeticOutcome, CircuitOutcome, CircuitRun, NewArithmetic, NewCircuitRun, NewOperation,
    NewOperationOf, OperationEnd, OperationRecord, Outcome, RecordedOf,
};
pub use outbox::{Attempt, Busy, DeliveryRecord, DeliveryStatus, DueDelivery, NewEvent};
pub use pages::PageRows;
pub use provider_events::{ProviderEvent, StuckEvent};
pub use request_counts::{Reservation, Settled, Settlement};
pub use schema::Schema;
pub use seeds::Seeded;
pub use session_values::{NewSessionValue, SessionValue};
pub use sign_ins::{NewSignIn, NextRefreshToken, Refreshed, TokenStanding};
pub use signing_keys::RetiredSigningKey;
pub use standing::{AccountStanding, GRACE, PaymentStanding, StandingChange, suspended_from};
pub use subscriptions::{PlanRequest, Subscription, SubscriptionChange, SubscriptionState};
pub use tables::{Cell, ColumnKind, Table, TableColumn};
pub use trials::{Trial, TrialKey, TrialKeyMade, TrialWindow};
pub use units::Unit;
pub use usage_bills::UsageBillRecord;
pub use user_keys::{UserKeyMade, UserKeysSeen};
pub use users::{ExternalUser, FirstUser, NewExternalUser, NewUser, User};
pub use waiting_line::{LineEnd, LineLength, NewWaiting, Released, Waiting};
pub use webhooks::Webhook;

/// Errors of the database.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This build does not support the URL of the database.
    #[error("{0}")]
    Url(String),
    /// The database's file could not be made or opened.
    #[error("{path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The schema could not be migrated.
    #[error(transparent)]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// The database answers and takes no writes: a standby, or one with `default_transaction_read_only`.
    #[error("the database is read-only")]
    ReadOnly,
    /// The database answers, and has refused a write some seconds ago: its disk is full, or fails.
    #[error("the database refused a write a moment ago")]
    WritesFail,
    /// A statement failed. The message contains the whole cause, so there is no separate source.
    #[error("{0}")]
    Database(sqlx::Error),
    /// The request took so long that its claim on the `Idempotency-Key` ended. The request's effects are undone.
    #[error("the request took too long, so its claim on the Idempotency-Key ended and its effects were undone")]
    ClaimLost,
    /// The operation had already ended. Nothing was changed.
    #[error("the operation has already ended")]
    OperationEnded,
    /// The account has no such encryption key, or the key was deleted. Nothing was changed.
    #[error("the encryption key was deleted")]
    KeyGone,
    /// The ciphertext does not fit into the account's budget, even after the evictions. Nothing was changed.
    #[error("the ciphertext does not fit into the account's storage")]
    NoRoom,
    /// The session whose values were to be kept has ended. Nothing was changed.
    #[error("the session has ended")]
    SessionEnded,
    /// The values do not fit into the session's memory for values. Nothing was changed.
    #[error("the session has no memory left for values")]
    ValuesFull,
    /// As many operations wait as may wait. Nothing was changed.
    #[error("too many operations wait")]
    TooManyWait,
    /// The ciphertext's seed has another content already: in the object that the text names. Nothing was changed.
    #[error("the seed is used already: {0}")]
    SeedUsed(String),
    /// The reservation that pays for the work is no longer open, because other nodes considered its node lost and
    /// voided the reservation. Nothing was changed.
    #[error("the reservation that pays for the work is no longer open")]
    ReservationLost,
    /// A database cannot be moved, or a row cannot be copied.
    #[error("{0}")]
    Move(String),
    /// The transaction that this write shared with other writes failed. None of these writes was done.
    #[error(transparent)]
    OfGroup(Arc<Error>),
}

impl Error {
    /// Whether the database refuses a value of the caller, such as a text with the character U+0000. The database works.
    pub fn is_of_data(&self) -> bool {
        match self {
            Error::Database(error) => faults::is_of_data(error),
            Error::OfGroup(error) => error.is_of_data(),
            _ => false,
        }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Error::Database(error)
    }
}

/// The result of a call to the store.
pub type Result<T> = std::result::Result<T, Error>;

/// The database. A clone shares the same connections.
#[derive(Clone, Debug)]
pub struct Store {
    db: Database,
    writers: Writers,
    /// Notified when this process has written events.
    emitted: Arc<Notify>,
}

impl Store {
    /// Opens the database that a URL names, and migrates its schema. If the URL is a `sqlite:` URL and its file does
    /// not exist, makes the file (mode 0600).
    pub async fn open(url: &str) -> Result<Store> {
        Store::make_file(url)?;
        let store = Store::connect(url).await?;
        store.migrate().await?;
        Ok(store)
    }

    /// Makes the file of a `sqlite:` URL (mode 0600) if it does not exist. Does nothing for other URLs.
    pub fn make_file(url: &str) -> Result<()> {
        match Url::parse(url)? {
            Url::Sqlite(path) => make_private(&path),
            Url::Postgres => Ok(()),
        }
    }

    /// Opens the database that a URL names, without creating a file or a table. See [`Store::schema`].
    pub async fn connect(url: &str) -> Result<Store> {
        let db = match Url::parse(url)? {
            Url::Sqlite(path) => {
                std::fs::metadata(&path).map_err(|source| Error::File { path: path.clone(), source })?;
                Database::sqlite(SqliteConnectOptions::new().filename(&path)).await?
            }
            Url::Postgres => Database::postgres(postgres_options(url)?).await?,
        };
        Ok(Store { writers: Writers::start(&db), db, emitted: Arc::default() })
    }

    /// Returns the kind of database: `sqlite` or `postgres`.
    pub fn database(&self) -> &'static str {
        self.db.name()
    }

    /// Whether a pooler such as PgBouncer in transaction mode is between the node and PostgreSQL. Then a statement takes
    /// four round trips, not one.
    pub fn is_behind_pooler(&self) -> bool {
        self.db.is_shared()
    }

    /// Returns the present state of the connection pool.
    pub fn connections(&self) -> Connections {
        self.db.connections()
    }

    /// Returns the size of SQLite's write-ahead log, in bytes. `None` for PostgreSQL.
    pub fn wal_bytes(&self) -> Option<u64> {
        self.db.wal_bytes()
    }

    /// Shortens SQLite's write-ahead log if the log has grown beyond its usual size and nobody reads an older state.
    /// Call this every few seconds, because a log without writers stays long.
    pub async fn bound_wal(&self) -> Result<()> {
        self.db.bound_wal().await
    }

    /// Checks that the database answers, and that it takes writes as far as the last writes show. Writes only after a
    /// write has failed.
    pub async fn probe(&self) -> Result<()> {
        self.db.probe().await
    }

    /// Runs steps in one transaction, for work whose later steps depend on the results of earlier ones. If `work`
    /// fails, or if the caller stops waiting, all steps are undone. Do not await other calls of the store inside
    /// `work`, because such a call would wait for this transaction.
    ///
    /// ```ignore
    /// store.write(async |tx| {
    ///     tx.end_token(&digest, expires_at, None, now).await?;
    ///     tx.keep(kept.as_ref()).await
    /// })
    /// ```
    pub async fn write<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(&mut Tx) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let mut tx = self.db.begin().await?;
        let done = work(&mut tx).await?;
        let emits = tx.emitted().0;
        tx.commit().await?;
        if emits {
            self.emitted.notify_one();
        }
        Ok(done)
    }

    /// Waits until this process has written events.
    pub async fn events_were_emitted(&self) {
        self.emitted.notified().await;
    }

    /// Closes all connections. Later calls fail.
    pub async fn close(&self) {
        self.db.close().await;
    }
}

/// The kind of database that a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Url {
    /// A SQLite file at this path.
    Sqlite(PathBuf),
    /// A PostgreSQL server.
    Postgres,
}

impl Url {
    /// Reads a `sqlite:` or `postgres:` URL.
    pub fn parse(url: &str) -> Result<Url> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return postgres_options(url).map(|_| Url::Postgres);
        }
        sqlite_path(url).map(Url::Sqlite)
    }
}

fn postgres_options(url: &str) -> Result<PgConnectOptions> {
    // do not repeat the driver's error: it may quote the password
    PgConnectOptions::from_str(url).map_err(|_| Error::Url("the postgres: URL is not valid".to_owned()))
}

fn sqlite_path(url: &str) -> Result<PathBuf> {
    if !url.starts_with("sqlite:") {
        return Err(Error::Url("the URL must be a sqlite: or a postgres: URL".to_owned()));
    }
    let options = SqliteConnectOptions::from_str(url).map_err(|error| Error::Url(error.to_string()))?;
    let path = options.get_filename();
    if url.contains(":memory:") || url.contains("mode=memory") || path.as_os_str().is_empty() {
        return Err(Error::Url("a sqlite: URL must name a file".to_owned()));
    }
    Ok(path.to_owned())
}

/// Makes an empty file with mode 0600, unless it exists. SQLite gives its side files the same mode.
fn make_private(path: &Path) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop).map_err(|source| Error::File { path: path.to_owned(), source })
}
