//! Checks that an account owes exactly the price of its use.

use control::clock::Clock;
use store::Store;

/// Checks that no reservation is open, and that an account on a paid plan owes the price of the gates that it used in
/// this month.
///
/// # Panics
/// If the sums differ.
pub async fn assert_adds_up(store: &Store, account: &str) {
    let audit = store.audit_ledger(Clock::system().now().0).await.expect("an audit");
    assert_eq!((audit.open, audit.findings), (0, vec![]));
    let now = Clock::system().now().rfc3339();
    let number = |range: std::ops::Range<usize>| now[range].parse::<i64>().expect("a number");
    let used = store.used_in_month(account, 12 * number(0..4) + number(5..7) - 1).await.expect("a month");
    let (gates, _, milli_yen) = store.gate_usage_totals(account).await.expect("totals");
    // the rate is 150 yen for a dollar
    let cost = (milli_yen as f64 * 1e9 / 150_000.0).round() as i64;
    assert_eq!((used.spend.nano_usd(), used.operations.values().sum::<i64>()), (cost, gates));
}
