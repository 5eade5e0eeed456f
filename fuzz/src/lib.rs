//! The parts that the fuzz targets share.

use docs_module::document::{Draft, Issuer, Kind, Line, Theme};
use docs_module::registration::RegistrationNumber;
use docs_module::rounding::Rounding;
use docs_module::tax::consumption::Basis;
use kernels::container::{CHECKSUM_BYTES, HEADER_BYTES};
use sha2::{Digest, Sha256};

/// Returns the bytes as a container with the right length and checksum, so that the fuzzer reaches the code behind the
/// checks of both fields. `None` if the bytes are shorter than a header.
pub fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    let payload = bytes.len().checked_sub(HEADER_BYTES)? as u64;
    bytes[16..24].copy_from_slice(&payload.to_le_bytes());
    let mut hash = Sha256::new();
    hash.update(&bytes[..HEADER_BYTES - CHECKSUM_BYTES]);
    hash.update(&bytes[HEADER_BYTES..]);
    bytes[HEADER_BYTES - CHECKSUM_BYTES..HEADER_BYTES].copy_from_slice(&hash.finalize()[..CHECKSUM_BYTES]);
    Some(bytes)
}

/// Makes a document of these lines, with `text` in every text field, and writes the document in each form. Lines or a
/// text that make no document must be refused with at least one problem.
pub fn document(lines: Vec<Line>, text: &str) {
    let draft = Draft {
        kind: Kind::Invoice,
        number: "1".to_owned(),
        issue_date: time::macros::date!(2025 - 11 - 30),
        due_date: None,
        issuer: Issuer {
            name: "x".to_owned(),
            registration_number: RegistrationNumber::read("T7000012050002").expect("a number"),
            address: text.to_owned(),
            tel: text.to_owned(),
        },
        recipient: text.to_owned(),
        recipient_number: None,
        honorific: text.to_owned(),
        lines,
        basis: Basis::Inclusive,
        rounding: Rounding::Round,
        withholding: None,
        period: text.to_owned(),
        payment_method: text.to_owned(),
        original_date: text.to_owned(),
        original_number: text.to_owned(),
        proviso: text.to_owned(),
        bank: None,
        transfer_fee_note: text.to_owned(),
        consignor: None,
        notes: text.to_owned(),
        theme: Theme { footer: text.to_owned(), ..Theme::default() },
    };
    match draft.complete() {
        Err(problems) => assert!(!problems.is_empty()),
        Ok(document) => {
            assert!(document.pdf().starts_with(b"%PDF-1.7"));
            assert!(document.html().ends_with("</html>\n"));
            // without a number of the recipient, JP PINT has no valid form
            assert!(document.xml().is_err());
        }
    }
}
