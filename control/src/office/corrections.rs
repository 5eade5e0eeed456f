//! The documents that may correct a stored document (consumption tax act, article 57-4, paragraphs 3 and 4): a corrected
//! invoice or a credit note of the same issuer, or a new copy. Credit notes never return more than was sold.

use docs_module::document::{Document, Kind};
use docs_module::reconcile::{NameKind, key};
use docs_module::request::{Fault, Place};
use store::{DocumentIssuer, FamilyDocument, StoredDocument};

use super::Office;
use super::body::refusal;
use crate::web::error::ApiError;

/// The conditions that a correction of a document must meet.
pub(super) struct Rules {
    kinds: Vec<Kind>,
    /// The original's registration number; `None`: unknown.
    registration_number: Option<String>,
    /// Names of the issuer, of which the correction has one. Empty: unknown.
    names: Vec<String>,
}

impl Office {
    /// Reads what a correction of a document must have. A document of an earlier release has the number of the key's
    /// profile. A new name of the issuer is allowed when the profile has it.
    pub(super) async fn rules_of_correction(&self, original: &StoredDocument) -> Result<Rules, ApiError> {
        let issuer = self.store.document_issuer(&original.document_id).await?;
        let record = self.store.issuer_profile(&original.lineage_id).await?;
        let profile = record.map(|record| self.opened_profile(&record)).transpose()?.map(|set| set.profile.issuer);
        let number_of_profile = profile.as_ref().map(|issuer| issuer.registration_number.to_string());
        let kind = Kind::of_name(&original.kind);
        let kind = kind.ok_or_else(|| ApiError::internal("a stored document has an unknown kind"))?;
        Ok(Rules {
            kinds: kinds(kind),
            registration_number: issuer.as_ref().map(|issuer| issuer.registration_number.clone()).or(number_of_profile),
            names: issuer.map(|issuer| issuer.name).into_iter().chain(profile.map(|issuer| issuer.name)).collect(),
        })
    }
}

/// The kinds of documents that may correct a document of this kind. A credit note is no invoice, so only a credit note
/// corrects it; a quote is about no sale.
fn kinds(original: Kind) -> Vec<Kind> {
    let mut kinds = vec![original];
    let further: &[Kind] = match original {
        Kind::CreditNote | Kind::Quote => &[],
        Kind::CorrectedInvoice => &[Kind::CreditNote],
        _ => &[Kind::CorrectedInvoice, Kind::CreditNote],
    };
    kinds.extend(further);
    kinds
}

impl Rules {
    /// Checks a correction.
    ///
    /// # Errors
    /// The members that are not allowed.
    pub(super) fn check(&self, document: &Document) -> Result<(), Vec<Fault>> {
        let mut faults = Vec::new();
        let mut fault = |member: &'static str, expected: String| {
            faults.push(Fault::new("value_error", vec!["body".into(), Place::from(member)], &expected));
        };
        let draft = &document.draft;
        if !self.kinds.contains(&draft.kind) {
            let allowed: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
            fault("document_type", format!("should be one of: {}, to correct this document", allowed.join(", ")));
        }
        let number = draft.issuer.registration_number.to_string();
        if let Some(original) = self.registration_number.as_ref().filter(|original| **original != number) {
            fault("registration_number", format!("should be {original}, the number of the document to correct"));
        }
        let is_same = |name: &String| key(NameKind::Company, name) == key(NameKind::Company, &draft.issuer.name);
        if !self.names.is_empty() && !self.names.iter().any(is_same) {
            fault(
                "issuer",
                "should be the issuer of the document to correct, or the issuer of your profile".to_owned(),
            );
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }
}

/// Makes the note of who issued a document.
pub(super) fn issuer_of(document: &Document, document_id: &str) -> DocumentIssuer {
    let issuer = &document.draft.issuer;
    DocumentIssuer {
        document_id: document_id.to_owned(),
        registration_number: issuer.registration_number.to_string(),
        name: issuer.name.clone(),
    }
}

/// Checks that a credit note returns no more than was sold and is not returned yet. `family`: the family of the document
/// that it corrects, oldest first.
///
/// # Errors
/// 422 for the line items.
pub(super) fn check_credit(family: &[FamilyDocument], new: &StoredDocument) -> Result<(), ApiError> {
    if new.kind != Kind::CreditNote.name() {
        return Ok(());
    }
    let Some(room) = room_for_credit(family, &new.original_id).filter(|room| new.total_yen.saturating_abs() > *room)
    else {
        return Ok(());
    };
    let expected = format!("should add up to at most {room} yen, because no more of the sale is left to return");
    Err(refusal(vec![Fault::new("value_error", vec!["body".into(), "items".into()], &expected)]))
}

/// Returns how many yen a credit note for a document may have. A sale's total is that of its latest copy or correction.
/// A copy of a credit note takes the place of that credit note. `None`: the sale is not stored.
fn room_for_credit(family: &[FamilyDocument], original_id: &str) -> Option<i64> {
    let is_credit = |document: &FamilyDocument| document.kind == Kind::CreditNote.name();
    let sale = family.iter().rfind(|document| !is_credit(document))?;
    // the totals of credit notes, by the id of their latest copy
    let mut credits: Vec<(&str, i64)> = Vec::new();
    for document in family.iter().filter(|document| is_credit(document)) {
        credits.retain(|(id, _)| *id != document.original_id);
        credits.push((&document.document_id, document.total_yen.saturating_abs()));
    }
    let returned = credits.iter().filter(|(id, _)| *id != original_id).map(|(_, total)| total).sum::<i64>();
    Some((sale.total_yen - returned).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(documents: &[(&str, &str, &str, i64)]) -> Vec<FamilyDocument> {
        let document = |(id, original, kind, total_yen): &(&str, &str, &str, i64)| FamilyDocument {
            document_id: (*id).to_owned(),
            original_id: (*original).to_owned(),
            kind: (*kind).to_owned(),
            total_yen: *total_yen,
        };
        documents.iter().map(document).collect()
    }

    #[test]
    fn b1_credit_notes_of_a_family_return_no_more_than_was_sold() {
        let mut all = vec![("sale", "", "receipt", 1_000)];
        assert_eq!(room_for_credit(&family(&all), "sale"), Some(1_000));
        all.push(("first", "sale", "credit_note", -600));
        assert_eq!(room_for_credit(&family(&all), "sale"), Some(400));
        // a copy of the credit note takes its place, also the copy of a copy
        assert_eq!(room_for_credit(&family(&all), "first"), Some(1_000));
        all.push(("copy", "first", "credit_note", -700));
        assert_eq!(room_for_credit(&family(&all), "sale"), Some(300));
        assert_eq!(room_for_credit(&family(&all), "copy"), Some(1_000));
        // a correction of the sale changes what was sold
        all.push(("corrected", "sale", "corrected_invoice", 800));
        assert_eq!(room_for_credit(&family(&all), "corrected"), Some(100));
        assert_eq!(room_for_credit(&family(&[("only", "", "credit_note", -5)]), "only"), None);
    }

    #[test]
    fn b1_kinds_that_correct_a_document() {
        assert_eq!(kinds(Kind::Receipt), [Kind::Receipt, Kind::CorrectedInvoice, Kind::CreditNote]);
        assert_eq!(kinds(Kind::CorrectedInvoice), [Kind::CorrectedInvoice, Kind::CreditNote]);
        assert_eq!((kinds(Kind::CreditNote), kinds(Kind::Quote)), (vec![Kind::CreditNote], vec![Kind::Quote]));
    }
}
