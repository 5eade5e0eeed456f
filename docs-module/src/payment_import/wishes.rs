//! The recipient's name and the merchant's wishes (fact sheet of the back office, 4.2 and 4.4).

use time::Date;
use unicode_normalization::UnicodeNormalization;

use crate::document::{self, Problem};
use crate::object::Node;

/// Names of the metadata, and of the fields that a buyer fills in, that hold the recipient's name.
const RECIPIENT_NAMES: [&str; 3] = ["recipient", "invoice_recipient", "宛名"];
/// A field whose label contains this word holds the recipient's name.
const RECIPIENT_LABEL: &str = "宛名";

/// The giver of the recipient's name. A later one is more binding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamedBy {
    /// Nobody: the name is empty.
    #[default]
    Nobody,
    /// The one who paid, such as the holder of the card, or the provider's record of the customer.
    Payer,
    /// The buyer, as the name of a business.
    Business,
    /// The buyer, in a field for the recipient's name.
    Field,
    /// The merchant, in metadata.
    Metadata,
}

/// The merchant's wishes for a document, from an object's metadata. A missing member means no wish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Value of `recipient_honorific`.
    pub honorific: Option<String>,
    /// Value of `invoice_number`.
    pub invoice_number: Option<String>,
    /// Value of `document_type`.
    pub document_type: Option<String>,
    /// Value of `consignor`.
    pub consignor: Option<String>,
    /// Value of `consignor_registration_number`.
    pub consignor_registration_number: Option<String>,
    /// Whether `do_not_invoice` is true.
    pub do_not_invoice: bool,
}

impl Wishes {
    /// Reads the wishes in the metadata of an object.
    pub(super) fn of(object: &Node<'_>) -> Wishes {
        let metadata = object.member("metadata");
        let wish = |name| metadata.member(name).text().map(str::to_owned);
        let ignored = metadata.member("do_not_invoice");
        Wishes {
            honorific: wish("recipient_honorific"),
            invoice_number: wish("invoice_number"),
            document_type: wish("document_type"),
            consignor: wish("consignor"),
            consignor_registration_number: wish("consignor_registration_number"),
            do_not_invoice: ignored.value.as_bool() == Some(true)
                || ignored.text().is_some_and(|value| value.eq_ignore_ascii_case("true")),
        }
    }
}

/// Finds the recipient: the name in metadata, else the first of `names`.
pub(super) fn recipient(object: &Node<'_>, names: &[(NamedBy, Node<'_>)]) -> (String, NamedBy) {
    let metadata = object.member("metadata");
    let wished = RECIPIENT_NAMES.iter().find_map(|name| metadata.member(name).text());
    let found = wished.map(|name| (name, NamedBy::Metadata));
    let found = found.or_else(|| names.iter().find_map(|(by, name)| name.text().map(|name| (name, *by))));
    found.map(|(name, by)| (name.to_owned(), by)).unwrap_or_default()
}

/// Finds the recipient's name in `custom_fields` of a session (`key`, `label.custom`, and the value in a member named
/// after the type) or of an invoice (`name`, `value`).
pub(super) fn filled_in<'a>(object: &Node<'a>) -> Option<(NamedBy, Node<'a>)> {
    object.member("custom_fields").items().into_iter().find_map(|field| {
        let names = [field.member("key"), field.member("name")];
        let labels = [field.member("label").member("custom"), field.member("name")];
        let is_for_recipient = names.iter().filter_map(Node::text).any(is_recipient_name)
            || labels.iter().filter_map(Node::text).any(|label| label.contains(RECIPIENT_LABEL));
        if is_for_recipient { value(&field).map(|value| (NamedBy::Field, value)) } else { None }
    })
}

/// Compares a key without its punctuation, because keys of Stripe's fields hold letters and digits only.
fn is_recipient_name(key: &str) -> bool {
    let plain =
        |text: &str| text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>();
    RECIPIENT_NAMES.iter().any(|name| plain(name) == plain(key))
}

/// What the buyer filled in; of a choice, the words that the buyer saw.
fn value<'a>(field: &Node<'a>) -> Option<Node<'a>> {
    let dropdown = field.member("dropdown");
    let chosen = dropdown.member("value");
    let mut options = dropdown.member("options").items().into_iter();
    let option = options.find(|option| chosen.text().is_some() && option.member("value").text() == chosen.text());
    let label = option.map_or_else(|| chosen.clone(), |option| option.member("label"));
    let texts = [field.member("text").member("value"), field.member("numeric").member("value"), field.member("value")];
    texts.into_iter().chain([label, chosen]).find(|value| value.text().is_some())
}

/// The merchant's name for what was sold, in metadata.
pub(super) fn item_name<'a>(object: &Node<'a>) -> Option<&'a str> {
    let metadata = object.member("metadata");
    metadata.member("item_name").text().or(metadata.member("description").text())
}

/// Reads the date or period of a sale, such as `2025-09-30` or `2025年9月分`. A date is written as documents print it.
pub(super) fn original_date(node: &Node<'_>) -> Result<Option<String>, Problem> {
    /// Largest number of characters that a document takes.
    const CHARACTERS_MAX: usize = 100;
    if node.is_missing() {
        return Ok(None);
    }
    let text: String = node.text().unwrap_or_default().nfkc().collect();
    let iso = Date::parse(&text, time::macros::format_description!("[year]-[month]-[day]"));
    let is_date = text.chars().any(|character| character.is_ascii_digit());
    match iso {
        Ok(day) => Ok(Some(document::date(day))),
        Err(_) if is_date && text.chars().count() <= CHARACTERS_MAX => Ok(Some(text)),
        Err(_) => Err(node.problem("should be a date or a period, such as 2025-09-30 or 2025年9月分")),
    }
}
