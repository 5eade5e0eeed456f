//! Any bytes as a body of the back office: an accepted body gets an answer, and every fault of a refused body has a
//! place and a message.
#![no_main]

use docs_module::limit::Limit;
use docs_module::request::{self, Given, Refused};
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use time::macros::date;

const GIVEN: Given<'static> = Given { number: "20251130-AAAAAAAA", ..Given::on(date!(2025 - 11 - 30)) };

fn checked<T>(read: Result<T, impl Into<Refused>>) -> Option<T> {
    match read.map_err(Into::into) {
        Ok(value) => Some(value),
        Err(Refused::Stopped) => panic!("nothing stops this work"),
        Err(Refused::Faults(faults)) => {
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
    if let Some(text) = checked(request::reconciled(bytes, Limit::NONE)) {
        // records are repeated as written, even with numbers that no `Value` can hold
        assert!(serde_json::from_str::<Box<RawValue>>(&text).is_ok());
    }
    if let Some(order) = checked(request::verification(bytes, Limit::NONE)) {
        assert_eq!(order.checked(GIVEN.today, Limit::NONE).unwrap().len(), order.numbers.len());
    }
    if let Some(order) = checked(request::watch(bytes, Limit::NONE)) {
        let found = order.found(GIVEN.today, Limit::NONE).unwrap();
        assert_eq!(found.all().count(), order.numbers.len());
    }
    checked(request::key_order(bytes));
    assert!(checked(request::cap(bytes)).is_none_or(|cap| cap >= 0));
    checked(request::profile(bytes, &GIVEN));
});
