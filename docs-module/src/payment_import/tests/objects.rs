//! The facts in objects of a sale: links, amounts, lines, rates, the buyer.

use serde_json::{Value, json};

use super::{intent, names, row, shown, stripe};
use crate::document::{Problem, Step};
use crate::payment_import::{Announced, Fullness, NamedBy, Payment, Provider, announced, read};
use crate::tax::consumption::Rate;

fn with(mut object: Value, changes: Value) -> Value {
    let members = changes.as_object().unwrap().clone();
    object.as_object_mut().unwrap().extend(members);
    object
}

fn charge(changes: Value) -> Value {
    let whole = json!({"id": "ch_1", "object": "charge", "paid": true, "captured": true, "status": "succeeded",
        "currency": "jpy",
        "amount": 8000, "created": 1_764_547_200, "description": "宿泊", "billing_details": {"name": "川太郎"}});
    with(whole, changes)
}

fn session(changes: Value) -> Value {
    let whole = json!({"id": "cs_1", "object": "checkout.session", "mode": "payment", "payment_status": "paid",
        "currency": "jpy",
        "amount_total": 5500, "created": 1_764_547_200, "payment_intent": "pi_1", "invoice": null,
        "customer_details": {"name": "川太郎", "email": "taro@example.org"}});
    with(whole, changes)
}

fn invoice(total: i64, lines: Value, changes: Value) -> Value {
    let whole = json!({"id": "in_1", "object": "invoice", "status": "paid", "currency": "jpy", "total": total,
        "created": 1_764_547_200, "customer_name": "川商店", "customer": "cus_1",
        "status_transitions": {"paid_at": 1_764_550_808}, "lines": {"has_more": false, "data": lines}});
    with(whole, changes)
}

fn taxed(name: &str, amount: i64, tax: i64) -> Value {
    json!({"description": name, "amount": amount, "quantity": 1,
        "taxes": [{"amount": tax, "tax_behavior": "exclusive", "taxable_amount": amount,
            "tax_rate_details": {"tax_rate": "txr_1"}}]})
}

fn first_page(changes: Value) -> Value {
    let lines: Vec<Value> = (1..=10).map(|at| taxed(&format!("品{at}"), 1_000, 100)).collect();
    let mut object = invoice(13_160, json!(lines), changes);
    object["lines"]["has_more"] = json!(true);
    object
}

fn total_taxes() -> Value {
    json!([{"amount": 1000, "tax_behavior": "exclusive", "taxable_amount": 10_000,
        "tax_rate_details": {"tax_rate": "txr_10"}},
        {"amount": 160, "tax_behavior": "exclusive", "taxable_amount": 2_000,
            "tax_rate_details": {"tax_rate": "txr_8"}}])
}

fn refusal(object: Value) -> Problem {
    stripe(object).unwrap_err()
}

#[test]
fn a1_the_invoice_knows_more_than_session_intent_and_charge() {
    use Fullness::{Charge, Intent, Invoice, ItemizedSession, Session};
    let lines = json!({"data": [{"description": "茶", "amount_total": 5500}]});
    let objects = [
        charge(json!({})),
        intent(),
        session(json!({})),
        session(json!({"line_items": lines})),
        invoice(1, json!([]), json!({})),
    ];
    let found = objects.map(|object| stripe(object).unwrap().fullness);
    assert_eq!(found, [Charge, Intent, Session, ItemizedSession, Invoice]);
    assert!(found.is_sorted());
}

#[test]
fn a1_an_object_is_final_if_no_fuller_one_can_come() {
    for (object, is_final) in [
        (charge(json!({})), false),
        (intent(), false),
        (session(json!({})), true),
        (session(json!({"invoice": "in_1"})), false),
        (session(json!({"invoice": {"id": "in_1"}})), false),
        (session(json!({"payment_intent": {"id": "pi_1", "payment_details": {"order_reference": "in_1"}}})), false),
        (session(json!({"mode": "subscription"})), false),
        (invoice(1, json!([]), json!({})), true),
    ] {
        assert_eq!(stripe(object.clone()).unwrap().is_final, is_final, "{object}");
    }
}

