//! Limits and lockouts without a server.

use api::{AccountId, KeyId, LineageId};
use zeroize::Zeroizing;

use super::*;
use crate::caller::{Credential, Environment, Role};
use crate::data_dir::DataDir;
use crate::secrets::ServerSecret;

const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

/// Limits on a database in this folder. Accounts of the plan free have the limits `free`.
async fn limits(folder: &std::path::Path, free: PlanLimits) -> Limits {
    let store = Store::open(&format!("sqlite:{}", folder.join("test.db").display())).await.unwrap();
    let secret = ServerSecret(Zeroizing::new([1; 32]));
    let secrets = Secrets::load(Some(&secret), &DataDir::at(folder), false).unwrap();
    let mut plans = PlanTable::default();
    *plans.of_mut(Plan::Free) = free;
    Limits::new(Clock::system(), plans, store, &secrets, None, None)
}

fn caller(number: u128) -> Caller {
    let (key_id, lineage_id) = (KeyId::from_bits(number), LineageId::from_bits(number));
    Caller {
        account: AccountId::from_bits(1),
        environment: Environment::Test,
        role: Role::Developer,
        plan: Plan::Free,
        is_suspended: false,
        credential: Credential::Key { key_id, lineage_id },
    }
}

/// The reason why a request is refused. Empty: the request is admitted.
async fn refusal(limits: &Limits, quota: &Quota, caller: &Caller) -> &'static str {
    limits.admit(quota, caller, NOW).await.err().map_or("", |refused| refused.reason)
}

#[tokio::test]
async fn l1_an_account_meets_its_daily_limit_and_gets_back_what_was_refused() {
    let folder = tempfile::tempdir().unwrap();
    let free = PlanLimits {
        requests_a_day: 3,
        requests_a_month: 100,
        burst_a_second: 100,
        ..PlanTable::default().of(Plan::Free)
    };
    let limits = limits(folder.path(), free).await;
    let quotas = [(); 3].map(|()| Quota::default());
    for (number, quota) in quotas.iter().enumerate() {
        // each request uses another key of the same account
        assert_eq!(refusal(&limits, quota, &caller(number as u128)).await, "");
    }
    assert_eq!(refusal(&limits, &Quota::default(), &caller(1)).await, "daily");
    limits.settle(&quotas[0], StatusCode::OK, None, NOW);
    limits.settle(&quotas[1], StatusCode::UNPROCESSABLE_ENTITY, None, NOW);
    assert_eq!(refusal(&limits, &Quota::default(), &caller(1)).await, "");
    assert_eq!(refusal(&limits, &Quota::default(), &caller(1)).await, "daily");
}

#[tokio::test]
async fn l6_a_burst_is_a_key_s_own() {
    let folder = tempfile::tempdir().unwrap();
    let free = PlanLimits {
        requests_a_day: 100,
        requests_a_month: 100,
        burst_a_second: 2,
        ..PlanTable::default().of(Plan::Free)
    };
    let limits = limits(folder.path(), free).await;
    let mut refusals = Vec::new();
    for number in [1, 1, 1, 2] {
        refusals.push(refusal(&limits, &Quota::default(), &caller(number)).await);
    }
    assert_eq!(refusals, ["", "", "burst", ""]);
}

#[tokio::test]
async fn a21_a_network_of_wrong_attempts_is_locked_for_a_quarter_of_an_hour() {
    let folder = tempfile::tempdir().unwrap();
    let limits = limits(folder.path(), PlanTable::default().of(Plan::Free)).await;
    let [network, other] = ["192.0.2.1", "192.0.2.2"].map(|address| ClientAddress(address.parse().unwrap()));
    let attempt = async |address, right: bool| {
        let outcome = if right { Ok(()) } else { Err(ApiError::new(Code::InvalidCredentials, "wrong")) };
        limits.attempt(address, async { outcome }).await.map_err(|refused| refused.code)
    };
    for _ in 0..20 {
        assert_eq!(attempt(network, false).await, Err(Code::InvalidCredentials));
    }
    assert_eq!(attempt(network, true).await, Err(Code::BruteForceLockout));
    assert_eq!(attempt(other, true).await, Ok(()));
    limits.clock.advance(Duration::from_secs(15 * 60));
    assert_eq!(attempt(network, true).await, Ok(()));
}
