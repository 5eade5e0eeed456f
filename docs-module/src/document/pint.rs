//! A document in JP PINT, the Japanese form of Peppol's invoice, in UBL 2.1. Lines are without tax. Prices with tax are
//! converted, so that the lines of a rate still add up to the rate's net sum.

use std::io;

use quick_xml::events::{BytesDecl, BytesStart, BytesText, Event};
use quick_xml::writer::Writer;
use rust_decimal::Decimal;
use time::Date;

use super::{BankAccount, Document, Draft, Kind, NoXml, Problem, Step, period, postal};
use crate::registration::PartyNumber;
use crate::tax::consumption::{Basis, Rate, RateTotal};

const CUSTOMIZATION: &str = "urn:peppol:pint:billing-1@jp-1";
const PROFILE: &str = "urn:peppol:bis:billing";
const AGGREGATE: &str = "urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2";
const BASIC: &str = "urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2";

/// Writes the document in UBL.
pub(super) fn xml(document: &Document) -> Result<String, NoXml> {
    let (root, type_code, quantity) = match document.draft.kind {
        Kind::Invoice | Kind::CorrectedInvoice => ("Invoice", "380", "cbc:InvoicedQuantity"),
        Kind::CreditNote => ("CreditNote", "381", "cbc:CreditedQuantity"),
        _ => return Err(NoXml::Kind),
    };
    let parts = parts(&document.draft).map_err(NoXml::Members)?;
    // a credit note states returned amounts as positive numbers
    let sign = if root == "CreditNote" && document.totals.total.gross < 0 { -1 } else { 1 };
    let mut ubl = Ubl { writer: Writer::new(Vec::new()), document, parts, sign };
    ubl.document(root, type_code, quantity).expect("writing to memory");
    Ok(String::from_utf8(ubl.writer.into_inner()).expect("the writer was given text"))
}

/// Parts that JP PINT requires, and other forms do not.
struct Parts {
    /// The buyer's electronic address (rule ibr-080).
    buyer: PartyNumber,
    /// The period of the sales (rule aligned-ibrp-052).
    period: (Date, Date),
}

/// Finds the required parts. The period is the day of the document if the draft states none, because other forms then
/// print that day as the day of the sale too.
fn parts(draft: &Draft) -> Result<Parts, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut problem = |name, message: &str| {
        problems.push(Problem { at: vec![Step::Field(name)], message: format!("{message} for format=xml (JP PINT)") });
    };
    // rules ibr-007 and ibr-079
    if draft.recipient.is_empty() {
        problem("recipient", "is required");
    }
    if draft.recipient_number.is_none() {
        problem("recipient_number", "is required");
    }
    let period =
        if draft.period.is_empty() { Some((draft.issue_date, draft.issue_date)) } else { period::days(&draft.period) };
    if period.is_none() {
        problem("period", "should have a first and a last day, such as 2026年11月分 or 2026-11-01/2026-11-30,");
    }
    match (draft.recipient_number, period) {
        (Some(buyer), Some(period)) if problems.is_empty() => Ok(Parts { buyer, period }),
        _ => Err(problems),
    }
}

struct Ubl<'a> {
    writer: Writer<Vec<u8>>,
    document: &'a Document,
    parts: Parts,
    sign: i64,
}

