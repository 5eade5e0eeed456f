-- Who issued a stored document. Documents of earlier releases have no row.
CREATE TABLE document_issuers (
    document_id         TEXT NOT NULL PRIMARY KEY,
    registration_number TEXT NOT NULL,
    name                TEXT NOT NULL
);

-- The corrections of a document.
CREATE INDEX stored_documents_of_original ON stored_documents (original_id) WHERE original_id <> '';