#[test]
fn a2_an_invoice_was_paid_when_it_says_so() {
    let times = |changes: Value| {
        let payment = stripe(invoice(1, json!([]), changes)).unwrap();
        (payment.paid_at, payment.date.unwrap().to_string())
    };
    assert_eq!(times(json!({"effective_at": 1})), (Some(1_764_550_808), "2025-12-01".to_owned()));
    let effective = json!({"status_transitions": {"paid_at": null}, "effective_at": 1_767_193_200});
    assert_eq!(times(effective), (Some(1_767_193_200), "2026-01-01".to_owned()));
    assert_eq!(times(json!({"status_transitions": null})).0, Some(1_764_547_200));
}

#[test]
fn a3_every_link_of_old_and_new_versions_is_read() {
    let links = |object: Value| {
        let payment = stripe(object).unwrap();
        (names(&payment.ids), payment.invoice_id.unwrap_or_default())
    };
    let found = |ids: &str, invoice: &str| (ids.to_owned(), invoice.to_owned());
    let old = json!({"payment_intent": "pi_1", "invoice": "in_1"});
    assert_eq!(links(charge(old)), found("ch_1 in_1 pi_1", "in_1"));
    assert_eq!(links(session(json!({"invoice": "in_1"}))), found("cs_1 in_1 pi_1", "in_1"));
    let nested = json!({"payment_intent": {"id": "pi_1", "latest_charge": {"id": "py_1", "invoice": {"id": "in_1",
        "charge": "ch_9"}}}});
    assert_eq!(links(session(nested)), found("ch_9 cs_1 in_1 pi_1 py_1", "in_1"));
    for (reference, invoice) in [("in_1", "in_1"), ("order 7", ""), ("IN_1", ""), ("", "")] {
        let newer = with(
            intent(),
            json!({"latest_charge": "ch_1",
            "payment_details": {"order_reference": reference}}),
        );
        let ids = if invoice.is_empty() { "ch_1 pi_1" } else { "ch_1 in_1 pi_1" };
        assert_eq!(links(newer), found(ids, invoice));
    }
    let parts = json!({"charge": null, "payments": {"data": [
        {"payment": {"type": "payment_intent", "payment_intent": "pi_1"}},
        {"payment": {"type": "charge", "charge": {"id": "ch_2"}}}, {"payment": null}, {}]}});
    assert_eq!(links(invoice(1, json!([]), parts)), found("ch_2 in_1 pi_1", "in_1"));
    let older = json!({"charge": "ch_1", "payment_intent": {"id": "pi_1"}});
    assert_eq!(links(invoice(1, json!([]), older)), found("ch_1 in_1 pi_1", "in_1"));
    assert_eq!(stripe(charge(json!({"customer": {"id": "cus_1"}}))).unwrap().customer, "cus_1");
}

#[test]
fn a4_a_session_that_is_paid_later_is_a_payment() {
    let unpaid = refusal(session(json!({"payment_status": "unpaid"})));
    assert_eq!(unpaid.at, [Step::Field("payment_status")]);
    let paid =
        announced(Provider::Stripe, "checkout.session.async_payment_succeeded", &session(json!({})), Rate::Standard);
    assert!(matches!(paid, Ok(Announced::Sale(Payment { total: 5_500, .. }))));
    let free = session(json!({"payment_status": "no_payment_required", "amount_total": 0}));
    assert_eq!(stripe(free).unwrap().total, 0);
    let unclear = session(json!({"payment_status": "no_payment_required"}));
    assert_eq!(refusal(unclear).at, [Step::Field("payment_status")]);
}

#[test]
fn case_b1_what_a_partial_capture_releases_was_never_paid() {
    for (amount, captured, given_back, gross, refunded) in [
        (8_000, json!(6_500), 1_500, 6_500, 0),
        (8_000, json!(6_500), 2_500, 6_500, 1_000),
        (8_000, json!(6_500), 8_000, 6_500, 6_500),
        (8_000, json!(6_500), 0, 6_500, 0),
        (8_000, json!(8_000), 3_000, 8_000, 3_000),
        (8_000, Value::Null, 3_000, 8_000, 3_000),
        // more may be captured than was authorised
        (8_000, json!(9_000), 1_000, 9_000, 1_000),
    ] {
        let object = json!({"amount": amount, "amount_captured": captured, "amount_refunded": given_back});
        let payment = stripe(charge(object.clone())).unwrap();
        assert_eq!((payment.gross, payment.refunded, payment.total), (gross, refunded, gross - refunded), "{object}");
        assert_eq!(payment.is_refunded, gross == refunded);
        // an intent knows the same when it holds its charge
        let holding = json!({"amount": amount, "amount_received": gross, "latest_charge": charge(object)});
        assert_eq!(stripe(with(intent(), holding)).unwrap().total, gross - refunded);
    }
    let listed =
        json!({"refunds": {"data": [{"amount": 500, "status": "succeeded"}, {"amount": 9, "status": "failed"}]}});
    assert_eq!(stripe(charge(listed)).unwrap().refunded, 500);
    assert_eq!(refusal(charge(json!({"amount_refunded": 8_001}))).message, "more was refunded than was paid");
}

