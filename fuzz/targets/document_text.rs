//! Any text as the names and notes of a document.
#![no_main]

use docs_module::document::Line;
use docs_module::reconcile::{NameKind, amount, key};
use docs_module::tax::consumption::Rate;
use libfuzzer_sys::fuzz_target;
use rust_decimal::Decimal;

fuzz_target!(|text: &str| {
    let line = Line { name: text.to_owned(), unit_price: Decimal::ONE, quantity: Decimal::TWO, rate: Rate::Reduced };
    fuzz::document(vec![line], text);
    for kind in NameKind::ALL {
        // NFKC expands a character to at most 18 characters (U+FDFA) of three bytes each
        assert!(key(kind, text).chars().count() <= 18 * text.chars().count());
    }
    amount(text);
});
