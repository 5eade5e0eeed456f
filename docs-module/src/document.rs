//! Invoices, receipts and their kin (consumption tax act, article 57-4): what a caller says becomes a document with its sums, and that becomes a PDF,
//! HTML or text for machines.

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
pub use sheet::{DISCLAIMER, date, yen};
pub use theme::Theme;
use time::Date;

use crate::drawing::pdf;
use crate::registration::RegistrationNumber;
use crate::rounding::Rounding;
use crate::tax::consumption::{Basis, Rate, Totals};
use crate::tax::withholding::Category;

/// Most lines of a document (B24).
pub const LINES_MAX: usize = 1000;

/// What a caller says of a document. Texts that are empty are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// What it is.
    pub kind: Kind,
    /// Its number.
    pub number: String,
    /// Its date.
    pub issue_date: Date,
    /// Until when it is paid, or a quote holds.
    pub due_date: Option<Date>,
    /// Who issues it.
    pub issuer: Issuer,
    /// To whom it is given.
    pub recipient: String,
    /// The recipient's registration number, for machines.
    pub recipient_number: Option<RegistrationNumber>,
    /// What follows the recipient's name: 御中, 様.
    pub honorific: String,
    /// What was sold, at least one line.
    pub lines: Vec<Line>,
    /// Whether prices hold the tax.
    pub basis: Basis,
    /// How parts of a yen are rounded.
    pub rounding: Rounding,
    /// Income tax that the recipient withholds.
    pub withholding: Option<Withholding>,
    /// The time of the sales, when that is not [`Draft::issue_date`].
    pub period: String,
    /// How it was or is paid: `credit_card`, `bank_transfer`, `konbini`, `cash`, `paypay`, `direct_debit`, or free text.
    pub payment_method: String,
    /// Date or period of the sale that is returned or corrected.
    pub original_date: String,
    /// Number of the document that is corrected or returned.
    pub original_number: String,
    /// Where to pay.
    pub bank: Option<BankAccount>,
    /// Who bears the fee of a transfer.
    pub transfer_fee_note: String,
    /// For whom the issuer sells (enforcement order, article 70-12).
    pub consignor: Option<Consignor>,
    /// Free text, in lines.
    pub notes: String,
    /// Colour, pictures and the text below.
    pub theme: Theme,
}

/// Who issues a document.
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

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What was sold.
    pub name: String,
    /// Yen a piece.
    pub unit_price: Decimal,
    /// Pieces.
    pub quantity: Decimal,
    /// Its rate.
    pub rate: Rate,
}

/// Income tax that the recipient withholds from the issuer's fee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withholding {
    /// What the fee is for.
    pub category: Category,
    /// Whether the tax is taken of the fee without or with its consumption tax.
    pub basis: Basis,
    /// The tax in yen, when the caller knows it.
    pub amount: Option<i64>,
    /// Places of the lines that it is taken of; `None`: of all.
    pub lines: Option<Vec<usize>>,
}

/// An account of a bank.
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
    /// The same as banks show it.
    pub account_holder_kana: String,
    /// Free text.
    pub note: String,
}

/// For whom an agent sells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consignor {
    /// Name.
    pub name: String,
    /// Registration number.
    pub registration_number: Option<RegistrationNumber>,
}

/// A document whose sums are made.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// What the caller said, each text as it can be shown.
    pub draft: Draft,
    /// Yen of each line.
    pub amounts: Vec<i64>,
    /// The sums.
    pub totals: Totals,
    /// Income tax that the recipient withholds, in yen.
    pub withheld: Option<i64>,
    /// What the caller should know.
    pub warnings: Vec<Warning>,
}

/// What the caller of a document should know. A document comes nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The check digit of a registration number is wrong (B26).
    CheckDigit(RegistrationNumber),
    /// The tax act asks for the recipient's name (B27).
    NoRecipient,
    /// Only those who deal with the general public may issue simplified invoices.
    Simplified,
    /// A consignor without a number: that both are registered cannot be seen.
    ConsignorWithoutNumber,
    /// Characters that the face lacks; 〓 stands for them.
    MissingCharacters(BTreeSet<char>),
}

impl std::fmt::Display for Warning {
    /// One line of ASCII, for a header.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Warning::CheckDigit(number) => {
                write!(f, "check digit of {number} is wrong, expected {}", number.expected_check_digit())
            }
            Warning::NoRecipient => f.write_str("a qualified invoice names its recipient"),
            Warning::Simplified => f.write_str("simplified invoices are for businesses that serve the general public"),
            Warning::ConsignorWithoutNumber => f.write_str("the consignor has no registration number"),
            Warning::MissingCharacters(missing) => {
                f.write_str("characters shown as U+3013:")?;
                missing.iter().take(20).try_for_each(|character| write!(f, " U+{:04X}", u32::from(*character)))
            }
        }
    }
}

impl Draft {
    /// The document with its sums, or everything that is wrong with it.
    ///
    /// # Errors
    /// All problems at once.
    pub fn complete(self) -> Result<Document, Vec<Problem>> {
        checks::complete(self)
    }
}

impl Document {
    /// Yen to be paid: the total less what is withheld.
    pub fn payable(&self) -> i64 {
        self.totals.total.gross - self.withheld.unwrap_or(0)
    }

    /// The document as a PDF of A4 pages. Equal documents have equal bytes.
    pub fn pdf(&self) -> Vec<u8> {
        let title = format!("{} {}", self.draft.kind.title(), self.draft.number);
        let about = pdf::About { title: &title, author: &self.draft.issuer.name, date: self.draft.issue_date };
        pdf::write(&layout::pages(&sheet::sheet(self), &self.draft.theme), &about)
    }

    /// The document as a page of HTML that prints on A4.
    pub fn html(&self) -> String {
        html::page(&sheet::sheet(self), &self.draft.theme)
    }

    /// The document as JP PINT in UBL 2.1. `None`: there are invoices, corrected ones and credit notes alone.
    pub fn xml(&self) -> Option<String> {
        pint::xml(self)
    }
}
