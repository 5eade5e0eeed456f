//! Any bytes as published registrations, in JSON and in lines.
#![no_main]

use docs_module::limit::Limit;
use docs_module::registration::{Snapshot, check, monitor};
use libfuzzer_sys::fuzz_target;
use time::macros::date;

fuzz_target!(|bytes: &[u8]| {
    let as_of = date!(2025 - 11 - 30);
    let text = String::from_utf8_lossy(bytes);
    check(&text, None, as_of);
    let snapshots = [Snapshot::from_json(&text, Limit::NONE).ok(), Snapshot::from_csv(bytes).ok()];
    for snapshot in snapshots.into_iter().flatten() {
        let watch: Vec<&str> = text.split('"').collect();
        let found = monitor(&watch, Some(&snapshot), as_of, Limit::NONE).unwrap();
        assert_eq!(found.all().count(), watch.len());
    }
});