impl Ubl<'_> {
    fn document(&mut self, root: &str, type_code: &str, quantity: &str) -> io::Result<()> {
        self.writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        let namespace = format!("urn:oasis:names:specification:ubl:schema:xsd:{root}-2");
        let attributes = [("xmlns", namespace.as_str()), ("xmlns:cac", AGGREGATE), ("xmlns:cbc", BASIC)];
        let is_invoice = root == "Invoice";
        self.within(root, &attributes, |ubl| {
            let draft = &ubl.document.draft;
            ubl.text("cbc:CustomizationID", CUSTOMIZATION)?;
            ubl.text("cbc:ProfileID", PROFILE)?;
            ubl.text("cbc:ID", &draft.number)?;
            ubl.text("cbc:IssueDate", &draft.issue_date.to_string())?;
            if let (true, Some(due)) = (is_invoice, draft.due_date) {
                ubl.text("cbc:DueDate", &due.to_string())?;
            }
            ubl.text(&format!("cbc:{root}TypeCode"), type_code)?;
            if let Some(note) = ubl.note() {
                ubl.text("cbc:Note", &note)?;
            }
            ubl.text("cbc:DocumentCurrencyCode", "JPY")?;
            ubl.period()?;
            ubl.original()?;
            ubl.supplier()?;
            ubl.customer()?;
            if let Some(bank) = &draft.bank {
                ubl.payment_means(bank, (!is_invoice).then_some(draft.due_date).flatten())?;
            }
            ubl.tax_total()?;
            ubl.monetary_total()?;
            ubl.lines(root, quantity)
        })
    }

    // ---- elements

    fn within(
        &mut self,
        name: &str,
        attributes: &[(&str, &str)],
        content: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let start = BytesStart::new(name).with_attributes(attributes.iter().copied());
        let end = start.to_end().into_owned();
        self.writer.write_event(Event::Start(start))?;
        content(self)?;
        self.writer.write_event(Event::End(end))
    }

    fn text(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.writer.create_element(name).write_text_content(BytesText::new(text))?;
        Ok(())
    }

    fn amount(&mut self, name: &str, amount: impl std::fmt::Display) -> io::Result<()> {
        let element = self.writer.create_element(name).with_attribute(("currencyID", "JPY"));
        element.write_text_content(BytesText::new(&amount.to_string()))?;
        Ok(())
    }

    fn tax_scheme(&mut self) -> io::Result<()> {
        // consumption tax
        self.within("cac:TaxScheme", &[], |ubl| ubl.text("cbc:ID", "VAT"))
    }

    // ---- parts

    /// Makes the note: the withheld income tax, for which JP PINT has no element, then the document's own notes.
    fn note(&self) -> Option<String> {
        let withheld = self
            .document
            .withheld
            .map(|withheld| format!("源泉徴収税額 {withheld}円　差引ご請求額 {}円", self.document.payable()));
        let notes = Some(self.document.draft.notes.clone()).filter(|notes| !notes.is_empty());
        let parts: Vec<String> = withheld.into_iter().chain(notes).collect();
        (!parts.is_empty()).then(|| parts.join("\n"))
    }

    fn period(&mut self) -> io::Result<()> {
        let (first, last) = self.parts.period;
        self.within("cac:InvoicePeriod", &[], |ubl| {
            ubl.text("cbc:StartDate", &first.to_string())?;
            ubl.text("cbc:EndDate", &last.to_string())
        })
    }

    fn original(&mut self) -> io::Result<()> {
        let draft = &self.document.draft;
        if draft.original_number.is_empty() {
            return Ok(());
        }
        self.within("cac:BillingReference", &[], |ubl| {
            ubl.within("cac:InvoiceDocumentReference", &[], |ubl| {
                ubl.text("cbc:ID", &draft.original_number)?;
                match period::days(&draft.original_date) {
                    Some((first, last)) if first == last => ubl.text("cbc:IssueDate", &first.to_string()),
                    _ => Ok(()),
                }
            })
        })
    }

    fn supplier(&mut self) -> io::Result<()> {
        let issuer = &self.document.draft.issuer;
        let number = PartyNumber::Registration(issuer.registration_number);
        self.within("cac:AccountingSupplierParty", &[], |ubl| {
            ubl.within("cac:Party", &[], |ubl| {
                ubl.endpoint(number)?;
                ubl.address(&issuer.address)?;
                ubl.within("cac:PartyTaxScheme", &[], |ubl| {
                    ubl.text("cbc:CompanyID", &number.to_string())?;
                    ubl.tax_scheme()
                })?;
                ubl.legal_name(&issuer.name)?;
                if issuer.tel.is_empty() {
                    return Ok(());
                }
                ubl.within("cac:Contact", &[], |ubl| ubl.text("cbc:Telephone", &issuer.tel))
            })
        })
    }

    fn customer(&mut self) -> io::Result<()> {
        let draft = &self.document.draft;
        self.within("cac:AccountingCustomerParty", &[], |ubl| {
            ubl.within("cac:Party", &[], |ubl| {
                ubl.endpoint(ubl.parts.buyer)?;
                ubl.address("")?;
                ubl.legal_name(&draft.recipient)
            })
        })
    }

    /// Writes the number of a party in Peppol's scheme for this kind of number (list ICD).
    fn endpoint(&mut self, number: PartyNumber) -> io::Result<()> {
        let scheme = match number {
            PartyNumber::Registration(_) => "0221",
            PartyNumber::Corporate(_) => "0188",
        };
        let element = self.writer.create_element("cbc:EndpointID").with_attribute(("schemeID", scheme));
        element.write_text_content(BytesText::new(&number.to_string()))?;
        Ok(())
    }

    fn address(&mut self, address: &str) -> io::Result<()> {
        self.within("cac:PostalAddress", &[], |ubl| {
            let postal::Address { code, street, second, rest } = postal::address(address);
            for (name, part) in
                [("cbc:StreetName", street), ("cbc:AdditionalStreetName", second), ("cbc:PostalZone", code)]
            {
                if !part.is_empty() {
                    ubl.text(name, &part)?;
                }
            }
            // rule ibr-sr-53 allows one line
            if !rest.is_empty() {
                ubl.within("cac:AddressLine", &[], |ubl| ubl.text("cbc:Line", &rest))?;
            }
            ubl.within("cac:Country", &[], |ubl| ubl.text("cbc:IdentificationCode", "JP"))
        })
    }

    fn legal_name(&mut self, name: &str) -> io::Result<()> {
        self.within("cac:PartyLegalEntity", &[], |ubl| ubl.text("cbc:RegistrationName", name))
    }

    /// Writes the means of payment: a transfer to a bank account.
    fn payment_means(&mut self, bank: &BankAccount, due: Option<Date>) -> io::Result<()> {
        self.within("cac:PaymentMeans", &[], |ubl| {
            ubl.text("cbc:PaymentMeansCode", "30")?;
            if let Some(due) = due {
                ubl.text("cbc:PaymentDueDate", &due.to_string())?;
            }
            ubl.within("cac:PayeeFinancialAccount", &[], |ubl| {
                ubl.text("cbc:ID", &bank.account_number)?;
                ubl.text("cbc:Name", &bank.account_holder)?;
                ubl.text("cbc:AccountTypeCode", &bank.account_type)?;
                ubl.within("cac:FinancialInstitutionBranch", &[], |ubl| {
                    ubl.text("cbc:ID", &format!("{}{}", bank.bank_code, bank.branch_code))?;
                    ubl.text("cbc:Name", &format!("{} {}", bank.bank_name, bank.branch_name))
                })
            })
        })
    }

    /// Writes the taxes in whole yen, because rule aligned-ibr-jp-06 does not allow decimals.
    fn tax_total(&mut self) -> io::Result<()> {
        let (document, sign) = (self.document, self.sign);
        self.within("cac:TaxTotal", &[], |ubl| {
            ubl.amount("cbc:TaxAmount", sign * document.totals.total.tax)?;
            for (rate, of_rate) in &document.totals.by_rate {
                ubl.within("cac:TaxSubtotal", &[], |ubl| {
                    ubl.amount("cbc:TaxableAmount", sign * of_rate.net)?;
                    ubl.amount("cbc:TaxAmount", sign * of_rate.tax)?;
                    ubl.category("cac:TaxCategory", *rate)
                })?;
            }
            Ok(())
        })
    }

    fn category(&mut self, name: &str, rate: Rate) -> io::Result<()> {
        self.within(name, &[], |ubl| {
            ubl.text(
                "cbc:ID",
                match rate {
                    Rate::Standard => "S",
                    Rate::Reduced => "AA",
                },
            )?;
            ubl.text("cbc:Percent", &rate.percent().to_string())?;
            ubl.tax_scheme()
        })
    }

    fn monetary_total(&mut self) -> io::Result<()> {
        let RateTotal { net, gross, .. } = self.document.totals.total;
        let sign = self.sign;
        self.within("cac:LegalMonetaryTotal", &[], |ubl| {
            ubl.amount("cbc:LineExtensionAmount", sign * net)?;
            ubl.amount("cbc:TaxExclusiveAmount", sign * net)?;
            ubl.amount("cbc:TaxInclusiveAmount", sign * gross)?;
            ubl.amount("cbc:PayableAmount", sign * gross)
        })
    }

    fn lines(&mut self, root: &str, quantity_name: &str) -> io::Result<()> {
        let draft = &self.document.draft;
        let nets = net_amounts(self.document);
        for (at, (line, net)) in draft.lines.iter().zip(nets).enumerate() {
            let net = self.sign * net;
            let (quantity, price) = priced(draft, line.quantity * Decimal::from(self.sign), line.unit_price, net);
            self.within(&format!("cac:{root}Line"), &[], |ubl| {
                ubl.text("cbc:ID", &(at + 1).to_string())?;
                let element = ubl.writer.create_element(quantity_name).with_attribute(("unitCode", "C62"));
                element.write_text_content(BytesText::new(&quantity.normalize().to_string()))?;
                ubl.amount("cbc:LineExtensionAmount", net)?;
                ubl.within("cac:Item", &[], |ubl| {
                    ubl.text("cbc:Name", &line.name)?;
                    ubl.category("cac:ClassifiedTaxCategory", line.rate)
                })?;
                ubl.within("cac:Price", &[], |ubl| ubl.amount("cbc:PriceAmount", price.normalize()))
            })?;
        }
        Ok(())
    }
}

