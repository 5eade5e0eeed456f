//! The operator's audit of the ledger.

use serde::Serialize;

use super::Operator;

/// The result of an audit of the ledger.
#[derive(Debug, Serialize)]
pub struct AuditFacts {
    /// Number of transfers.
    pub transfers: i64,
    /// Number of balances: sums by account, month and rate.
    pub balances: i64,
    /// Number of open reservations: amounts set aside for work that is running.
    pub open: i64,
    /// The faults found, at most 100 of each kind.
    pub findings: Vec<FindingFacts>,
}

/// A fault in the ledger.
#[derive(Debug, Serialize)]
pub struct FindingFacts {
    /// The account.
    pub account_id: String,
    /// The fault.
    pub what: &'static str,
    /// The transfer at fault, or the month and the rate of the balance at fault.
    pub of: String,
}

impl Operator {
    /// Audits the whole ledger. Nodes may run at the same time.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn audit_ledger(&self) -> anyhow::Result<AuditFacts> {
        let report = self.store.audit_ledger().await?;
        let finding = |found: store::AuditFinding| {
            let store::AuditFinding { account_id, what, of } = found;
            FindingFacts { account_id, what, of }
        };
        Ok(AuditFacts {
            transfers: report.transfers,
            balances: report.balances,
            open: report.open,
            findings: report.findings.into_iter().map(finding).collect(),
        })
    }
}