#[test]
fn a_document_whose_refunds_have_their_own_shows_the_sale_only() {
    let payment = stripe(charge(json!({"amount_refunded": 8_000}))).unwrap();
    assert!(payment.is_refunded);
    let sale = payment.without_refunds();
    assert_eq!((shown(&sale), sale.total, sale.is_refunded), (vec![row("宿泊", 8_000, 10)], 8_000, false));
}

#[test]
fn case_b2_a_tax_in_two_shapes_counts_once() {
    let older = |amount: i64, taxable: i64| {
        json!([{"amount": amount, "inclusive": false, "taxable_amount": taxable,
        "tax_rate": "txr_1"}])
    };
    let both = with(taxed("シャツ", 4_000, 400), json!({"tax_amounts": older(400, 4_000)}));
    let only_older = with(taxed("帽子", 1_000, 0), json!({"taxes": [], "tax_amounts": older(80, 1_000)}));
    let lines = json!([both, only_older, taxed("靴", 2_000, 200)]);
    let payment = stripe(invoice(7_680, lines, json!({}))).unwrap();
    assert_eq!(shown(&payment), [row("シャツ", 4_400, 10), row("帽子", 1_080, 8), row("靴", 2_200, 10)]);
    assert_eq!((payment.unexplained, payment.warnings.len()), (0, 0));
    // the same of the sums, and of discounts
    let sums = json!({"total_taxes": total_taxes(), "total_tax_amounts": total_taxes()});
    assert_eq!(stripe(first_page(sums)).unwrap().total, 13_160);
    let discounted = with(
        both,
        json!({"discount_amounts": [{"amount": 500}, {"amount": 0}], "tax_amounts": older(350, 3_500),
        "taxes": [{"amount": 350, "tax_behavior": "exclusive", "taxable_amount": 3500}]}),
    );
    assert_eq!(shown(&stripe(invoice(3_850, json!([discounted]), json!({}))).unwrap()), [row("シャツ", 3_850, 10)]);
}

#[test]
fn case_b3_the_rest_of_a_list_has_the_rates_that_the_sums_say() {
    let payment = stripe(first_page(json!({"total_taxes": total_taxes()}))).unwrap();
    assert_eq!(shown(&payment).len(), 11);
    assert_eq!(shown(&payment)[10], row("そのほかの明細（8%対象）", 2_160, 8));
    assert_eq!((payment.unexplained, payment.warnings.len(), payment.total), (0, 1, 13_160));
    // older versions say the sums in another member
    let older = json!([{"amount": 1000, "inclusive": false, "taxable_amount": 10_000, "tax_rate": {"percentage": 10}},
        {"amount": 160, "inclusive": false, "taxable_amount": 2_000, "tax_rate": {"percentage": 8}}]);
    assert_eq!(shown(&stripe(first_page(json!({"total_tax_amounts": older}))).unwrap()), shown(&payment));
    // a session says its sums when they are expanded
    let lines = json!({"has_more": true, "data": [{"description": "茶", "amount_total": 1080,
        "taxes": [{"rate": {"percentage": 8}}]}]});
    let sums = json!({"breakdown": {"taxes": [{"amount": 80, "taxable_amount": 1000, "rate": {"percentage": 8.0}},
        {"amount": 100, "taxable_amount": 1000, "rate": {"percentage": 10.0}}]}});
    let cut = session(json!({"amount_total": 2180, "line_items": lines, "total_details": sums}));
    assert_eq!(shown(&stripe(cut).unwrap()), [row("茶", 1_080, 8), row("そのほかの明細（10%対象）", 1_100, 10)]);
}

