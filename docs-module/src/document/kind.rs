//! Kinds of documents. The law requires entries, not titles (general notices 1-8-1 and 1-8-2); the titles are the
//! customary ones.

/// A kind of document (B23).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// 適格請求書.
    #[default]
    Invoice,
    /// 適格簡易請求書: from businesses that serve the general public; the recipient may be missing.
    SimplifiedInvoice,
    /// 領収書.
    Receipt,
    /// 適格返還請求書.
    CreditNote,
    /// 修正した適格請求書.
    CorrectedInvoice,
    /// 納品書.
    DeliveryNote,
    /// 見積書: not a document of the tax act.
    Quote,
}

/// The names of a kind as values of `document_type`, and the words that its documents print.
pub(super) struct Wording {
    name: &'static str,
    others: &'static [&'static str],
    /// The title.
    pub title: &'static str,
    /// The legal name of the kind, below the title.
    pub by_law: Option<&'static str>,
    /// The sentence above the sum.
    pub opening: Option<&'static str>,
    /// Label of the sum.
    pub sum: &'static str,
    /// Label of the date of issue.
    pub issued: &'static str,
    /// Label of `due_date`.
    pub due: &'static str,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 7] = [
        Kind::Invoice,
        Kind::SimplifiedInvoice,
        Kind::Receipt,
        Kind::CreditNote,
        Kind::CorrectedInvoice,
        Kind::DeliveryNote,
        Kind::Quote,
    ];

    /// The values of `document_type`, without synonyms.
    pub fn names() -> [&'static str; 7] {
        Kind::ALL.map(Kind::name)
    }

    /// Finds the kind whose value of `document_type`, or a synonym of this value, is `name`.
    pub fn of_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| {
            let wording = kind.wording();
            wording.name == name || wording.others.contains(&name)
        })
    }

    /// The kind's value of `document_type`.
    pub fn name(self) -> &'static str {
        self.wording().name
    }

    /// The title.
    pub fn title(self) -> &'static str {
        self.wording().title
    }

    /// Whether the document must state the date or period of the original sale (`original_date`).
    pub fn needs_original(self) -> bool {
        matches!(self, Kind::CreditNote | Kind::CorrectedInvoice)
    }

    /// Whether the tax act requires the recipient's name.
    pub fn needs_recipient(self) -> bool {
        matches!(self, Kind::Invoice | Kind::CorrectedInvoice | Kind::DeliveryNote)
    }

    pub(super) fn wording(self) -> &'static Wording {
        match self {
            Kind::Invoice => &Wording {
                name: "invoice",
                others: &["qualified_invoice", "適格請求書", "請求書"],
                title: "請求書",
                by_law: Some("適格請求書"),
                opening: Some("下記のとおりご請求申し上げます。"),
                sum: "ご請求金額",
                issued: "発行日",
                due: "お支払期限",
            },
            Kind::SimplifiedInvoice => &Wording {
                name: "simplified_invoice",
                others: &["simplified", "適格簡易請求書"],
                title: "適格簡易請求書",
                by_law: None,
                opening: None,
                sum: "合計金額",
                issued: "発行日",
                due: "お支払期限",
            },
            Kind::Receipt => &Wording {
                name: "receipt",
                others: &["領収書"],
                title: "領収書",
                by_law: None,
                opening: Some("下記正に領収いたしました。"),
                sum: "領収金額",
                issued: "領収日",
                due: "お支払期限",
            },
            Kind::CreditNote => &Wording {
                name: "credit_note",
                others: &["return_invoice", "return", "適格返還請求書"],
                title: "適格返還請求書",
                by_law: None,
                opening: Some("下記のとおり返還いたします。"),
                sum: "返還金額",
                issued: "返還日",
                due: "お支払期限",
            },
            Kind::CorrectedInvoice => &Wording {
                name: "corrected_invoice",
                others: &["corrected", "修正請求書"],
                title: "請求書（修正）",
                by_law: Some("修正した適格請求書"),
                opening: Some("先の請求書を下記のとおり修正いたします。"),
                sum: "修正後ご請求金額",
                issued: "発行日",
                due: "お支払期限",
            },
            Kind::DeliveryNote => &Wording {
                name: "delivery_note",
                others: &["納品書"],
                title: "納品書",
                by_law: None,
                opening: Some("下記のとおり納品いたしました。"),
                sum: "合計金額",
                issued: "納品日",
                due: "お支払期限",
            },
            Kind::Quote => &Wording {
                name: "quote",
                others: &["見積書"],
                title: "見積書",
                by_law: None,
                opening: Some("下記のとおりお見積り申し上げます。"),
                sum: "お見積金額",
                issued: "発行日",
                due: "有効期限",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b23_each_name_means_one_kind() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of_name(kind.name()), Some(kind));
            for other in kind.wording().others {
                assert_eq!(Kind::of_name(other), Some(kind), "{other}");
            }
        }
        assert_eq!((Kind::of_name(""), Kind::of_name("Invoice"), Kind::default().name()), (None, None, "invoice"));
        // a quote has no effect in tax law, so it does not print the name of a legal document
        assert!(Kind::Quote.wording().by_law.is_none());
    }
}
