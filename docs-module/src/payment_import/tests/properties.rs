//! Properties that hold for every JSON value.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::payment_import::{Announced, Provider, Sale, announced, draft_of_return, read, read_all};
use crate::tax::consumption::Rate;

/// Names of members that the readers look up, so that random objects reach them.
const MEMBERS: [&str; 48] = [
    "id",
    "object",
    "status",
    "payment_status",
    "paid",
    "captured",
    "currency",
    "amount",
    "amount_total",
    "amount_captured",
    "amount_received",
    "amount_refunded",
    "total",
    "lines",
    "line_items",
    "data",
    "has_more",
    "total_count",
    "taxes",
    "tax_amounts",
    "total_taxes",
    "taxable_amount",
    "tax_behavior",
    "inclusive",
    "tax_rate",
    "tax_rates",
    "percentage",
    "rate",
    "quantity",
    "description",
    "discount_amounts",
    "metadata",
    "custom_fields",
    "key",
    "label",
    "custom",
    "value",
    "payment_intent",
    "latest_charge",
    "charge",
    "invoice",
    "payments",
    "payment",
    "shipping_cost",
    "created",
    "type",
    "original_date",
    "refunds",
];
const TEXTS: [&str; 18] = [
    "payment_intent",
    "charge",
    "checkout.session",
    "invoice",
    "refund",
    "credit_note",
    "succeeded",
    "paid",
    "issued",
    "jpy",
    "exclusive",
    "8",
    "10%",
    "2025-09-30",
    "宛名",
    "in_1",
    "ch_1",
    "",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![Just(i64::MIN), Just(i64::MAX), -2_000i64..20_000, any::<i64>()].prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        proptest::sample::select(&TEXTS[..]).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 80, 8, |inner| {
        let member = (proptest::sample::select(&MEMBERS[..]), inner.clone());
        prop_oneof![
            proptest::collection::vec(inner, 0..5).prop_map(Value::from),
            proptest::collection::vec(member, 0..8)
                .prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

/// Objects that are read to the end more often than random ones.
fn object() -> impl Strategy<Value = Value> {
    (proptest::sample::select(&TEXTS[..6]), value(), 0i64..100_000, value()).prop_map(
        |(kind, changes, amount, lines)| {
            let status = if kind == "credit_note" {
                "issued"
            } else if kind == "invoice" {
                "paid"
            } else {
                "succeeded"
            };
            let mut object = json!({"object": kind, "status": status, "payment_status": "paid", "paid": true,
            "captured": true, "currency": "jpy",
            "amount": amount, "amount_total": amount, "total": amount, "id": "x_1", "lines": lines,
                "line_items": lines});
            if let Value::Object(changes) = changes {
                object.as_object_mut().unwrap().extend(changes);
            }
            object
        },
    )
}

fn check(value: &Value) -> Result<(), TestCaseError> {
    for provider in [Provider::Stripe, Provider::Payjp, Provider::Generic] {
        if let Ok(payment) = read(provider, value, Rate::Reduced) {
            let sum: rust_decimal::Decimal = payment.lines.iter().map(|line| line.unit_price * line.quantity).sum();
            prop_assert_eq!(sum, payment.total.into());
            prop_assert_eq!(payment.gross - payment.refunded, payment.total);
            prop_assert!(payment.refunded >= 0 && payment.warnings.iter().all(|text| text.is_ascii()));
            let whole = payment.clone().without_refunds();
            let sum: rust_decimal::Decimal = whole.lines.iter().map(|line| line.unit_price * line.quantity).sum();
            prop_assert_eq!(sum, payment.gross.into());
        }
        for event in ["charge.refunded", "refund.created"] {
            if let Ok(Announced::Return(returned)) = announced(provider, event, value, Rate::Standard) {
                prop_assert!(returned.amount >= 0);
                let _ = draft_of_return(&returned, returned.amount, None, super::returned::order());
            }
        }
        let _ = read_all(provider, [value, value], Rate::Standard);
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_json_is_read_or_refused(value in value()) {
        check(&value)?;
    }

    #[test]
    fn lines_of_an_object_add_up_to_its_total(object in object()) {
        check(&object)?;
    }

    #[test]
    fn a_return_is_split_exactly(
        lines in proptest::collection::vec((-1_000i64..100_000, any::<bool>()), 1..8),
        part in 1i64..1_000_000,
    ) {
        let total: i64 = lines.iter().map(|(amount, _)| amount).sum();
        prop_assume!(total > 0);
        let amount = part.min(total);
        let lines: Vec<Value> = lines.iter().map(|(amount, is_reduced)| {
            json!({"description": "x", "amount": amount,
                "metadata": {"tax_rate": if *is_reduced { "8" } else { "10" }}})
        }).collect();
        let sale = read(Provider::Stripe, &json!({"id": "in_1", "object": "invoice", "status": "paid",
            "currency": "jpy", "total": total,
            "created": 1_764_547_200, "lines": {"data": lines}}), Rate::Standard).unwrap();
        let sale = Sale::of_payment(&sale);
        prop_assert_eq!(Sale::read(&sale.to_bytes()), Some(sale.clone()));
        let refund = json!({"id": "re_1", "object": "refund", "status": "succeeded", "currency": "jpy",
            "amount": part});
        let Ok(Announced::Return(refund)) = announced(Provider::Stripe, "", &refund,
            Rate::Standard) else { panic!() };
        let draft = draft_of_return(&refund, amount, Some(&sale), super::returned::order()).unwrap();
        let document = draft.complete().unwrap();
        prop_assert_eq!(document.totals.total.gross, -amount);
        // nothing is returned at a rate at which nothing was sold
        for rate in document.totals.by_rate.keys() {
            prop_assert!(sale.lines.iter().any(|line| line.rate == *rate));
        }
    }

    #[test]
    fn other_bytes_are_no_sale(bytes in proptest::collection::vec(any::<u8>(), 0..60), value in value()) {
        prop_assert_eq!(Sale::read(&bytes), None);
        prop_assert_eq!(Sale::read(value.to_string().as_bytes()), None);
    }
}
