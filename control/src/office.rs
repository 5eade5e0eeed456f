//! The back office (specification, Back-Office Documents Service): documents, records of payments, reconciliation and
//! registration numbers under `/v1`. The rules are in `docs-module`. This area reads requests, charges for
//! them, stores documents and delivers them.

pub(crate) mod account;
pub(crate) mod admin_keys;
mod announced;
mod answers;
pub(crate) mod audit_log;
mod body;
mod charge;
mod corrections;
pub(crate) mod documents;
pub(crate) mod ingest;
pub(crate) mod jobs;
mod payments;
pub(crate) mod profile;
pub(crate) mod provider;
mod query;
pub(crate) mod reconcile;
pub(crate) mod registration;
pub(crate) mod stored;
pub(crate) mod withholding;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use docs_module::calendar::tokyo_date;
use store::Store;
use time::Date;
use tokio::sync::Notify;
use zeroize::Zeroizing;

use crate::access::Access;
use crate::billing::compute_units::UsdRate;
use crate::clock::{Clock, Timestamp};
use crate::parsers::number;
use crate::sealing::AccountSeals;
use crate::web::Web;
use audit_log::AuditLog;

/// Settings of the back office.
#[derive(Clone, Debug, clap::Args)]
pub struct OfficeConfig {
    // readings B3
    /// The administrator's secret for `POST /v1/admin/keys`: at least 32 characters. When unset, the endpoint refuses every request.
    #[arg(env = "SERVICE_ADMIN_KEY", hide = true, value_parser = AdminKey::read)]
    pub admin_key: Option<AdminKey>,
    // readings B39
    /// File of the audit log of registration numbers. When unset, nothing is logged, and GET /v1/registration/audit answers 404.
    #[arg(env = "SERVICE_AUDIT_LOG", value_parser = audit_log_path)]
    pub audit_log: Option<PathBuf>,
    // readings B18
    /// Price of a document, in yen.
    #[arg(env = "ANGO_OFFICE_DOCUMENT_YEN", default_value = "10", value_parser = number::<i64>(0..=1_000_000))]
    pub document_yen: i64,
    /// Price of withholding records for each payee, in yen.
    #[arg(env = "ANGO_OFFICE_PAYEE_YEN", default_value = "10", value_parser = number::<i64>(0..=1_000_000))]
    pub payee_yen: i64,
    /// Price of each registration number that is verified or monitored, in yen.
    #[arg(env = "ANGO_OFFICE_NUMBER_YEN", default_value = "1", value_parser = number::<i64>(0..=1_000_000))]
    pub number_yen: i64,
    /// Number of billable calls of the back office that an account on the plan free may make in a month. Calls that
    /// cost nothing on other plans do not count.
    #[arg(env = "ANGO_OFFICE_FREE_CALLS", default_value = "30", value_parser = number::<i64>(0..=1_000_000_000))]
    pub free_calls: i64,
    // readings B15
    /// Time in seconds for which the document of a payment waits for an event that says more about the sale, such as the
    /// event of its invoice. 0 makes the document at once.
    #[arg(env = "ANGO_INGEST_WAIT_S", default_value = "120", value_parser = number::<u64>(0..=86_400))]
    pub ingest_wait_s: u64,
}

/// The administrator's secret. `Debug` hides the value.
#[derive(Clone)]
pub struct AdminKey(pub Zeroizing<String>);

impl AdminKey {
    fn read(text: &str) -> Result<AdminKey, &'static str> {
        if text.chars().count() < 32 {
            return Err("must be a text of at least 32 characters");
        }
        Ok(AdminKey(Zeroizing::new(text.to_owned())))
    }
}

impl std::fmt::Debug for AdminKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminKey(..)")
    }
}

fn audit_log_path(text: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(text);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() || !folder.is_dir() { Err("must be a file in an existing folder") } else { Ok(path) }
}

/// The state of the back office's endpoints and jobs.
pub struct Office {
    pub(crate) clock: Clock,
    pub(crate) store: Store,
    pub(crate) node_id: String,
    pub(crate) config: OfficeConfig,
    /// The present exchange rate, in yen for a dollar. Charges record this rate.
    pub(crate) rate: UsdRate,
    pub(crate) web: Arc<Web>,
    pub(crate) access: Arc<Access>,
    pub(crate) audit_log: Option<Arc<AuditLog>>,
    /// Seals profiles, events and documents at rest.
    pub(crate) seals: AccountSeals,
    /// True if the node sends e-mails.
    pub(crate) sends_mail: bool,
    /// Wakes the jobs of the back office because new work exists.
    pub(crate) told: Arc<Notify>,
}

impl Office {
    /// Returns the present date in Tokyo.
    fn today(&self) -> Date {
        today(self.clock.now())
    }
}

/// Returns the date in Tokyo at this moment.
fn today(now: Timestamp) -> Date {
    tokyo_date(now.0.div_euclid(1_000_000)).expect("the clock shows a year of four digits")
}
