//! How long the audit of a ledger takes, in which each transfer has its usage row.
//!
//! `cargo bench --workspace --bench audit [-- TRANSFERS]`: on a new SQLite file and on a new database of a PostgreSQL
//! server, with this many transfers (10,000 if no number is given).

use std::time::Instant;

use store::Store;
use tests_store::{FILLED, Kind, fill_ledger};

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let transfers = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(10_000);
    println!("| database | transfers | first audit s | second audit s |");
    println!("|---|---|---|---|");
    for kind in [Kind::Sqlite, Kind::Postgres] {
        runtime.block_on(async {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let Some(url) = kind.new_url(folder.path()) else { return };
            fill_ledger(&url, transfers).await;
            let store = Store::open(&url).await.expect("a database");
            let mut took = Vec::new();
            for _ in 0..2 {
                let begun = Instant::now();
                let report = store.audit_ledger(FILLED).await.expect("an audit");
                took.push(begun.elapsed().as_secs_f64());
                assert_eq!((report.transfers, report.findings), (transfers, vec![]));
            }
            println!("| {kind:?} | {transfers} | {:.1} | {:.1} |", took[0], took[1]);
        });
    }
}
