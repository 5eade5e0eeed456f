//! How many pairs a second the ledger takes; a pair reserves a transfer and then posts it. The bench measures both
//! databases, with few and with many existing transfers, for many accounts and for one. Each answer is durable. Each
//! caller waits for its answer before its next pair, like a request of a node.
//!
//! `cargo bench --workspace --bench ledger [-- ROWS [URL]]`: ROWS transfers exist before the last rows of the table.
//! The databases are new, or the one at this URL, which is kept.

use std::time::{Duration, Instant};

use benches::only_once;
use store::{NewReservation, Posting, Reserved, Store, Unit, Wanted};
use tests_store::{Kind, new_store};
use tokio::task::JoinSet;

/// The number of concurrent callers.
const CALLERS: usize = 512;
/// The moment of all transfers: 2026-11-01, in microseconds since 1970.
const MOMENT: i64 = 1_793_491_200_000_000;
/// Duration of a measurement.
const MEASURED: Duration = Duration::from_secs(10);

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let rows = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(0);
    let url = std::env::args().find(|word| word.starts_with("sqlite:") || word.starts_with("postgres:"));
    println!("| database | transfers before | accounts | pairs a second | slowest pair ms |");
    println!("|---|---|---|---|---|");
    if let Some(url) = url {
        return runtime.block_on(async {
            let store = Store::open(&url).await.expect("a database");
            rows_of(&store, "as given", rows).await;
        });
    }
    for kind in [Kind::Sqlite, Kind::Postgres] {
        runtime.block_on(async {
            let Some((_folder, store)) = new_store(kind).await else { return };
            for before in if rows > 0 { vec![0, rows] } else { vec![0] } {
                rows_of(&store, &format!("{kind:?}"), before).await;
            }
            // no work was done for these transfers, so they have no usage rows
            let found = store.audit_ledger(MOMENT).await.expect("an audit").findings;
            assert!(found.iter().all(|one| one.what == "a posted transfer has not one usage row"), "{found:?}");
        });
    }
}

/// Prints the rows of the table for a database with `before` existing transfers.
async fn rows_of(store: &Store, name: &str, before: usize) {
    for accounts in [1000, 1] {
        fill(store, before).await;
        let (pairs, slowest) = measure(store, before, accounts).await;
        println!("| {name} | {before} | {accounts} | {pairs:.0} | {:.1} |", slowest.as_secs_f64() * 1e3);
    }
}

/// Measures the number of pairs a second, and the duration of the slowest pair.
async fn measure(store: &Store, before: usize, accounts: usize) -> (f64, Duration) {
    // the ids of transfers must differ from those of an earlier run on the same database
    let run = std::process::id();
    let begun = Instant::now();
    let length = if only_once() { Duration::ZERO } else { MEASURED };
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let store = store.clone();
        callers.spawn(async move {
            let (mut pairs, mut slowest) = (0u32, Duration::ZERO);
            while pairs == 0 || begun.elapsed() < length {
                let name = format!("xfr_{:012}_{run}_{before}_{accounts}_{caller}", begun.elapsed().as_micros());
                let started = Instant::now();
                pair(&store, name, &format!("acct_{}", (caller + 7 * pairs as usize) % accounts)).await;
                slowest = slowest.max(started.elapsed());
                pairs += 1;
            }
            (pairs, slowest)
        });
    }
    let done = callers.join_all().await;
    let took = begun.elapsed().as_secs_f64();
    let pairs: u32 = done.iter().map(|(pairs, _)| pairs).sum();
    (f64::from(pairs) / took, done.iter().map(|(_, slowest)| *slowest).max().unwrap_or_default())
}

/// Reserves and posts the price of a gate.
async fn pair(store: &Store, transfer_id: String, account_id: &str) {
    let reservation = NewReservation {
        transfer_id: transfer_id.clone(),
        account_id: account_id.to_owned(),
        node_id: "node_1".to_owned(),
        month: 24_322,
        usd_milli_jpy: 150_000,
        created_at: MOMENT,
        wanted: Wanted::MilliYen(100),
    };
    assert!(matches!(store.reserve(reservation).await.expect("a database"), Reserved::Made(_)));
    let account_id = account_id.to_owned();
    let posting = Some(Posting { transfer_id, account_id, allowance: None, nano_usd_of_unit: 0, at: MOMENT });
    store.submit(Unit { posting, ..Unit::default() }).await.expect("a database");
}

/// Runs pairs until this many transfers exist.
async fn fill(store: &Store, transfers: usize) {
    let there = store.transfers().await.expect("a database") as usize;
    let missing = transfers.saturating_sub(there);
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let store = store.clone();
        callers.spawn(async move {
            for number in 0..missing / CALLERS {
                let name = format!("xfr_{number:012}_fill_{caller}");
                pair(&store, name, &format!("acct_{}", (caller + 7 * number) % 1000)).await;
                if caller == 0 && number % 2_000 == 1_999 {
                    eprintln!("{} of {missing} transfers", (number + 1) * CALLERS);
                }
            }
        });
    }
    callers.join_all().await;
}
