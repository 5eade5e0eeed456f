//! Any bytes as a body of the back office: an accepted body gets an answer, and every fault of a refused body has a
//! place and a message.
#![no_main]

use docs_module::request::{self, Fault, Given};
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use time::macros::date;

const GIVEN: Given<'static> = Given { today: date!(2025 - 11 - 30), number: "20251130-AAAAAAAA", original_number: "" };

fn checked<T>(read: Result<T, Vec<Fault>>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(faults) => {
            assert!(!faults.is_empty() && faults.len() <= 1_000);
            assert!(faults.iter().all(|fault| !fault.loc.is_empty() && !fault.msg.is_empty()));
            None
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    for read in [request::document, request::document_of_payment, request::document_of_payments] {
        if let Some(document) = checked(read(bytes, &GIVEN)) {
            assert!(document.html().contains("<html"));
        }
    }
    for read in [request::records, request::records_of_transfers] {
        if let Some(order) = checked(read(bytes, &GIVEN)) {
            let _ = order.yearly.json();
            let _ = order.yearly.csv();
            let _ = checked(order.etax());
        }
    }
    if let Some(text) = checked(request::reconciled(bytes)) {
        // records are repeated as written, even with numbers that no `Value` can hold
        assert!(serde_json::from_str::<Box<RawValue>>(&text).is_ok());
    }
    if let Some(order) = checked(request::verification(bytes)) {
        assert_eq!(order.checked(GIVEN.today).len(), order.numbers.len());
    }
    if let Some(order) = checked(request::watch(bytes)) {
        let found = order.found(GIVEN.today);
        assert_eq!(found.alerts.len() + found.ok.len() + found.not_found.len(), order.numbers.len());
    }
    checked(request::key_order(bytes));
    assert!(checked(request::cap(bytes)).is_none_or(|cap| cap >= 0));
    checked(request::profile(bytes, &GIVEN));
});