#[test]
fn case_b3_a_list_without_its_rest_is_refused() {
    let mut short = total_taxes();
    short[1]["taxable_amount"] = json!(1_999);
    let mut swapped = total_taxes();
    (swapped[0]["taxable_amount"], swapped[0]["amount"]) = (json!(5_000), json!(500));
    (swapped[1]["taxable_amount"], swapped[1]["amount"]) = (json!(7_092), json!(568));
    for sums in [Value::Null, json!([]), json!([{"amount": 1160}]), short, swapped] {
        let problem = refusal(first_page(json!({"total_taxes": sums})));
        assert_eq!(problem.at, [Step::Field("lines")], "{sums}");
        assert!(problem.message.contains("all lines"));
    }
    let counted = with(first_page(json!({})), json!({"total": 11_000}));
    let counted =
        with(counted, json!({"lines": {"has_more": false, "total_count": 2, "data": [taxed("品", 10_000, 1_000)]}}));
    assert_eq!(refusal(counted).at, [Step::Field("lines")]);
}

#[test]
fn b3_a_rest_that_no_line_explains_gives_a_warning() {
    let payment = stripe(invoice(6_000, json!([taxed("茶", 5_000, 400)]), json!({}))).unwrap();
    assert_eq!(shown(&payment), [row("茶", 5_400, 8), row("調整額（送料・値引きほか）", 600, 10)]);
    let text = "the lines do not add up to the total: a line of 600 yen at 10 percent was added";
    assert_eq!((payment.unexplained, payment.warnings), (600, vec![text.to_owned()]));
    // the main rate comes from metadata
    let eight = invoice(5_000, json!([taxed("茶", 5_000, 400)]), json!({"metadata": {"tax_rate": "8%"}}));
    assert_eq!(shown(&stripe(eight).unwrap())[1], row("調整額（送料・値引きほか）", -400, 8));
    // a discount of the whole invoice has the rates that its sums say
    let sums = json!({"total_taxes": [{"amount": 360, "tax_behavior": "exclusive", "taxable_amount": 4_500,
        "tax_rate_details": {"tax_rate": "x"}}]});
    let discounted = stripe(invoice(4_860, json!([taxed("茶", 5_000, 400)]), sums)).unwrap();
    assert_eq!(shown(&discounted)[1], row("調整額（送料・値引きほか）", -540, 8));
    assert_eq!((discounted.warnings.len(), discounted.unexplained), (1, -540));
    let paid = stripe(invoice(5_400, json!([taxed("茶", 5_000, 400)]), json!({"amount_paid": 400}))).unwrap();
    assert_eq!(paid.warnings, ["the invoice charges 5400 yen, and 400 yen were paid"]);
}

#[test]
fn shipping_is_a_line_with_its_own_rate() {
    let lines = json!({"data": [{"description": "茶", "amount_total": 1080, "amount_tax": 80}]});
    let shipped = |shipping: Value| {
        stripe(session(json!({"amount_total": 1630, "line_items": lines, "shipping_cost": shipping}))).unwrap()
    };
    for shipping in [
        json!({"amount_total": 550, "taxes": [{"amount": 50, "rate": {"percentage": 10.0}}]}),
        json!({"amount_subtotal": 500, "amount_tax": 50, "amount_total": 550}),
    ] {
        let payment = shipped(shipping);
        assert_eq!(shown(&payment), [row("茶", 1_080, 8), row("送料", 550, 10)]);
        assert!(payment.warnings.is_empty());
    }
    assert_eq!(shipped(json!({"amount_total": 550})).warnings.len(), 1);
}

