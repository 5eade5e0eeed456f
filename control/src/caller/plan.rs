//! Plans and their limits (readings section 16). The settings file may replace the numbers.

use std::collections::HashMap;

use api::Plan;
use serde::Deserialize;

/// No limit. The largest integer that every JSON reader represents exactly (readings L5).
pub const UNLIMITED: u64 = 9_007_199_254_740_991;

/// The limits of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanLimits {
    /// Largest number of requests of an account in a day, UTC.
    pub requests_a_day: u64,
    /// Largest number of requests of an account in a month, UTC.
    pub requests_a_month: u64,
    /// Largest number of requests of a key in one second. The requests may all come at the same instant.
    pub burst_a_second: u32,
    /// Largest number of open gate sessions of an account (readings L9).
    pub open_sessions: u64,
    /// Largest number of encryption keys of an account, including open uploads in parts (readings K19).
    pub encryption_keys: u64,
    /// Largest size in megabytes of one evaluation key for arithmetic (readings K4).
    pub encryption_key_mb: u64,
    /// Largest size in megabytes of an account's stored ciphertexts together (readings K14).
    pub ciphertext_cache_mb: u64,
}

impl PlanLimits {
    /// Returns the largest size in bytes of one evaluation key for arithmetic.
    pub fn encryption_key_bytes(&self) -> u64 {
        self.encryption_key_mb.saturating_mul(1 << 20)
    }

    /// Returns the largest size in bytes of an account's stored ciphertexts together. `None`: no limit.
    pub fn ciphertext_cache_bytes(&self) -> Option<u64> {
        (self.ciphertext_cache_mb != UNLIMITED).then(|| self.ciphertext_cache_mb.saturating_mul(1 << 20))
    }
}

const fn limits(requests_a_day: u64, requests_a_month: u64, burst_a_second: u32, open_sessions: u64) -> PlanLimits {
    PlanLimits {
        requests_a_day,
        requests_a_month,
        burst_a_second,
        open_sessions,
        encryption_keys: 0,
        encryption_key_mb: 0,
        ciphertext_cache_mb: 0,
    }
}

/// Returns a copy of `limits` with these limits on encryption keys and ciphertexts.
const fn with_keys(
    limits: PlanLimits,
    encryption_keys: u64,
    encryption_key_mb: u64,
    ciphertext_cache_mb: u64,
) -> PlanLimits {
    PlanLimits { encryption_keys, encryption_key_mb, ciphertext_cache_mb, ..limits }
}

/// The limits of every plan, and the limits that all callers without a key in one network share. They are read from a
/// table with the names of plans (or `anonymous`) as keys. Each value is a table with members of [`PlanLimits`] in
/// kebab case. A limit is a number or, except for the burst, `"unlimited"`. An absent limit keeps its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "HashMap<String, Changes>")]
pub struct PlanTable {
    plans: [PlanLimits; Plan::ALL.len()],
    /// The limits of callers without a key. All such callers in one network share these limits.
    pub anonymous: PlanLimits,
}

impl Default for PlanTable {
    fn default() -> Self {
        PlanTable {
            plans: Plan::ALL.map(|plan| match plan {
                // the first two limits of a trial count operations, not requests
                Plan::Trial => with_keys(limits(10, 10, 5, 1), 1, 64, 32),
                Plan::Free => with_keys(limits(1_000, 10_000, 10, 2), 5, 256, 128),
                Plan::Payg => with_keys(limits(100_000, 3_000_000, 50, 10), 50, 1 << 10, 1 << 10),
                Plan::Starter => with_keys(limits(20_000, 500_000, 50, 10), 50, 1 << 10, 1 << 10),
                Plan::Pro => with_keys(limits(200_000, 5_000_000, 200, 50), 500, 2 << 10, 8 << 10),
                Plan::Scale => with_keys(limits(2_000_000, 50_000_000, 1_000, 200), 5_000, 4 << 10, 64 << 10),
                Plan::Enterprise => {
                    with_keys(limits(UNLIMITED, UNLIMITED, 5_000, UNLIMITED), UNLIMITED, 8 << 10, 64 << 10)
                }
            }),
            anonymous: limits(1_000, 10_000, 5, 0),
        }
    }
}

impl PlanTable {
    /// Returns the limits of this plan.
    pub fn of(&self, plan: Plan) -> PlanLimits {
        self.plans[plan as usize]
    }

    /// Returns the limits of this plan for changing.
    pub fn of_mut(&mut self, plan: Plan) -> &mut PlanLimits {
        &mut self.plans[plan as usize]
    }
}

impl TryFrom<HashMap<String, Changes>> for PlanTable {
    type Error = String;

