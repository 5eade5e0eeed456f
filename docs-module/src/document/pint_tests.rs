//! Checks documents in UBL against the rules of JP PINT, with a reader that is independent of the writer.

use std::collections::BTreeMap;

use quick_xml::escape::resolve_predefined_entity;
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
    let mut text = String::new();
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
            Event::Text(part) => text.push_str(&part.decode().unwrap()),
            Event::GeneralRef(name) => {
                text.push_str(resolve_predefined_entity(&name.decode().unwrap()).expect("an entity of XML"));
            }
            Event::End(_) => {
                if !text.is_empty() {
                    texts.entry(path.join("/")).or_default().push(std::mem::take(&mut text));
                }
                path.pop();
            }
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

/// Documents of many shapes, each with a name for its file.
fn corpus() -> Vec<(String, Document)> {
    let mut corpus: Vec<(String, Draft)> = Vec::new();
    let mut add = |name: &str, kind: Kind, change: &dyn Fn(&mut Draft)| {
        let mut draft = draft(kind);
        if kind.needs_original() {
            draft.original_date = "2025年10月分".to_owned();
        }
        change(&mut draft);
        corpus.push((name.to_owned(), draft));
    };
    let lines = |lines: &[(&str, &str, i64)]| -> Vec<Line> {
        lines.iter().map(|(price, quantity, rate)| line("品目", price, quantity, *rate)).collect()
    };
    for kind in [Kind::Invoice, Kind::CorrectedInvoice, Kind::CreditNote] {
        let name = kind.name();
        add(name, kind, &|_| {});
        add(&format!("{name}-numbered"), kind, &|draft| {
            (draft.original_date, draft.original_number) = ("2025-10-31".to_owned(), "A-1".to_owned());
        });
        add(&format!("{name}-bare"), kind, &|draft| {
            (draft.bank, draft.due_date) = (None, None);
            (draft.issuer.address, draft.issuer.tel, draft.notes) = Default::default();
            (draft.period, draft.transfer_fee_note, draft.payment_method) = Default::default();
        });
        add(&format!("{name}-zero"), kind, &|draft| draft.lines = lines(&[("0", "1", 10), ("100", "0", 8)]));
        for rounding in Rounding::ALL {
            add(&format!("{name}-inclusive-{rounding:?}"), kind, &|draft| {
                (draft.basis, draft.rounding) = (Basis::Inclusive, rounding);
                draft.lines = lines(&[("1000", "1", 10), ("333", "3.5", 10), ("980.5", "3", 8), ("-333", "1", 10)]);
            });
        }
        add(&format!("{name}-fractions"), kind, &|draft| {
            draft.lines =
                lines(&[("0.333333", "3", 10), ("1980.123456", "0.000001", 8), ("-0.5", "3", 8), ("7", "1.5", 10)]);
        });
        add(&format!("{name}-huge"), kind, &|draft| draft.lines = lines(&[("899999999999", "1000", 10)]));
        add(&format!("{name}-discount-of-all"), kind, &|draft| {
            draft.lines = lines(&[("100", "1", 8), ("-100", "1", 8)])
        });
        add(&format!("{name}-long"), kind, &|draft| {
            draft.issuer.address = "〒１００－８９７８\n一\n二\n三\n四\n五".to_owned();
            (draft.notes, draft.issuer.name) = ("長\n".repeat(200), "名".repeat(100));
            (draft.recipient, draft.lines[0].name) = ("受".repeat(200), "品".repeat(200));
            draft.lines = vec![draft.lines[0].clone(); 1000];
        });
        add(&format!("{name}-foreign"), kind, &|draft| {
            draft.recipient = "<𠮷野家 & 홍길동>\u{fffe}\u{7}".to_owned();
            draft.notes = "😀 שלום ]]> か\u{3099}".to_owned();
            draft.recipient_number = PartyNumber::read("1180301018771").ok();
        });
        add(&format!("{name}-withheld"), kind, &|draft| {
            draft.withholding = Some(Withholding {
                category: Category::Manuscript,
                basis: Basis::Exclusive,
                amount: None,
                lines: None,
            });
            draft.consignor = Some(Consignor { name: "青果店".to_owned(), registration_number: None });
        });
        for (at, period) in
            ["令和8年11月分", "R8/11", "2026年11月1日〜11月30日", "2019-05", "平成31年4月分"].iter().enumerate()
        {
            add(&format!("{name}-period-{at}"), kind, &|draft| draft.period = (*period).to_owned());
        }
    }
    add("credit_note-negative", Kind::CreditNote, &|draft| {
        draft.lines = lines(&[("-1000", "2", 10), ("-108", "1", 8), ("300", "1", 10)]);
    });
    add("credit_note-negative-inclusive", Kind::CreditNote, &|draft| {
        draft.basis = Basis::Inclusive;
        draft.lines = lines(&[("-1000", "2", 10), ("108", "-1", 8)]);
    });
    corpus.into_iter().map(|(name, draft)| (name, draft.complete().expect("a document"))).collect()
}

#[test]
fn a12_documents_of_many_shapes_keep_the_rules() {
    for (_, document) in corpus() {
        check(&document);
    }
}

