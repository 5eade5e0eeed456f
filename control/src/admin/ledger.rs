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
    /// The faults found, at most 100 for each statement of the audit.
    pub findings: Vec<FindingFacts>,
}

/// A fault in the ledger.
#[derive(Debug, Serialize)]
pub struct FindingFacts {
    /// The account. Empty: the fault belongs to no account.
    pub account_id: String,
    /// The fault.
    pub what: String,
    /// The object with the fault: a transfer, a usage row, a month and a rate, an invoice, and so on.
    pub of: String,
    /// The facts as they should be, numbers with their units.
    pub expected: String,
    /// The facts as they are, numbers with their units.
    pub found: String,
}

impl Operator {
    /// Audits the ledger and the bills. Nodes may run at the same time.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn audit_ledger(&self) -> anyhow::Result<AuditFacts> {
        let report = self.store.audit_ledger(self.clock.now().0).await?;
        let finding = |found: store::AuditFinding| {
            let store::AuditFinding { account_id, what, of, expected, found } = found;
            FindingFacts { account_id, what, of, expected, found }
        };
        Ok(AuditFacts {
            transfers: report.transfers,
            balances: report.balances,
            open: report.open,
            findings: report.findings.into_iter().map(finding).collect(),
        })
    }
}
