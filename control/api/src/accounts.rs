//! Properties of accounts and their API keys: role, environment, plan, status.

use serde::{Deserialize, Serialize};

use crate::words;

/// The permissions of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum), value(rename_all = "snake_case"))]
pub enum Role {
    /// May only read (GET).
    Viewer,
    /// May run computations, and manage keys and webhooks.
    Developer,
    /// May do everything, billing included.
    AccountAdmin,
    /// The role of trial keys.
    Trial,
}

words!(Role, "role", {
    Viewer = "viewer",
    Developer = "developer",
    AccountAdmin = "account_admin",
    Trial = "trial",
});

/// The purpose of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum), value(rename_all = "snake_case"))]
pub enum Environment {
    /// Real billing.
    #[cfg_attr(feature = "clap", value(alias = "production"))]
    Live,
    /// For CI, without payments.
    #[cfg_attr(feature = "clap", value(alias = "sandbox"))]
    Test,
    /// Internal use.
    #[cfg_attr(feature = "clap", value(alias = "development"))]
    Dev,
    /// A trial of half an hour.
    Trial,
}

words!(Environment, "environment", { Live = "live", Test = "test", Dev = "dev", Trial = "trial" });

impl Environment {
    /// The prefix with which the environment's API keys begin.
    pub fn key_prefix(self) -> &'static str {
        match self {
            Environment::Live => "svc_live_",
            Environment::Test => "svc_test_",
            Environment::Dev => "svc_dev_",
            Environment::Trial => "svc_trial_",
        }
    }
}

/// The state of an API key (readings A16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyStatus {
    /// The key works.
    Active,
    /// Another key has replaced this key, which still works for at most 24 hours.
    Rotating,
    /// The key's owner or the operator has revoked the key.
    Revoked,
    /// The key's lifetime is over.
    Expired,
}

words!(KeyStatus, "status of a key", {
    Active = "active",
    Rotating = "rotating",
    Revoked = "revoked",
    Expired = "expired",
});

/// A plan of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Plan {
    /// The plan of a trial key.
    Trial,
    /// The default.
    Free,
    /// No subscription: every unit is charged.
    Payg,
    /// The smallest subscription.
    Starter,
    /// The middle subscription.
    Pro,
    /// The largest subscription on sale.
    Scale,
    /// A plan by agreement.
    Enterprise,
}

words!(Plan, "plan", {
    Trial = "trial",
    Free = "free",
    Payg = "payg",
    Starter = "starter",
    Pro = "pro",
    Scale = "scale",
    Enterprise = "enterprise",
});

impl Plan {
    /// Weight of an account with this plan when accounts compete for the node's devices (readings P31).
    pub fn weight(self) -> u32 {
        match self {
            Plan::Trial | Plan::Free => 1,
            Plan::Payg | Plan::Starter => 2,
            Plan::Pro => 4,
            // enterprise, a plan by agreement, has the weight of the largest plan on sale
            Plan::Scale | Plan::Enterprise => 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;

    #[test]
    fn p31_plans_weigh_what_the_readings_say() {
        use Plan::*;
        let weights = [(Trial, 1), (Free, 1), (Payg, 2), (Starter, 2), (Pro, 4), (Scale, 8), (Enterprise, 8)];
        weights.iter().for_each(|&(plan, weight)| assert_eq!(plan.weight(), weight, "{plan:?}"));
    }
}