/// Returns the quantity and the price of a line. Their product is the line's amount, and the price is not negative. A
/// line whose amount was rounded or converted from a price with tax has the quantity 1 or -1.
fn priced(draft: &Draft, quantity: Decimal, price: Decimal, net: i64) -> (Decimal, Decimal) {
    let (quantity, price) = if price.is_sign_negative() { (-quantity, -price) } else { (quantity, price) };
    let is_exact = draft.basis == Basis::Exclusive && quantity.checked_mul(price) == Some(Decimal::from(net));
    if is_exact {
        return (quantity, price);
    }
    (Decimal::from(if net < 0 { -1 } else { 1 }), Decimal::from(net.abs()))
}

/// Computes the amount of each line without tax, in yen. The lines of a rate add up to the rate's net sum, because the
/// line with the largest amount takes the rounding difference.
fn net_amounts(document: &Document) -> Vec<i64> {
    let draft = &document.draft;
    if draft.basis == Basis::Exclusive {
        return document.amounts.clone();
    }
    let part = |rate: Rate, amount: i64| amount - draft.rounding.part(amount, rate.percent(), 100 + rate.percent());
    let mut nets: Vec<i64> =
        draft.lines.iter().zip(&document.amounts).map(|(line, amount)| part(line.rate, *amount)).collect();
    for (rate, of_rate) in &document.totals.by_rate {
        let places = || (0..nets.len()).filter(|at| draft.lines[*at].rate == *rate);
        let left = of_rate.net - places().map(|at| nets[at]).sum::<i64>();
        let largest = places().max_by_key(|at| document.amounts[*at].abs()).expect("a rate has lines");
        nets[largest] += left;
    }
    nets
}