    fn try_from(changes: HashMap<String, Changes>) -> Result<PlanTable, String> {
        let mut table = PlanTable::default();
        for (name, changes) in changes {
            let limits = match Plan::from_name(&name) {
                _ if name == "anonymous" && changes.open_sessions.is_some() => {
                    return Err("anonymous: callers without a key open no sessions".to_owned());
                }
                _ if name == "anonymous" && changes.are_of_keys() => {
                    return Err("anonymous: callers without a key have no encryption keys".to_owned());
                }
                _ if name == "anonymous" => &mut table.anonymous,
                Some(Plan::Trial) if changes.requests_a_day.is_some() || changes.requests_a_month.is_some() => {
                    return Err("trial: the operations of a trial are fixed".to_owned());
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
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Changes {
    requests_a_day: Option<Count>,
    requests_a_month: Option<Count>,
    burst_a_second: Option<u32>,
    open_sessions: Option<Count>,
    encryption_keys: Option<Count>,
    encryption_key_mb: Option<Count>,
    ciphertext_cache_mb: Option<Count>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Count {
    Number(u64),
    Word(String),
}

impl Changes {
    /// Whether any of the changes is to a limit on encryption keys or ciphertexts.
    fn are_of_keys(&self) -> bool {
        [&self.encryption_keys, &self.encryption_key_mb, &self.ciphertext_cache_mb].iter().any(|count| count.is_some())
    }

    fn apply(self, limits: &mut PlanLimits) -> Result<(), String> {
        for (limit, count) in [
            (&mut limits.requests_a_day, self.requests_a_day),
            (&mut limits.requests_a_month, self.requests_a_month),
            (&mut limits.open_sessions, self.open_sessions),
            (&mut limits.encryption_keys, self.encryption_keys),
            (&mut limits.encryption_key_mb, self.encryption_key_mb),
            (&mut limits.ciphertext_cache_mb, self.ciphertext_cache_mb),
        ] {
            *limit = match count {
                None => continue,
                Some(Count::Number(number)) if number <= UNLIMITED => number,
                Some(Count::Word(word)) if word == "unlimited" => UNLIMITED,
                Some(_) => return Err(format!("a limit must be a number up to {UNLIMITED} or \"unlimited\"")),
            };
        }
        if let Some(rate) = self.burst_a_second {
            if !(1..=1_000_000).contains(&rate) {
                return Err("burst-a-second must be from 1 to 1000000".to_owned());
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

    fn read(text: &str) -> Result<PlanTable, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn l2_a_file_replaces_the_numbers_it_names_and_no_others() {
        let table = read(
            "[free]\nrequests-a-day = 5\nopen-sessions = 7\nciphertext-cache-mb = 64
             [anonymous]\nrequests-a-month = \"unlimited\"\nburst-a-second = 7
             [pro]\nopen-sessions = \"unlimited\"",
        )
        .unwrap();
        assert_eq!(table.of(Plan::Free), with_keys(limits(5, 10_000, 10, 7), 5, 256, 64));
        assert_eq!(table.anonymous, limits(1_000, UNLIMITED, 7, 0));
        assert_eq!(table.of(Plan::Pro), PlanLimits { open_sessions: UNLIMITED, ..PlanTable::default().of(Plan::Pro) });
        assert_eq!(table.of(Plan::Enterprise).requests_a_day, UNLIMITED);
    }

    #[test]
    fn l9_the_open_sessions_of_a_plan_are_those_of_the_readings() {
        let defaults = Plan::ALL.map(|plan| PlanTable::default().of(plan).open_sessions);
        assert_eq!(defaults, [1, 2, 10, 10, 50, 200, UNLIMITED]);
    }

    #[test]
    fn k19_k14_keys_and_ciphertexts_of_a_plan_are_those_of_the_readings() {
        let of = |plan| PlanTable::default().of(plan);
        assert_eq!(Plan::ALL.map(|plan| of(plan).encryption_keys), [1, 5, 50, 50, 500, 5_000, UNLIMITED]);
        let cache = Plan::ALL.map(|plan| of(plan).ciphertext_cache_bytes().unwrap() >> 20);
        assert_eq!(cache, [32, 128, 1024, 1024, 8192, 65536, 65536]);
        let unlimited = PlanLimits { ciphertext_cache_mb: UNLIMITED, ..of(Plan::Enterprise) };
        assert_eq!(unlimited.ciphertext_cache_bytes(), None);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told() {
        for (text, told) in [
            ("free = 1", "invalid type"),
            ("gold = {}", "no plan \"gold\""),
            ("free = { a-day = 5 }", "unknown field"),
            ("free = { requests-a-day = -1 }", "did not match"),
            ("free = { requests-a-day = \"much\" }", "free: a limit must be a number"),
            ("free = { burst-a-second = 0 }", "free: burst-a-second must be from 1"),
            ("free = { open-sessions = -1 }", "did not match"),
            ("trial = { requests-a-day = 20 }", "trial: the operations of a trial are fixed"),
            ("anonymous = { open-sessions = 1 }", "without a key open no sessions"),
            ("anonymous = { encryption-keys = 1 }", "without a key have no encryption keys"),
        ] {
            let error = read(text).unwrap_err();
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
            let file = format!("{plan} = {{ requests-a-day = {day}, burst-a-second = {burst} }}");
            for text in [text, file] {
                match read(&text) {
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