#[test]
fn rates_come_from_every_source_in_order() {
    let rate = |line: Value, changes: Value| {
        let whole = with(json!({"description": "x", "amount": 1000, "amount_total": 1000}), line);
        stripe(invoice(1_000, json!([whole]), changes))
            .map(|payment| (payment.lines[0].rate.percent(), payment.warnings.len()))
    };
    let inclusive = |amount: i64, taxable: Option<i64>| {
        json!({"amount": amount, "inclusive": true,
        "taxable_amount": taxable, "tax_rate": "txr_1"})
    };
    let none = || json!({});
    for (line, changes, found) in [
        (json!({"metadata": {"tax_rate": "8"}, "tax_rates": [{"percentage": 10}]}), none(), (8, 0)),
        (json!({"price": {"product": {"metadata": {"tax_rate": 0.08}}}}), none(), (8, 0)),
        (json!({"plan": {"metadata": {"tax_rate": "８％"}}}), none(), (8, 0)),
        (json!({"tax_rates": [{"percentage": 8.0}], "tax_amounts": [inclusive(91, Some(909))]}), none(), (8, 0)),
        (json!({"tax_amounts": [inclusive(74, Some(926))]}), none(), (8, 0)),
        // versions before 2022 do not state the taxable amount
        (json!({"tax_amounts": [inclusive(74, None)]}), none(), (8, 0)),
        (json!({"tax_amounts": [inclusive(74, Some(926))]}), json!({"metadata": {"tax_rate": "10"}}), (8, 0)),
        (
            json!({"tax_amounts": [inclusive(74, None)]}),
            json!({"default_tax_rates": [{"id": "txr_1", "percentage": 10}]}),
            (10, 0),
        ),
        (none(), json!({"default_tax_rates": [{"id": "txr_1", "percentage": 8}]}), (8, 0)),
        (none(), json!({"metadata": {"tax_rate": "8"}}), (8, 0)),
        (none(), none(), (10, 0)),
        // a national and a local tax
        (
            json!({"taxes": [{"amount": 71, "taxable_amount": 909, "tax_behavior": "inclusive"}, {"amount": 20,
                "taxable_amount": 909,
            "tax_behavior": "inclusive"}]}),
            none(),
            (10, 0),
        ),
        (json!({"tax_amounts": [inclusive(48, Some(952))]}), none(), (10, 1)),
        (json!({"tax_amounts": [inclusive(0, Some(0))]}), none(), (10, 0)),
    ] {
        assert_eq!(rate(line.clone(), changes.clone()), Ok(found), "{line} {changes}");
    }
    for percentage in [json!(0), json!(7.8), json!(20), json!("x")] {
        let told = rate(json!({"tax_rates": [{"percentage": percentage}]}), none());
        assert_eq!(told.unwrap_err().at.last(), Some(&Step::Field("percentage")), "{percentage}");
        assert!(rate(none(), json!({"default_tax_rates": [{"percentage": percentage}]})).is_err());
        assert!(rate(json!({"tax_amounts": [{"amount": 1, "tax_rate": {"percentage": percentage}}]}), none()).is_err());
    }
    assert!(rate(json!({"tax_amounts": [inclusive(0, Some(1000))]}), none()).is_err());
}

/// A tax of 4 yen on 50 yen fits both rates.
#[test]
fn small_lines_have_the_rate_of_larger_ones_with_the_same_tax() {
    let line = |name: &str, amount: i64, tax: i64, id: &str| {
        let mut line = taxed(name, amount, tax);
        line["taxes"][0]["tax_rate_details"]["tax_rate"] = json!(id);
        line
    };
    let lines = json!([line("飴", 50, 4, "txr_8"), line("茶", 1_000, 80, "txr_8"), line("器", 1_000, 100, "txr_10")]);
    let payment = stripe(invoice(2_234, lines, json!({}))).unwrap();
    assert_eq!(shown(&payment), [row("飴", 54, 8), row("茶", 1_080, 8), row("器", 1_100, 10)]);
}

#[test]
fn a_total_without_lines_has_the_rate_of_its_tax() {
    let taxed = |tax: i64, total: i64, changes: Value| {
        let whole = json!({"amount_total": total, "total_details": {"amount_tax": tax}});
        stripe(session(with(whole, changes)))
    };
    assert_eq!(shown(&taxed(80, 1_080, json!({})).unwrap()), [row("お支払い", 1_080, 8)]);
    assert_eq!(shown(&taxed(0, 1_080, json!({})).unwrap()), [row("お支払い", 1_080, 10)]);
    let mixed = taxed(180, 2_180, json!({})).unwrap_err();
    assert_eq!(mixed.at, [Step::Field("line_items")]);
    // the invoice has the lines
    assert_eq!(taxed(180, 2_180, json!({"invoice": "in_1"})).unwrap().warnings.len(), 1);
    assert_eq!(shown(&taxed(180, 2_180, json!({"metadata": {"tax_rate": 8}})).unwrap()), [row("お支払い", 2_180, 8)]);
}

