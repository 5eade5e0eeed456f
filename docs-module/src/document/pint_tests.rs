//! Checks documents in UBL against the rules of JP PINT, with a reader that is independent of the writer.

use std::collections::BTreeMap;

use quick_xml::events::Event;
use quick_xml::reader::Reader;
use rust_decimal::Decimal;

use super::tests::{draft, line, of_kind};
use super::*;

/// Reads the texts of a file, in the order of the file, by the path of their elements. The name of an attribute stands
/// after `@`.
fn texts(xml: &str) -> BTreeMap<String, Vec<String>> {
    let mut reader = Reader::from_str(xml);
    let (mut path, mut texts): (Vec<String>, BTreeMap<String, Vec<String>>) = Default::default();
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => {
                path.push(String::from_utf8(start.local_name().as_ref().to_vec()).unwrap());
                for attribute in start.attributes() {
                    let attribute = attribute.unwrap();
                    let key =
                        format!("{}@{}", path.join("/"), String::from_utf8(attribute.key.as_ref().to_vec()).unwrap());
                    texts.entry(key).or_default().push(String::from_utf8(attribute.value.to_vec()).unwrap());
                }
            }
            Event::Text(text) => texts.entry(path.join("/")).or_default().push(text.decode().unwrap().into_owned()),
            Event::End(_) => drop(path.pop()),
            Event::Eof => return texts,
            _ => {}
        }
    }
}

struct Read(BTreeMap<String, Vec<String>>);

impl Read {
    fn all(&self, path: &str) -> &[String] {
        self.0.get(path).map(Vec::as_slice).unwrap_or_default()
    }

    fn one(&self, path: &str) -> &str {
        let [one] = self.all(path) else { panic!("{path}: {:?}", self.all(path)) };
        one
    }

    fn amounts(&self, path: &str) -> Vec<Decimal> {
        self.all(path).iter().map(|text| text.parse().unwrap()).collect()
    }

    fn amount(&self, path: &str) -> Decimal {
        self.one(path).parse().unwrap()
    }
}

/// Checks the rules that hold for each document, and returns the texts that were read.
fn check(document: &Document) -> Read {
    let xml = document.xml().unwrap();
    let read = Read(texts(&xml));
    let root = if document.draft.kind == Kind::CreditNote { "CreditNote" } else { "Invoice" };
    let at = |path: &str| format!("{root}/{path}");
    assert_eq!(read.one(&at("CustomizationID")), "urn:peppol:pint:billing-1@jp-1");
    assert_eq!(read.one(&at("ProfileID")), "urn:peppol:bis:billing");
    assert_eq!(read.one(&at("DocumentCurrencyCode")), "JPY");
    // aligned-ibrp-052 requires a period
    assert!(read.one(&at("InvoicePeriod/StartDate")) <= read.one(&at("InvoicePeriod/EndDate")));
    let seller = at("AccountingSupplierParty/Party");
    assert_eq!(read.one(&format!("{seller}/PartyTaxScheme/TaxScheme/ID")), "VAT");
    assert_eq!(
        read.one(&format!("{seller}/PartyTaxScheme/CompanyID")),
        document.draft.issuer.registration_number.to_string()
    );
    assert_eq!(read.one(&format!("{seller}/EndpointID@schemeID")), "0221");
    assert_eq!(read.one(&format!("{seller}/PostalAddress/Country/IdentificationCode")), "JP");
    assert!(!read.one(&format!("{seller}/PartyLegalEntity/RegistrationName")).is_empty());
    // aligned-ibr-jp-06: tax has no decimals; all other sums are whole numbers too
    for (path, values) in &read.0 {
        if path.ends_with("Amount") && !path.ends_with("PriceAmount") {
            assert!(values.iter().all(|value| value.parse::<i64>().is_ok()), "{path}: {values:?}");
        }
        if path.ends_with("@currencyID") {
            assert!(values.iter().all(|value| value == "JPY"));
        }
    }
    // sums
    let lines = format!("{root}/{root}Line");
    let nets = read.amounts(&format!("{lines}/LineExtensionAmount"));
    let total = |name: &str| read.amount(&at(&format!("LegalMonetaryTotal/{name}")));
    let tax = read.amount(&at("TaxTotal/TaxAmount"));
    assert_eq!(nets.iter().sum::<Decimal>(), total("LineExtensionAmount"));
    assert_eq!(total("TaxExclusiveAmount"), total("LineExtensionAmount"));
    assert_eq!(total("TaxInclusiveAmount"), total("TaxExclusiveAmount") + tax);
    assert_eq!(total("PayableAmount"), total("TaxInclusiveAmount"));
    assert_eq!(read.amounts(&at("TaxTotal/TaxSubtotal/TaxAmount")).iter().sum::<Decimal>(), tax);
    // the amount of each line is the line's quantity times the line's price, and the price is not negative
    let quantity = if root == "Invoice" { "InvoicedQuantity" } else { "CreditedQuantity" };
    let quantities = read.amounts(&format!("{lines}/{quantity}"));
    let prices = read.amounts(&format!("{lines}/Price/PriceAmount"));
    assert_eq!(nets.len(), document.draft.lines.len());
    for ((net, quantity), price) in nets.iter().zip(&quantities).zip(&prices) {
        assert!(*net == quantity * price && !price.is_sign_negative(), "{net} = {quantity} x {price}");
    }
    // the taxable amount of a category is the sum of the lines of that category
    let categories = read.all(&format!("{lines}/Item/ClassifiedTaxCategory/ID"));
    let subtotals = read.all(&at("TaxTotal/TaxSubtotal/TaxCategory/ID"));
    for (category, taxable) in subtotals.iter().zip(read.amounts(&at("TaxTotal/TaxSubtotal/TaxableAmount"))) {
        let of_lines = categories.iter().zip(&nets).filter(|(one, _)| *one == category).map(|(_, net)| net);
        assert_eq!(of_lines.sum::<Decimal>(), taxable, "{category}");
    }
    read
}

