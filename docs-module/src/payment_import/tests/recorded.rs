//! Objects that several versions of Stripe's interface wrote. `../fixtures/README.md` names their sources.

use serde_json::Value;

use super::{names, row, shown, stripe};
use crate::payment_import::{Announced, Fullness, Provider, announced};
use crate::tax::consumption::Rate;

macro_rules! recorded {
    ($name:literal) => {
        serde_json::from_str::<Value>(include_str!(concat!("../fixtures/", $name, ".json"))).unwrap()
    };
}

#[test]
fn a1_a3_recorded_objects_name_all_others_of_their_sale() {
    for (object, fullness, is_final, ids, invoice) in [
        (recorded!("openapi-2018-charge"), Fullness::Charge, false, "ch_1CPfJXF5yC65fO414nRpaepi", None),
        (
            recorded!("openapi-2018-invoice"),
            Fullness::Invoice,
            true,
            "in_1CPfJYF5yC65fO41BRDG97XG",
            Some("in_1CPfJYF5yC65fO41BRDG97XG"),
        ),
        (recorded!("openapi-2026-charge"), Fullness::Charge, false, "ch_1PgafuB7WZ01zgkWXYmPNZs8", None),
        (recorded!("openapi-2026-intent"), Fullness::Intent, false, "pi_1PgafyB7WZ01zgkWSjxsAJo3", None),
        (
            recorded!("openapi-2026-invoice"),
            Fullness::Invoice,
            true,
            "in_1Pgc6tB7WZ01zgkWu9fdqL6I",
            Some("in_1Pgc6tB7WZ01zgkWu9fdqL6I"),
        ),
        (
            recorded!("openapi-2026-session"),
            Fullness::Session,
            true,
            "cs_test_a1YS1URlnyQCN5fUUduORoQ7Pw41PJqDWkIVQCpJPqkfIhd6tVY8XB1OLY pi_1PgafyB7WZ01zgkWSjxsAJo3",
            None,
        ),
        (
            recorded!("pay-2019-08-intent"),
            Fullness::Intent,
            false,
            "ch_1GRmCPKXBGcbgpbZHWlXPA0B pi_1GRmCPKXBGcbgpbZYaw3I1Gb",
            None,
        ),
        (
            recorded!("pay-2019-08-invoice"),
            Fullness::Invoice,
            true,
            "ch_1GRmCXKXBGcbgpbZUX0rJnTA in_1GRmCWKXBGcbgpbZF572Nnjp pi_1GRmCXKXBGcbgpbZxE9JLirJ",
            Some("in_1GRmCWKXBGcbgpbZF572Nnjp"),
        ),
        (
            recorded!("pay-2022-11-charge"),
            Fullness::Charge,
            false,
            "ch_3MzOllKXBGcbgpbZ0vMv070M in_1MzOlkKXBGcbgpbZ5XarMvXj pi_3MzOllKXBGcbgpbZ0xrPEoZl",
            Some("in_1MzOlkKXBGcbgpbZ5XarMvXj"),
        ),
        (
            recorded!("pay-2022-11-intent"),
            Fullness::Intent,
            false,
            "ch_3MzOllKXBGcbgpbZ0vMv070M in_1MzOlkKXBGcbgpbZ5XarMvXj pi_3MzOllKXBGcbgpbZ0xrPEoZl",
            Some("in_1MzOlkKXBGcbgpbZ5XarMvXj"),
        ),
        // a subscription has an invoice that this session does not name
        (
            recorded!("pay-2022-session"),
            Fullness::Session,
            false,
            "cs_test_a1UejXx8ebIdTzFolicVypUAZpOBVkoQKDbaarXoPlPVtj8p0zujPEEhjT",
            None,
        ),
        (
            recorded!("pay-2024-06-invoice"),
            Fullness::Invoice,
            true,
            "ch_3PmI3FKXBGcbgpbZ1iX1Zyv1 in_1PmI3FKXBGcbgpbZHSUvUnwY pi_3PmI3FKXBGcbgpbZ12ftx4iO",
            Some("in_1PmI3FKXBGcbgpbZHSUvUnwY"),
        ),
        (
            recorded!("pay-2025-04-invoice"),
            Fullness::Invoice,
            true,
            "ch_3RFFrjKXBGcbgpbZ0g57Qovb in_1RFFohKXBGcbgpbZk9MxzDMc pi_3RFFrjKXBGcbgpbZ0mAQxeI1",
            Some("in_1RFFohKXBGcbgpbZk9MxzDMc"),
        ),
        (
            recorded!("pay-2025-10-charge"),
            Fullness::Charge,
            false,
            "ch_3SRzrhKXBGcbgpbZ0NDmTNHq pi_3SRzrhKXBGcbgpbZ09nWsmS6",
            None,
        ),
        (
            recorded!("pay-2025-10-invoice"),
            Fullness::Invoice,
            true,
            "in_1SRzrfKXBGcbgpbZqIe4IGKO",
            Some("in_1SRzrfKXBGcbgpbZqIe4IGKO"),
        ),
        (
            recorded!("dj-2020-charge"),
            Fullness::Charge,
            false,
            "ch_fakefakefakefakefake0001 in_fakefakefakefakefake0001 pi_fakefakefakefakefake0001",
            Some("in_fakefakefakefakefake0001"),
        ),
        (
            recorded!("dj-2020-intent"),
            Fullness::Intent,
            false,
            "ch_fakefakefakefakefake0001 pi_1FG742B7kbjcJ8QqGKF6qIM0",
            None,
        ),
        (recorded!("shape-2020-08-intent"), Fullness::Intent, false, "ch_1 in_1 pi_1", Some("in_1")),
        (recorded!("shape-2024-09-intent"), Fullness::Intent, false, "ch_1 in_1 pi_1", Some("in_1")),
        (recorded!("shape-2025-04-intent"), Fullness::Intent, false, "ch_1 in_1 pi_1", Some("in_1")),
    ] {
        let payment = stripe(object).unwrap();
        assert_eq!(names(&payment.ids), ids);
        let found = (payment.fullness, payment.is_final, payment.invoice_id.as_deref());
        assert_eq!(found, (fullness, is_final, invoice), "{ids}");
        assert_eq!(payment.date.is_some(), payment.paid_at.is_some(), "{ids}");
    }
}

