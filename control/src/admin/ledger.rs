//! Whether the ledger adds up, for an operator.

use serde::Serialize;

use super::Operator;

/// What an audit of the ledger looked at and found.
#[derive(Debug, Serialize)]
pub struct AuditFacts {
    /// Transfers.
    pub transfers: i64,
    /// Balances: sums by account, month and rate.
    pub balances: i64,
    /// Reservations of work that is under way.
    pub open: i64,
    /// What does not add up; at most 100 of a kind.
    pub findings: Vec<FindingFacts>,
}

/// Something that does not add up.
#[derive(Debug, Serialize)]
pub struct FindingFacts {
    /// The account.
    pub account_id: String,
    /// What is wrong.
    pub what: &'static str,
    /// The transfer, or the month and the rate.
    pub of: String,
}

impl Operator {
    /// Adds the whole ledger up. Nodes may go on meanwhile.
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
