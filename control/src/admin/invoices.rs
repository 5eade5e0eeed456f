//! The operator's commands for invoices that the service made itself, and for requests for enterprise plans (readings
//! P14, P19).

use anyhow::bail;
use serde::Serialize;
use store::InvoiceState;

use super::Operator;
use crate::billing::invoices::invoice_paid_event;
use crate::cache_store::News;
use crate::caller::Plan;
use crate::clock::Timestamp;

/// A request for a plan with a negotiated price.
#[derive(Debug, Serialize)]
pub struct PlanRequestFacts {
    /// The account.
    pub account_id: String,
    /// The requested plan.
    pub plan: Plan,
    /// The e-mail address for the operator's answer.
    pub email: String,
    /// When the request was made.
    pub requested_at: String,
}

impl Operator {
    /// Returns all requests for plans, the oldest first.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn plan_requests(&self) -> anyhow::Result<Vec<PlanRequestFacts>> {
        let requests = self.store.plan_requests().await?;
        let facts = requests.into_iter().map(|request| PlanRequestFacts {
            account_id: request.account_id,
            plan: request.plan,
            email: request.email,
            requested_at: Timestamp(request.requested_at).rfc3339(),
        });
        Ok(facts.collect())
    }

    /// Records the final status of an open invoice that the service made itself. A payment is announced to webhooks.
    ///
    /// # Errors
    /// When the invoice does not exist, was made by the provider, or is no longer open.
    pub async fn end_invoice(&self, invoice_id: &str, status: InvoiceState) -> anyhow::Result<()> {
        let Some(mut invoice) = self.store.invoice(invoice_id).await? else {
            bail!("there is no invoice {invoice_id}")
        };
        if invoice.is_provided {
            bail!("the payment provider made the invoice {invoice_id}: change its status at the provider");
        }
        let now = self.clock.now();
        invoice.status = status;
        invoice.paid_at = if status == InvoiceState::Paid { now.0 } else { 0 };
        let event = (status == InvoiceState::Paid).then(|| invoice_paid_event(&invoice, now)).transpose()?;
        let ended = self
            .store
            .write(async |tx| {
                let ended = tx.end_invoice(invoice_id, status, invoice.paid_at, now.0).await?;
                if let Some(event) = event.as_ref().filter(|_| ended.is_some()) {
                    tx.emit(std::slice::from_ref(event)).await?;
                }
                Ok::<_, store::Error>(ended)
            })
            .await?;
        if ended.is_none() {
            bail!("the invoice {invoice_id} has ended already");
        }
        self.tell_nodes(News::Account { account_id: invoice.account_id }).await;
        Ok(())
    }
}