#[test]
fn an_invoice_keeps_the_rules_of_jp_pint() {
    let read = check(&of_kind(Kind::Invoice));
    assert_eq!(read.one("Invoice/InvoiceTypeCode"), "380");
    assert_eq!(read.one("Invoice/DueDate"), "2025-12-31");
    assert_eq!(read.one("Invoice/InvoicePeriod/StartDate"), "2025-11-01");
    assert_eq!(read.all("Invoice/TaxTotal/TaxSubtotal/TaxCategory/ID"), ["AA", "S"]);
    assert_eq!(read.all("Invoice/TaxTotal/TaxSubtotal/TaxCategory/Percent"), ["8", "10"]);
    assert_eq!(read.one("Invoice/PaymentMeans/PaymentMeansCode"), "30");
    assert_eq!(read.one("Invoice/PaymentMeans/PayeeFinancialAccount/ID"), "0012345");
    assert_eq!(read.one("Invoice/AccountingCustomerParty/Party/EndpointID"), "T1180301018771");
    let corrected = check(&of_kind(Kind::CorrectedInvoice));
    assert_eq!(corrected.one("Invoice/BillingReference/InvoiceDocumentReference/ID"), "20251031-AAAAAAAA");
}

#[test]
fn prices_with_tax_are_converted_and_their_sums_stay() {
    for rounding in Rounding::ALL {
        let mut draft = draft(Kind::Invoice);
        (draft.basis, draft.rounding) = (Basis::Inclusive, rounding);
        draft.lines = vec![
            line("a", "1000", "1", 10),
            line("b", "1000", "1", 10),
            line("c", "1000", "1", 10),
            line("d", "980", "3", 8),
            line("e", "-333", "1", 10),
        ];
        let document = draft.complete().unwrap();
        let read = check(&document);
        assert_eq!(read.amount("Invoice/LegalMonetaryTotal/TaxInclusiveAmount"), Decimal::from(5_607));
    }
}

#[test]
fn a_credit_note_says_what_is_returned() {
    let mut draft = draft(Kind::CreditNote);
    draft.original_date = "2025-10-31".to_owned();
    draft.original_number = "A-1".to_owned();
    draft.lines = vec![line("返品", "-1000", "2", 10), line("戻し", "300", "1", 10)];
    let read = check(&draft.complete().unwrap());
    assert_eq!(read.one("CreditNote/CreditNoteTypeCode"), "381");
    assert_eq!(read.one("CreditNote/LegalMonetaryTotal/PayableAmount"), "1870");
    assert_eq!(read.one("CreditNote/BillingReference/InvoiceDocumentReference/IssueDate"), "2025-10-31");
    assert_eq!(read.all("CreditNote/CreditNoteLine/LineExtensionAmount"), ["2000", "-300"]);
}

#[test]
fn markup_is_escaped_and_other_kinds_have_no_such_form() {
    let mut hostile = draft(Kind::Invoice);
    hostile.recipient = "<A&B>".to_owned();
    let xml = hostile.complete().unwrap().xml().unwrap();
    assert!(xml.contains("<cbc:RegistrationName>&lt;A&amp;B&gt;</cbc:RegistrationName>"));
    for kind in [Kind::Receipt, Kind::SimplifiedInvoice, Kind::DeliveryNote, Kind::Quote] {
        assert_eq!(of_kind(kind).xml(), None);
    }
}
