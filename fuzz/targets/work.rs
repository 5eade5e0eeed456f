//! Any bytes as work for a worker. Work that is read is written and read again as the same work.
#![no_main]

use control::work::{read_work, write_work};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(work) = read_work(bytes) else { return };
    let again = read_work(&write_work(&work)).expect("work that was read is work");
    assert!(again.id == work.id && again.key == work.key && again.weight == work.weight);
    assert!(again.question.operands() == work.question.operands());
});
