//! Values that several bodies share: numbers, words of closed sets, and texts with a pattern.

use serde::{Deserialize, Serialize};
use serde_json::Value;
#[cfg(feature = "openapi")]
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, SchemaType, Type};

/// Types that hold one value. Their schemas are written by hand.
macro_rules! values {
    ($($doc:literal $name:ident($type:ty) = $schema:expr;)*) => {$(
        #[doc = $doc]
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $type);

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $schema.description(Some($doc)).into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {}
    )*};
}

#[cfg(feature = "openapi")]
fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

#[cfg(feature = "openapi")]
fn word<const N: usize>(words: [&str; N]) -> ObjectBuilder {
    text().enum_values(Some(words))
}

#[cfg(feature = "openapi")]
fn integer() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer)
}

values! {
    "An exact decimal: a number, or a number as a text, with up to 12 digits before the point and up to 6 after it."
    Decimal(Value) = AnyOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::Number))
        .item(text().pattern(Some(r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$")));

    "Whole yen, not negative: a number, or a number as a text."
    WholeYen(Value) = AnyOfBuilder::new()
        .item(integer().minimum(Some(0)).maximum(Some(999_999_999_999_i64)))
        .item(text().pattern(Some(r"^\+?[0-9]{1,12}(\.0*)?$")));

    "A number, or a number as a text."
    NumberOrText(Value) = AnyOfBuilder::new().item(ObjectBuilder::new().schema_type(Type::Number)).item(text());

    "A text in a provider's object. A value of another type counts as absent, because providers may add other types."
    LooseText(Value) = ObjectBuilder::new().schema_type(SchemaType::AnyValue);

    "A rate of consumption tax in percent."
    TaxRate(i64) = integer().enum_values(Some([8, 10]));

    "Index of a line item in `items`, counted from 0."
    LinePlace(i64) = integer().minimum(Some(0)).maximum(Some(999));

    "A registration number: T and 13 digits. Full-width characters and spaces are normalised first."
    RegistrationNumber(String) = text().pattern(Some("^T[0-9]{13}$"));

    "A registration number, which is T and 13 digits, or a corporate number, which is 13 digits. Full-width characters and \
     spaces are normalised first."
    RecipientNumber(String) = text().pattern(Some("^T?[0-9]{13}$"));

    "A colour of the form `#2B4C7E`. Empty means the default colour."
    BrandColor(String) = text().pattern(Some("^(#[0-9A-Fa-f]{6})?$"));

    "A `data:` URI of a PNG or JPEG picture, at most 512 KB and 4 megapixels. Empty means no picture. Pictures at web \
     addresses are not fetched."
    PictureUri(String) = text().pattern(Some("^(data:image/(png|jpeg|jpg);base64,[A-Za-z0-9+/]+={0,2})?$"));

    "A language."
    Locale(String) = word(["ja"]);

    "Rounding of fractions of a yen, once for each tax rate. `round` rounds to the nearest yen, and a half away from \
     zero. `half_up` means the same as `round`."
    Rounding(String) = word(["floor", "round", "ceil", "half_up"]);

    "Type of a document. `credit_note` and `corrected_invoice` need the date of the original sale. These other names \
     are accepted too: `qualified_invoice`, `simplified`, `return_invoice`, `return`, `corrected`, and 適格請求書, 請求書, \
     適格簡易請求書, 領収書, 適格返還請求書, 修正請求書, 納品書, 見積書."
    DocumentType(String) = word(
        ["invoice", "simplified_invoice", "receipt", "credit_note", "corrected_invoice", "delivery_note", "quote"],
    );

    "Type of a document, as in `DocumentType`. Empty means `receipt`."
    ProfileDocumentType(String) = word(
        ["", "invoice", "simplified_invoice", "receipt", "credit_note", "corrected_invoice", "delivery_note", "quote"],
    );

    "Type of a bank account: 普通 (`ordinary`, `futsu`), 当座 (`checking`, `toza`) or 貯蓄 (`savings`, `chochiku`)."
    BankAccountType(String) = word(
        ["普通", "当座", "貯蓄", "ordinary", "futsu", "checking", "toza", "savings", "chochiku"],
    );

    "A category of remuneration. Fees and occupations are accepted too, such as 講演料, デザイン料 or 税理士."
    Category(String) = word([
        "原稿料等", "弁護士等", "司法書士等", "診療報酬", "プロスポーツ選手等", "プロボクサー", "外交員等", "芸能等", "ホステス等", "契約金",
        "広告宣伝賞金", "競馬賞金", "対象外",
    ]);

    "Amount from which withholding tax is computed: the fee without or with consumption tax."
    WithholdingBasis(String) = word(["tax_exclusive", "tax_inclusive"]);

    "A payment provider. `generic` means any other provider, whose payment objects have the members that \
     `PaymentObject` names."
    Provider(String) = word(["stripe", "payjp", "generic"]);

    "Treatment of the consumption tax in a transfer. `separate` means that the payee's invoice states the consumption \
     tax separately, so no tax is withheld from it."
    DeclaredTax(String) = word(["separate", "included", "none"]);

    "Meaning of a transfer's amount. `gross` means the fee before withholding. `net_of_withholding` means the amount \
     that remains after withholding."
    DeclaredAmount(String) = word(["gross", "net_of_withholding"]);

    "Method of comparing names. `text` ignores width, case, spaces and punctuation. `exact` compares names as \
     written. `company` is like `text`, and ignores legal forms of companies. `kana` is like `company`, and treats \
     hiragana as katakana. `bank` compares account holders as banks write them. `number` compares digits only."
    NameKind(String) = word(["text", "exact", "company", "kana", "bank", "number"]);

    "A plan of a key that the administrator issues."
    OfficePlan(String) = word(["free", "payg", "starter", "pro", "scale", "enterprise"]);

    "Delivery of the documents that are made from payments: store them (`store`), send them to the buyer (`email`), \
     or both (`both`)."
    DeliveryMode(String) = word(["store", "email", "both"]);
}