#[test]
fn b2_b3_recorded_objects_have_the_lines_and_the_total_that_they_state() {
    for (object, lines, warnings) in [
        (recorded!("openapi-2018-invoice"), vec![row("1 × Gold Special (at $20.00 / month)", 2_000, 10)], 0),
        (recorded!("openapi-2026-charge"), vec![row("My First Test Charge (created for API docs)", 100, 10)], 0),
        (recorded!("openapi-2026-intent"), vec![row("お支払い", 1_099, 10)], 0),
        // the invoice says that nothing was paid
        (recorded!("openapi-2026-invoice"), vec![row("My First Invoice Item (created for API docs)", 1_000, 10)], 1),
        (recorded!("pay-2019-08-invoice"), vec![row("One-time setup fee", 1_000, 10)], 0),
        (recorded!("pay-2022-11-charge"), vec![row("Subscription update", 22_500, 10)], 0),
        // `taxes` and `tax_amounts` say the same tax, which was 7.95 percent
        (recorded!("pay-2025-04-invoice"), vec![row("T-Shirt × 6", 16_905, 10), row("T-Shirt × 3", 7_607, 10)], 2),
        // less a discount of the half
        (recorded!("pay-2025-10-invoice"), vec![row("お支払い", 950, 10)], 0),
        (recorded!("dj-2020-intent"), vec![row("Online payment for FOO", 190_200, 10)], 0),
        (recorded!("shape-2020-08-intent"), vec![row("お支払い", 4_800, 10), row("返金", -800, 10)], 0),
    ] {
        let payment = stripe(object).unwrap();
        assert_eq!((shown(&payment), payment.warnings.len()), (lines, warnings), "{:?}", payment.warnings);
        assert_eq!(payment.unexplained, 0);
        assert_eq!(payment.total, shown(&payment).iter().map(|(_, amount, _)| amount).sum::<i64>());
    }
}

#[test]
fn b3_a_recorded_percentage_other_than_8_and_10_is_refused() {
    let refused = |object: Value| stripe(object).unwrap_err().message;
    assert_eq!(refused(recorded!("openapi-2026-credit-note")), "should be a rate of 8 or 10 percent");
    let mut invoice = recorded!("dj-2020-invoice");
    assert_eq!(refused(invoice.clone()), "should be a rate of 8 or 10 percent");
    // the id of the line's tax names the rate
    invoice["default_tax_rates"][0]["percentage"] = 8.into();
    let payment = stripe(invoice).unwrap();
    assert_eq!((payment.total, payment.lines[0].rate), (2_000, Rate::Reduced));
}

#[test]
fn a7_recorded_refunds_name_their_sale() {
    let read = |event: &str, object: Value| match announced(Provider::Stripe, event, &object, Rate::Standard).unwrap() {
        Announced::Return(returned) => returned,
        Announced::Sale(payment) => panic!("{payment:?}"),
    };
    let refund = read("refund.created", recorded!("pay-2025-10-refund"));
    assert_eq!((names(&refund.ids).as_str(), refund.amount), ("re_3SRzqkKXBGcbgpbZ1xXQfncF", 500));
    assert_eq!(names(&refund.sale_ids), "ch_3SRzqkKXBGcbgpbZ17eTrqrl pi_3SRzqkKXBGcbgpbZ1P6QNbvc");
    assert_eq!((refund.is_cumulative, refund.original_date), (false, None));
    assert_eq!(
        names(&read("refund.updated", recorded!("openapi-2026-refund")).sale_ids),
        "ch_1PgafuB7WZ01zgkWXYmPNZs8"
    );

    let charge = read("charge.refunded", recorded!("pay-2022-charge-refunded"));
    assert_eq!((charge.amount, charge.is_cumulative, charge.ids.len()), (500, true, 0));
    assert_eq!(names(&charge.sale_ids), "ch_chargeid pm_1234");
    assert_eq!(names(&charge.covers), "re_3LQOJoKXBGcbgpbZ10i9Mg75");
    assert_eq!(
        (charge.original_date.as_deref(), charge.date.unwrap().to_string().as_str()),
        (Some("2012年10月29日"), "2022-07-28")
    );
}
