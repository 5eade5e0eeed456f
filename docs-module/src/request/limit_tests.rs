//! Work that nobody waits for stops at its next look at the limit.

use std::sync::atomic::{AtomicBool, Ordering};

use rust_decimal::Decimal;
use serde_json::{Value, json};

use super::tests::{GIVEN, bytes};
use super::*;
use crate::limit::Stopped;
use crate::reconcile::{Record, reconcile};
use crate::registration::{Snapshot, monitor};

static OVER: AtomicBool = AtomicBool::new(true);

fn over() -> Limit<'static> {
    Limit::new(&OVER)
}

fn invoice() -> Value {
    json!({"issuer": "株式会社あんご", "registration_number": "T7000012050002", "items": [{"name": "設計", "unit_price": 1000, "tax_rate": 10}]})
}

fn payees() -> Value {
    json!({"year": 2025, "payees": [{"name": "山田", "payments": [{"amount": 100_000}]}]})
}

#[test]
fn a1_a_limit_is_over_once_its_flag_is_set() {
    let flag = AtomicBool::new(false);
    let limit = Limit::new(&flag);
    assert_eq!((limit.check(), Limit::NONE.check()), (Ok(()), Ok(())));
    flag.store(true, Ordering::Relaxed);
    assert_eq!((limit.check(), Limit::NONE.check()), (Err(Stopped), Ok(())));
}

#[test]
fn a1_no_body_is_read_beyond_the_limit() {
    let given = Given { limit: over(), ..GIVEN };
    let payment = json!({"issuer": "株式会社あんご", "registration_number": "T7000012050002", "payment_object": {}});
    for stopped in [
        document(&bytes(&invoice()), &given).err(),
        document_of_payment(&bytes(&payment), &given).err(),
        document_of_payments(&bytes(&payment), &given).err(),
        records(&bytes(&payees()), &given).err(),
        records_of_transfers(&bytes(&json!({"transfers": []})), &given).err(),
        reconciled(&bytes(&json!({"left": [], "right": [], "left_key": "n"})), over()).err(),
        verification(&bytes(&json!({"numbers": []})), over()).err(),
        watch(&bytes(&json!({"watch": []})), over()).err(),
    ] {
        assert_eq!(stopped, Some(Refused::Stopped));
    }
    // a fault that was found before the end of the time is told
    assert!(matches!(document(b"{", &given).err(), Some(Refused::Faults(faults)) if faults.len() == 1));
}

#[test]
fn a1_a_body_whose_time_ends_in_the_middle_has_no_answer() {
    let flag = AtomicBool::new(false);
    let read = field::body_within(&bytes(&json!({"list": [{}, {}, {}]})), Limit::new(&flag), |object| {
        let list = object.required("list")?.list(3)?;
        let mut read = 0;
        for field in &list {
            read += usize::from(field.object().is_some());
            flag.store(true, Ordering::Relaxed);
        }
        assert_eq!(read, 1);
        Some(read)
    });
    assert_eq!(read, Err(Refused::Stopped));
}

#[test]
fn a1_each_long_loop_stops() {
    let record = Record { key: "a".to_owned(), amount: None };
    let side = [record];
    assert_eq!(reconcile(&side, &side, Decimal::ZERO, over()), Err(Stopped));
    assert_eq!(monitor(&["T7000012050002"], None, GIVEN.today, over()), Err(Stopped));
    let order = verification(&bytes(&json!({"numbers": ["T7000012050002"]})), Limit::NONE).unwrap();
    assert_eq!(order.checked(GIVEN.today, over()), Err(Stopped));
    let record = json!({"registratedNumber": "T7000012050002", "registrationDate": "2023-10-01"});
    let map = json!({"T7000012050002": {"registrationDate": "2023-10-01"}});
    for records in [json!([record]), json!({"announcement": [record]}), map] {
        assert!(Snapshot::from_json(&records.to_string(), Limit::NONE).is_ok());
        assert!(Snapshot::from_json(&records.to_string(), over()).unwrap_err().to_string().contains("stopped"));
    }
    let document = document(&bytes(&invoice()), &GIVEN).unwrap();
    assert_eq!(document.pdf_within(over()), Err(Stopped));
    let order = records(&bytes(&payees()), &GIVEN).unwrap();
    assert_eq!(order.yearly.pdf(order.theme.colour, GIVEN.today, over()), Err(Stopped));
}
