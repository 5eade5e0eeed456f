//! Invoices, receipts and related documents (consumption tax act, article 57-4). A [`Draft`] holds what the caller
//! gives. A [`Document`] adds the sums, and is written as PDF, HTML or UBL (XML).

mod checks;
mod html;
mod kind;
mod layout;
mod period;
#[cfg(test)]
mod picture_tests;
mod pint;
#[cfg(test)]
mod pint_tests;
mod postal;
mod sheet;
#[cfg(test)]
mod tests;
mod theme;

use std::collections::BTreeSet;

pub(crate) use checks::ASIDE_MAX;
pub use checks::{Problem, Step};
pub use kind::Kind;
use rust_decimal::Decimal;
pub(crate) use sheet::grouped;
pub use sheet::{DISCLAIMER, yen};
pub use theme::Theme;
use time::Date;

pub use crate::calendar::date;
use crate::drawing::pdf;
use crate::limit::{Limit, Stopped};
use crate::registration::{PartyNumber, RegistrationNumber};
use crate::rounding::Rounding;
use crate::tax::consumption::{Basis, Rate, Totals};
use crate::tax::withholding::Category;

/// Largest number of members, and of characters of each, that [`Warning::MissingCharacters`] tells.
const MEMBERS_TOLD: usize = 5;
const CHARACTERS_TOLD: usize = 20;

/// Largest number of lines of a document (B24).
pub const LINES_MAX: usize = 1000;

/// The values that a caller gives for a document. Empty texts are not printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The kind of document.
    pub kind: Kind,
    /// The document's number.
    pub number: String,
    /// The date of issue.
    pub issue_date: Date,
    /// The date by which to pay; on a quote, the last day on which the quote holds.
    pub due_date: Option<Date>,
    /// The issuer.
    pub issuer: Issuer,
    /// The recipient's name; may be empty.
    pub recipient: String,
    /// The number by which the UBL form addresses the recipient. No other form shows it.
    pub recipient_number: Option<PartyNumber>,
    /// The honorific after the recipient's name: 御中, 様.
    pub honorific: String,
    /// The lines, at least one.
    pub lines: Vec<Line>,
    /// Whether prices include the tax.
    pub basis: Basis,
    /// How fractions of a yen are rounded.
    pub rounding: Rounding,
    /// Income tax that the recipient withholds.
    pub withholding: Option<Withholding>,
    /// The period of the sales, as text; empty when the sales were on [`Draft::issue_date`].
    pub period: String,
    /// The way of payment: `credit_card`, `bank_transfer`, `konbini`, `cash`, `paypay`, `direct_debit`, or free text.
    pub payment_method: String,
    /// Date or period of the sale that is returned or corrected.
    pub original_date: String,
    /// Number of the document that is corrected or returned.
    pub original_number: String,
    /// For what the money of a receipt was paid (但し書き); empty: the first line's name.
    pub proviso: String,
    /// The bank account to pay to.
    pub bank: Option<BankAccount>,
    /// A note that says who bears the fee of a bank transfer.
    pub transfer_fee_note: String,
    /// The consignor, when the issuer sells as an agent (enforcement order, article 70-12).
    pub consignor: Option<Consignor>,
    /// Free text, in lines.
    pub notes: String,
    /// Colour, logo, seal and footer.
    pub theme: Theme,
}

/// The issuer of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Name.
    pub name: String,
    /// Registration number.
    pub registration_number: RegistrationNumber,
    /// Address.
    pub address: String,
    /// Telephone number.
    pub tel: String,
}

/// A line of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Name of the goods or the service.
    pub name: String,
    /// Price of one unit, in yen.
    pub unit_price: Decimal,
    /// Number of units.
    pub quantity: Decimal,
    /// Rate of consumption tax.
    pub rate: Rate,
}

/// Income tax that the recipient withholds from the issuer's fee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withholding {
    /// Category of the remuneration.
    pub category: Category,
    /// Whether the tax is computed on the fee with or without consumption tax.
    pub basis: Basis,
    /// The tax in yen, if the caller gives it; `None`: the tax is computed.
    pub amount: Option<i64>,
    /// Indices, from 0, of the lines that make up the fee; `None`: all lines.
    pub lines: Option<Vec<usize>>,
}

/// A bank account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BankAccount {
    /// 銀行名.
    pub bank_name: String,
    /// 統一金融機関コード: 4 digits.
    pub bank_code: String,
    /// 支店名.
    pub branch_name: String,
    /// 3 digits.
    pub branch_code: String,
    /// 普通, 当座 or 貯蓄.
    pub account_type: String,
    /// 7 digits.
    pub account_number: String,
    /// 口座名義.
    pub account_holder: String,
    /// 口座名義 in kana, as banks print it.
    pub account_holder_kana: String,
    /// Free text.
    pub note: String,
}

