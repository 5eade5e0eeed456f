//! Prices and charges of the back office (readings B16-B18).

use api::Code;
use axum::response::Response;
use store::{OfficeCharge, OfficeCharged};

use super::{Office, OfficeConfig};
use crate::access::limits::Period;
use crate::billing::plans::pays_for_gates;
use crate::caller::{Caller, Environment, Plan};
use crate::clock::Timestamp;
use crate::ids;
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;

/// Errors of a charged call.
pub const CHARGED: [Code; 3] = [Code::QuotaExceeded, Code::BudgetHardCapHit, Code::AccountSuspended];
/// Thousandths of a yen in a yen.
const MILLI_YEN: i64 = 1000;

/// The operations that are charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfficeOperation {
    /// A document, made on request or from a payment.
    Document,
    /// Withholding records; the units are payees.
    Withholding,
    /// A verification; the units are registration numbers.
    Verify,
    /// A check of a watch list; the units are registration numbers.
    Monitor,
}

impl OfficeOperation {
    /// All operations.
    pub const ALL: [OfficeOperation; 4] =
        [OfficeOperation::Document, OfficeOperation::Withholding, OfficeOperation::Verify, OfficeOperation::Monitor];

    /// Returns the operation's name in `/v1/me`.
    pub fn name(self) -> &'static str {
        match self {
            OfficeOperation::Document => "document",
            OfficeOperation::Withholding => "withholding",
            OfficeOperation::Verify => "verify",
            OfficeOperation::Monitor => "monitor",
        }
    }

    /// Returns the price of one unit in yen.
    fn yen(self, config: &OfficeConfig) -> i64 {
        match self {
            OfficeOperation::Document => config.document_yen,
            OfficeOperation::Withholding => config.payee_yen,
            OfficeOperation::Verify | OfficeOperation::Monitor => config.number_yen,
        }
    }
}

/// The key whose call is charged.
#[derive(Clone, Debug)]
pub struct PayingKey {
    /// The account.
    pub account_id: String,
    /// The key's lineage, to which the monthly cap belongs.
    pub lineage_id: String,
    /// The account's plan.
    pub plan: Plan,
    /// Environment of the key. As with gates, only calls of live keys cost anything (readings P4).
    pub environment: Environment,
}

impl From<&Caller> for PayingKey {
    fn from(caller: &Caller) -> PayingKey {
        PayingKey {
            account_id: caller.account.as_str().to_owned(),
            lineage_id: caller.credential.lasting_id().to_owned(),
            plan: caller.plan,
            environment: caller.environment,
        }
    }
}

impl Office {
    /// Charges a completed call, stores the call's answer for idempotency and returns the answer. If the charge is
    /// refused, returns an error instead.
    pub(super) async fn charged(
        &self,
        caller: &Caller,
        claim: &Claim,
        operation: OfficeOperation,
        units: usize,
        answer: Response,
    ) -> Result<Response, ApiError> {
        let (answer, keep) = claim.keep(answer).await?;
        let charge = OfficeCharge { keep, ..self.charge(&caller.into(), operation, units, self.clock.now()) };
        self.refusal(self.store.charge_office(charge).await?).map_or(Ok(answer), Err)
    }

    /// Makes the charge for this many units.
    pub(super) fn charge(
        &self,
        payer: &PayingKey,
        operation: OfficeOperation,
        units: usize,
        now: Timestamp,
    ) -> OfficeCharge {
        let units = i64::try_from(units).unwrap_or(i64::MAX);
        let pays = pays_for_gates(payer.plan, payer.environment);
        let yen = if pays { units.saturating_mul(operation.yen(&self.config)) } else { 0 };
        OfficeCharge {
            usage_id: ids::usage(now).as_str().to_owned(),
            account_id: payer.account_id.clone(),
            lineage_id: payer.lineage_id.clone(),
            node_id: self.node_id.clone(),
            environment: payer.environment,
            month: Period::of(now).month,
            usd_milli_jpy: self.rate.0,
            created_at: now.0,
            operation: operation.name(),
            units,
            milli_yen: yen.saturating_mul(MILLI_YEN),
            calls_max: self.calls_max(payer.plan),
            keep: None,
        }
    }

    /// Returns the largest number of billable calls in a month under the plan. `None`: no limit.
    pub(super) fn calls_max(&self, plan: Plan) -> Option<i64> {
        (plan == Plan::Free).then_some(self.config.free_calls)
    }

    /// Returns the error for a refused charge. `None`: the charge was made.
    pub(super) fn refusal(&self, charged: OfficeCharged) -> Option<ApiError> {
        let (code, message) = match charged {
            OfficeCharged::Made => return None,
            OfficeCharged::QuotaExceeded => {
                let calls = self.config.free_calls;
                (
                    Code::QuotaExceeded,
                    format!("the account has used its {calls} calls of this month; other plans have no such limit"),
                )
            }
            OfficeCharged::CapReached { cap_yen } => {
                let message =
                    format!("the call would exceed the key's monthly cap of {cap_yen} yen; raise it with POST /v1/cap");
                (Code::BudgetHardCapHit, message)
            }
            OfficeCharged::BudgetReached { cap_nano_usd } => {
                let dollars = cap_nano_usd as f64 / 1e9;
                (Code::BudgetHardCapHit, format!("the call would exceed the account's monthly cap of {dollars} USD"))
            }
        };
        Some(ApiError::new(code, message))
    }
}