/// Writes the documents to the folder `PINT_TO`. `tests/pint/check.py` checks that folder by the official rules.
#[test]
fn documents_for_the_official_rules() {
    let Ok(folder) = std::env::var("PINT_TO") else { return };
    std::fs::create_dir_all(&folder).unwrap();
    for (name, document) in corpus() {
        std::fs::write(format!("{folder}/{name}.xml"), document.xml().unwrap()).unwrap();
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
    // ibr-080, ibr-007
    let buyer = at("AccountingCustomerParty/Party");
    assert!(["0188", "0221"].contains(&read.one(&format!("{buyer}/EndpointID@schemeID"))));
    assert!(!read.one(&format!("{buyer}/PartyLegalEntity/RegistrationName")).is_empty());
    // aligned-ibrp-052 requires a period
    assert!(read.one(&at("InvoicePeriod/StartDate")) <= read.one(&at("InvoicePeriod/EndDate")));
    let seller = at("AccountingSupplierParty/Party");
    assert_eq!(read.one(&format!("{seller}/PartyTaxScheme/TaxScheme/ID")), "VAT");
    assert_eq!(
        read.one(&format!("{seller}/PartyTaxScheme/CompanyID")),
        document.draft.issuer.registration_number.to_string()
    );
    assert_eq!(read.one(&format!("{seller}/EndpointID@schemeID")), "0221");
    // ibr-sr-53
    assert!(read.all(&format!("{seller}/PostalAddress/AddressLine/Line")).len() <= 1);
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
fn a12_the_buyer_is_addressed_by_either_number() {
    let address = |number: &str| {
        let mut draft = draft(Kind::Invoice);
        draft.recipient_number = PartyNumber::read(number).ok();
        let read = check(&draft.complete().unwrap());
        let at = "Invoice/AccountingCustomerParty/Party/EndpointID";
        [at.to_owned(), format!("{at}@schemeID")].map(|path| read.one(&path).to_owned())
    };
    assert_eq!(address("T1180301018771"), ["T1180301018771", "0221"]);
    assert_eq!(address("1180301018771"), ["1180301018771", "0188"]);
}

#[test]
fn a12_an_address_of_several_lines_is_one_address_line_at_most() {
    let mut draft = draft(Kind::Invoice);
    draft.issuer.address = "〒100-8978\n東京都千代田区\n霞が関３－１－１\n中央ビル\n5階\n受付".to_owned();
    let read = check(&draft.complete().unwrap());
    let at = |name: &str| read.one(&format!("Invoice/AccountingSupplierParty/Party/PostalAddress/{name}")).to_owned();
    assert_eq!(
        ["StreetName", "AdditionalStreetName", "PostalZone", "AddressLine/Line"].map(at),
        ["東京都千代田区", "霞が関３－１－１", "100-8978", "中央ビル 5階 受付"]
    );
}

#[test]
fn a12_members_that_jp_pint_requires_are_named() {
    let mut lacking = draft(Kind::Invoice);
    (lacking.recipient, lacking.recipient_number, lacking.period) = (String::new(), None, "11月分".to_owned());
    let Err(NoXml::Members(problems)) = lacking.complete().unwrap().xml() else { panic!("no problems") };
    let members: Vec<_> = problems.into_iter().map(|problem| problem.at).collect();
    assert_eq!(members, ["recipient", "recipient_number", "period"].map(|name| vec![Step::Field(name)]));
}

#[test]
fn a12_the_period_is_the_one_that_is_printed() {
    for (period, first, last) in [
        ("令和8年11月分", "2026-11-01", "2026-11-30"),
        ("R8/11", "2026-11-01", "2026-11-30"),
        // without a period, the document prints its day as the day of the sale
        ("", "2025-11-30", "2025-11-30"),
    ] {
        let mut draft = draft(Kind::Invoice);
        draft.period = period.to_owned();
        let read = check(&draft.complete().unwrap());
        let at = |name: &str| read.one(&format!("Invoice/InvoicePeriod/{name}")).to_owned();
        assert_eq!([at("StartDate"), at("EndDate")], [first, last], "{period}");
    }
}

/// The names of parties and goods are the caller's, whatever the PDF's faces have.
#[test]
fn a6_names_are_as_they_were_given() {
    let mut foreign = draft(Kind::Invoice);
    (foreign.recipient, foreign.lines[0].name) = ("𠮷野家 葛\u{e0100}城".to_owned(), "😀 שלום か\u{3099}".to_owned());
    let read = check(&foreign.complete().unwrap());
    assert_eq!(
        read.one("Invoice/AccountingCustomerParty/Party/PartyLegalEntity/RegistrationName"),
        "𠮷野家 葛\u{e0100}城"
    );
    assert_eq!(read.all("Invoice/InvoiceLine/Item/Name")[0], "😀 שלום か\u{3099}");
}

#[test]
fn markup_is_escaped_and_other_kinds_have_no_such_form() {
    let mut hostile = draft(Kind::Invoice);
    hostile.recipient = "<A&B>".to_owned();
    let xml = hostile.complete().unwrap().xml().unwrap();
    assert!(xml.contains("<cbc:RegistrationName>&lt;A&amp;B&gt;</cbc:RegistrationName>"));
    for kind in [Kind::Receipt, Kind::SimplifiedInvoice, Kind::DeliveryNote, Kind::Quote] {
        assert_eq!(of_kind(kind).xml(), Err(NoXml::Kind));
    }
}
