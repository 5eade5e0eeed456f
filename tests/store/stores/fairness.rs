//! The shares of accounts in the waiting line of a fleet, at the size of a large fleet's backlog.

use std::time::Instant;

use api::circuits::OperationStatus;

use super::waiting_line::{in_line, left_by, waiting};
use super::*;

const ACCOUNTS: usize = 50;
/// Operations of each account.
const OPERATIONS: usize = 200;
/// Number of operations that the workers have at the same time.
const ROOM: i64 = 64;
/// Each account gets as many operations as this, times its weight, while all accounts have operations that wait.
const ROUNDS: usize = 24;

fn weight(account: usize) -> usize {
    1 + account % 8
}

/// All operations enter in an arbitrary order, and several wait for each commit.
async fn enter_all(store: &Store) {
    let mut entering = tokio::task::JoinSet::new();
    for number in 0..OPERATIONS {
        for account in 0..ACCOUNTS {
            let new = waiting(&format!("op_{account}_{number}"), &format!("acct_{account}"));
            let new = NewWaiting { cost: 100, weight: weight(account) as i64, counted_max: 1000, ..new };
            let store = store.clone();
            entering.spawn(async move { store.submit(in_line(new)).await });
        }
        // no unit waits so long for its commit that it is withdrawn, also on a busy machine
        while entering.len() > 128 {
            entering.join_next().await.unwrap().unwrap().unwrap();
        }
    }
    entering.join_all().await.into_iter().for_each(|entered| entered.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_operations_of_fifty_accounts_are_released_in_proportion_to_weights() {
    let Some((_folder, store)) = new_store(Kind::Postgres).await else { return };
    let begun = Instant::now();
    enter_all(&store).await;
    let entered = begun.elapsed();
    let wanted = ROUNDS * (0..ACCOUNTS).map(weight).sum::<usize>();
    let (mut shares, mut released) = ([0; ACCOUNTS], 0);
    while released < wanted {
        let most = (wanted - released) as i64;
        let mut ending = tokio::task::JoinSet::new();
        for one in store.release_waiting(ROOM, most, 1_000_000_000).await.unwrap() {
            shares[one.account_id["acct_".len()..].parse::<usize>().unwrap()] += 1;
            released += 1;
            let store = store.clone();
            let end = left_by(&one.op_id, OperationStatus::Completed, LineEnd::Released(one.epoch));
            ending.spawn(async move { store.submit(end).await });
        }
        ending.join_all().await.into_iter().for_each(|ended| ended.unwrap());
    }
    let deviation = |account: usize| (shares[account] as f64 / (ROUNDS * weight(account)) as f64 - 1.0).abs();
    let largest = (0..ACCOUNTS).map(deviation).fold(0.0, f64::max);
    println!(
        "{} operations entered in {entered:.1?}; {released} released and ended after {:.1?}; largest deviation of a share {:.2} %",
        ACCOUNTS * OPERATIONS,
        begun.elapsed(),
        100.0 * largest
    );
    // all accounts had operations that waited until the end
    assert!(shares.iter().all(|share| *share < OPERATIONS), "{shares:?}");
    assert!(largest <= 0.05, "{largest}: {shares:?}");
}
