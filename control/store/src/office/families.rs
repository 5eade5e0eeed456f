//! Issuers of stored documents, and families: a document with its corrections, their corrections, and so on.

use crate::database::{Tx, from_row, values};
use crate::{Result, Store};

/// The issuer of a stored document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentIssuer {
    /// The document's id.
    pub document_id: String,
    /// The issuer's registration number: T and 13 digits.
    pub registration_number: String,
    /// The issuer's name.
    pub name: String,
}

from_row!(DocumentIssuer { document_id, registration_number, name });

/// A document of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyDocument {
    /// The document's id.
    pub document_id: String,
    /// The id of the document that this one corrects. Empty: the family's first document.
    pub original_id: String,
    /// The kind of document.
    pub kind: String,
    /// The total with tax.
    pub total_yen: i64,
}

from_row!(FamilyDocument { document_id, original_id, kind, total_yen });

impl Store {
    /// Returns the issuer of a document; `None` if an earlier release stored the document.
    pub async fn document_issuer(&self, document_id: &str) -> Result<Option<DocumentIssuer>> {
        let sql = "SELECT document_id, registration_number, name FROM document_issuers WHERE document_id = $1";
        self.db.fetch_optional(sql, values![document_id]).await
    }
}

impl Tx {
    /// Notes who issued a document.
    pub async fn insert_document_issuer(&mut self, new: &DocumentIssuer) -> Result<()> {
        let sql = "INSERT INTO document_issuers (document_id, registration_number, name) VALUES ($1, $2, $3)";
        self.execute(sql, values![&new.document_id, &new.registration_number, &new.name]).await.map(drop)
    }

    /// Returns the family of a document, oldest first.
    pub async fn document_family(&mut self, document_id: &str) -> Result<Vec<FamilyDocument>> {
        let sql = "WITH RECURSIVE above AS (
                SELECT document_id, original_id FROM stored_documents WHERE document_id = $1
                UNION SELECT d.document_id, d.original_id FROM stored_documents d JOIN above a ON d.document_id = a.original_id
            ), family AS (
                SELECT document_id FROM above WHERE original_id = ''
                UNION SELECT d.document_id FROM stored_documents d JOIN family f ON d.original_id = f.document_id
                WHERE d.original_id <> ''
            )
            SELECT s.document_id, s.original_id, s.kind, s.total_yen FROM family f
            JOIN stored_documents s ON s.document_id = f.document_id ORDER BY s.created_at, s.document_id";
        self.fetch_all(sql, values![document_id]).await
    }
}