/// The consignor: the principal for whom an agent sells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consignor {
    /// Name.
    pub name: String,
    /// Registration number.
    pub registration_number: Option<RegistrationNumber>,
}

/// A checked draft with its sums.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The draft. Its texts are safe to show ([`crate::drawing::text::safe`]), and else as the caller wrote them.
    pub draft: Draft,
    /// The amount of each line, in yen.
    pub amounts: Vec<i64>,
    /// The sums.
    pub totals: Totals,
    /// Income tax that the recipient withholds, in yen.
    pub withheld: Option<i64>,
    /// Warnings for the caller.
    pub warnings: Vec<Warning>,
}

/// A warning about a document. The document is made all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The check digit of a registration number is wrong (B26).
    CheckDigit(RegistrationNumber),
    /// The recipient's name is missing, and the tax act requires it (B27).
    NoRecipient,
    /// Only businesses that serve the general public may issue simplified invoices.
    Simplified,
    /// The consignor has no registration number, so the document does not show that issuer and consignor are both
    /// registered.
    ConsignorWithoutNumber,
    /// Characters that no face has, by the path of the member with them. The PDF shows 〓 for each; all other forms show
    /// the characters.
    MissingCharacters(Vec<(String, BTreeSet<char>)>),
    /// The payment object does not say all that its document says. The text is one line of ASCII.
    Payment(String),
}

impl std::fmt::Display for Warning {
    /// Writes one line of ASCII, for a response header.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Warning::CheckDigit(number) => {
                write!(f, "check digit of {number} is wrong, expected {}", number.expected_check_digit())
            }
            Warning::NoRecipient => f.write_str("a qualified invoice must name its recipient"),
            Warning::Simplified => f.write_str("simplified invoices are for businesses that serve the general public"),
            Warning::ConsignorWithoutNumber => f.write_str("the consignor has no registration number"),
            Warning::MissingCharacters(missing) => {
                f.write_str("characters shown as U+3013 in the PDF:")?;
                for (at, (member, characters)) in missing.iter().take(MEMBERS_TOLD).enumerate() {
                    f.write_str(if at > 0 { "," } else { "" })?;
                    let told = characters.iter().take(CHARACTERS_TOLD);
                    told.into_iter().try_for_each(|character| write!(f, " U+{:04X}", u32::from(*character)))?;
                    write!(f, " in {member}")?;
                }
                let more = missing.len().saturating_sub(MEMBERS_TOLD);
                if more > 0 { write!(f, ", and in {more} more members") } else { Ok(()) }
            }
            Warning::Payment(text) => f.write_str(text),
        }
    }
}

/// Why a document has no form in JP PINT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoXml {
    /// JP PINT has only invoices, corrected invoices and credit notes.
    Kind,
    /// Members that are missing or cannot be read.
    Members(Vec<Problem>),
}

impl Draft {
    /// Checks the draft and computes its sums.
    ///
    /// # Errors
    /// All problems of the draft.
    pub fn complete(self) -> Result<Document, Vec<Problem>> {
        checks::complete(self)
    }
}

impl Document {
    /// The amount to pay, in yen: the total minus the income tax withheld.
    pub fn payable(&self) -> i64 {
        self.totals.total.gross - self.withheld.unwrap_or(0)
    }

    /// Writes the document as a PDF of A4 pages. Equal documents have equal bytes.
    pub fn pdf(&self) -> Vec<u8> {
        self.pdf_within(Limit::NONE).expect("nothing stops this work")
    }

    /// Writes the document as [`Document::pdf`] does.
    ///
    /// # Errors
    /// When the limit stops the work.
    pub fn pdf_within(&self, limit: Limit<'_>) -> Result<Vec<u8>, Stopped> {
        let title = format!("{} {}", self.draft.kind.title(), self.draft.number);
        let about = pdf::About { title: &title, author: &self.draft.issuer.name, date: self.draft.issue_date };
        pdf::write(&layout::pages(&sheet::sheet(self).drawable(), &self.draft.theme, limit)?, &about, limit)
    }

    /// Writes the document as a page of HTML that prints on A4.
    pub fn html(&self) -> String {
        html::page(&sheet::sheet(self), &self.draft.theme)
    }

    /// Writes the document as JP PINT in UBL 2.1.
    ///
    /// # Errors
    /// When JP PINT has no such document, or requires a member that is missing or cannot be read.
    pub fn xml(&self) -> Result<String, NoXml> {
        pint::xml(self)
    }
}
