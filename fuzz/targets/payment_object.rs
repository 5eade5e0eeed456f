//! Any JSON as a payment object, a return, a stored sale or a transfer: the lines of an accepted object add up to its
//! total, and the object becomes a document or is refused.
#![no_main]

use std::collections::BTreeMap;

use docs_module::payment_import::{Announced, Provider, Sale, announced, first_repeated, lines_of_all, read};
use docs_module::payment_record::transfers;
use docs_module::tax::consumption::Rate;
use docs_module::tax::withholding::Remuneration;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(bytes) else { return };
    assert!(Sale::read(bytes).is_none_or(|sale| Sale::read(&sale.to_bytes()) == Some(sale)));
    for provider in [Provider::Stripe, Provider::Payjp, Provider::Generic] {
        if let Ok(Announced::Return(returned)) = announced(provider, "charge.refunded", &value, Rate::Standard) {
            assert!(returned.amount >= 0);
        }
        let Ok(payment) = read(provider, &value, Rate::Reduced) else { continue };
        let amounts = payment.lines.iter().map(|line| line.unit_price * line.quantity);
        assert_eq!(amounts.sum::<rust_decimal::Decimal>(), payment.total.into());
        assert_eq!(lines_of_all(&[payment.clone(), payment.clone()]).len(), 2 * payment.lines.len());
        assert_eq!(first_repeated(&[payment.clone(), payment.clone()]).is_none(), payment.ids.is_empty());
        fuzz::document(payment.lines, &payment.recipient);
    }
    let declaration = transfers::Declaration { is_net: bytes.len().is_multiple_of(2), ..Default::default() };
    let declarations = BTreeMap::from([("acct_1".to_owned(), declaration)]);
    if let Ok(found) = transfers::read(&[value], &declarations, &Remuneration::default(), 2025) {
        assert_eq!(found.payments.len() + found.skipped.len(), 1);
        assert!(found.payments.iter().all(|payment| payment.amount >= 0 && payment.consumption_tax >= 0));
    }
});
