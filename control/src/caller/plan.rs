//! Plans and what they allow (readings section 16). The numbers are defaults that a file of the operator replaces.

use std::collections::HashMap;

use api::Plan;
use serde::Deserialize;

/// No limit: the largest integer that every JSON reader holds exactly (readings L5).
pub const UNLIMITED: u64 = 9_007_199_254_740_991;

/// What a plan allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanLimits {
    /// Requests of an account a day, UTC.
    pub requests_a_day: u64,
    /// Requests of an account a month, UTC.
    pub requests_a_month: u64,
    /// Requests of a key at once, and a second.
    pub burst_a_second: u32,
}

const fn limits(requests_a_day: u64, requests_a_month: u64, burst_a_second: u32) -> PlanLimits {
    PlanLimits { requests_a_day, requests_a_month, burst_a_second }
}

/// What every plan allows, and what callers without a key may do from one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanTable {
    plans: [PlanLimits; Plan::ALL.len()],
    /// By the caller's network.
    pub anonymous: PlanLimits,
}

impl Default for PlanTable {
    fn default() -> Self {
        PlanTable {
            plans: Plan::ALL.map(|plan| match plan {
                // counts are of operations
                Plan::Trial => limits(10, 10, 5),
                Plan::Free => limits(1_000, 10_000, 10),
                Plan::Payg => limits(100_000, 3_000_000, 50),
                Plan::Starter => limits(20_000, 500_000, 50),
                Plan::Pro => limits(200_000, 5_000_000, 200),
                Plan::Scale => limits(2_000_000, 50_000_000, 1_000),
                Plan::Enterprise => limits(UNLIMITED, UNLIMITED, 5_000),
            }),
            anonymous: limits(1_000, 10_000, 5),
        }
    }
}

impl PlanTable {
    /// What this plan allows.
    pub fn of(&self, plan: Plan) -> PlanLimits {
        self.plans[plan as usize]
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, plan: Plan) -> &mut PlanLimits {
        &mut self.plans[plan as usize]
    }

    /// The defaults with what a file says: a JSON object of plans (and `anonymous`), each an object of `requests_a_day`,
    /// `requests_a_month` and `burst_a_second`, which are numbers or, but for the last, `"unlimited"`.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn from_json(text: &str) -> Result<PlanTable, String> {
        let changes: HashMap<String, Changes> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut table = PlanTable::default();
        for (name, changes) in changes {
            let limits = match Plan::from_name(&name) {
                _ if name == "anonymous" => &mut table.anonymous,
                Some(Plan::Trial) if changes.requests_a_day.is_some() || changes.requests_a_month.is_some() => {
                    return Err("a trial's operations are fixed; only its burst_a_second can be set".to_owned());
                }
                Some(plan) => table.of_mut(plan),
                None => return Err(format!("there is no plan {name:?}")),
            };
            changes.apply(limits).map_err(|what| format!("{name}: {what}"))?;
        }
        Ok(table)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Changes {
    requests_a_day: Option<Count>,
    requests_a_month: Option<Count>,
    burst_a_second: Option<u32>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Count {
    Number(u64),
    Word(String),
}

impl Count {
    fn number(self) -> Result<u64, String> {
        match self {
            Count::Number(number) if number <= UNLIMITED => Ok(number),
            Count::Word(word) if word == "unlimited" => Ok(UNLIMITED),
            _ => Err(format!("a limit is a number up to {UNLIMITED} or \"unlimited\"")),
        }
    }
}

impl Changes {
    fn apply(self, limits: &mut PlanLimits) -> Result<(), String> {
        if let Some(count) = self.requests_a_day {
            limits.requests_a_day = count.number()?;
        }
        if let Some(count) = self.requests_a_month {
            limits.requests_a_month = count.number()?;
        }
        if let Some(rate) = self.burst_a_second {
            if !(1..=1_000_000).contains(&rate) {
                return Err("burst_a_second is from 1 to 1000000".to_owned());
            }
            limits.burst_a_second = rate;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn l2_a_file_replaces_the_numbers_it_names_and_no_others() {
        let table = PlanTable::from_json(
            r#"{"free": {"requests_a_day": 5}, "anonymous": {"requests_a_month": "unlimited", "burst_a_second": 7}}"#,
        )
        .unwrap();
        assert_eq!(table.of(Plan::Free), limits(5, 10_000, 10));
        assert_eq!(table.anonymous, limits(1_000, UNLIMITED, 7));
        assert_eq!(table.of(Plan::Pro), PlanTable::default().of(Plan::Pro));
        assert_eq!(table.of(Plan::Enterprise).requests_a_day, UNLIMITED);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told() {
        for (text, told) in [
            ("", "EOF"),
            ("[]", "invalid type"),
            (r#"{"gold": {}}"#, "no plan \"gold\""),
            (r#"{"free": {"a_day": 5}}"#, "unknown field"),
            (r#"{"free": {"requests_a_day": -1}}"#, "did not match"),
            (r#"{"free": {"requests_a_day": "much"}}"#, "free: a limit is a number"),
            (r#"{"free": {"burst_a_second": 0}}"#, "free: burst_a_second is from 1"),
            (r#"{"trial": {"requests_a_day": 20}}"#, "a trial's operations are fixed"),
        ] {
            let error = PlanTable::from_json(text).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    proptest! {
        #[test]
        fn l2_any_file_is_a_table_or_refused_in_words(
            text in ".{0,80}",
            plan in prop_oneof![Just("free"), Just("trial"), Just("anonymous"), Just("gold")],
            day in prop_oneof![any::<i64>().prop_map(|n| n.to_string()), Just("\"unlimited\"".to_owned()), ".{0,8}"],
            burst: u64,
        ) {
            let file = format!(r#"{{"{plan}": {{"requests_a_day": {day}, "burst_a_second": {burst}}}}}"#);
            for text in [text, file] {
                match PlanTable::from_json(&text) {
                    Ok(table) => {
                        let all = Plan::ALL.map(|plan| table.of(plan)).into_iter().chain([table.anonymous]);
                        for limits in all {
                            prop_assert!(limits.requests_a_day <= UNLIMITED && limits.burst_a_second <= 1_000_000);
                        }
                    }
                    Err(why) => prop_assert!(!why.is_empty()),
                }
            }
        }
    }
}