#[test]
fn case_b4_a_field_for_the_recipient_names_it() {
    let text = |key: &str, label: &str, value: Value| {
        json!({"key": key, "label": {"type": "custom",
        "custom": label}, "type": "text", "text": {"value": value}})
    };
    let to = |changes: Value| {
        let payment = stripe(session(changes)).unwrap();
        (payment.recipient, payment.named_by)
    };
    let fields = |field: Value| to(json!({"custom_fields": [text("size", "サイズ", json!("L")), field]}));
    let given = || ("株式会社川".to_owned(), NamedBy::Field);
    let value = || json!("株式会社川");
    for key in ["recipient", "invoice_recipient", "invoicerecipient", "Recipient", "宛名"] {
        assert_eq!(fields(text(key, "お名前", value())), given(), "{key}");
    }
    assert_eq!(fields(text("name1", "領収書の宛名", value())), given());
    let choice = json!({"key": "recipient", "type": "dropdown", "dropdown": {"value": "kawa", "options": [
        {"label": "川太郎", "value": "taro"}, {"label": "株式会社川", "value": "kawa"}]}});
    assert_eq!(fields(choice), given());
    let number = json!({"key": "recipient", "type": "numeric", "numeric": {"value": "12"}});
    assert_eq!(fields(number).0, "12");
    // a field that was left empty, and fields for other things
    for field in [text("recipient", "宛名", Value::Null), text("recipientage", "お名前", value()), json!(7)] {
        assert_eq!(fields(field), ("川太郎".to_owned(), NamedBy::Payer));
    }
    let business = json!({"business_name": "川商会", "name": "川太郎"});
    assert_eq!(to(json!({"customer_details": business})), ("川商会".to_owned(), NamedBy::Business));
    let all = json!({"metadata": {"invoice_recipient": "川合名会社"}, "custom_fields": [text("recipient", "", value())],
        "customer_details": business});
    assert_eq!(to(all), ("川合名会社".to_owned(), NamedBy::Metadata));
    for name in ["宛名", "請求書の宛名", "invoice_recipient"] {
        let object = invoice(
            1,
            json!([]),
            json!({"custom_fields": [{"name": "番号", "value": "7"}, {"name": name, "value": "株式会社川"}]}),
        );
        assert_eq!(stripe(object).unwrap().recipient, "株式会社川", "{name}");
    }
}

#[test]
fn charges_of_payjp_are_final() {
    let whole = json!({"id": "ch_fa990a4c10672a93053a774730b0a", "object": "charge", "amount": 3500,
        "amount_refunded": 0, "paid": true,
        "captured": true, "captured_at": 1_433_127_983, "created": 1_433_127_983, "currency": "jpy",
            "customer": "cus_1", "description": null,
        "refunded": false, "card": {"id": "car_1", "object": "card", "name": "TARO KAWA", "email": "t@example.org",
            "brand": "Visa"}});
    let payjp =
        |event: &str, changes: Value| announced(Provider::Payjp, event, &with(whole.clone(), changes), Rate::Standard);
    let Ok(Announced::Sale(payment)) = payjp("charge.captured", json!({"three_d_secure_status": "attempted"})) else {
        panic!()
    };
    assert_eq!((payment.recipient.as_str(), payment.payment_method.as_deref()), ("TARO KAWA", Some("card")));
    assert_eq!((payment.is_final, payment.total, payment.customer.as_str()), (true, 3_500, "cus_1"));
    let Ok(Announced::Return(part)) = payjp("charge.refunded", json!({"refunded": true, "amount_refunded": 500}))
    else {
        panic!()
    };
    assert_eq!((part.amount, part.is_cumulative, names(&part.sale_ids)), (500, true, payment.id));
    for (changes, member) in [
        (json!({"paid": false}), "paid"),
        (json!({"captured": false}), "captured"),
        (json!({"three_d_secure_status": "unverified"}), "status"),
        (json!({"currency": "usd"}), "currency"),
    ] {
        assert_eq!(payjp("charge.succeeded", changes).unwrap_err().at, [Step::Field(member)]);
    }
}

#[test]
fn an_event_of_another_provider_needs_an_id() {
    let whole = json!({"amount": 1100, "currency": "jpy", "created": 1_764_547_200, "customer_name": "川商店",
        "customer_email": "a@example.org",
        "metadata": {"recipient": "株式会社川", "invoice_number": "A-1"}});
    let problem = announced(Provider::Generic, "", &whole, Rate::Standard).unwrap_err();
    assert_eq!(problem.at, [Step::Field("id")]);
    assert!(read(Provider::Generic, &whole, Rate::Standard).is_ok());
    let named = with(whole, json!({"id": "p_1", "lines": [{"name": "茶", "amount": 1080, "tax_rate": 8}]}));
    let Ok(Announced::Sale(payment)) = announced(Provider::Generic, "", &named, Rate::Standard) else { panic!() };
    assert_eq!((payment.recipient.as_str(), payment.wishes.invoice_number.as_deref()), ("株式会社川", Some("A-1")));
    assert_eq!((payment.is_final, names(&payment.ids).as_str(), payment.warnings.len()), (true, "p_1", 1));
}
