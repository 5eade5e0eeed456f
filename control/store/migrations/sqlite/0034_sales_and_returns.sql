-- Payments of which a provider told are sales, each with one document, made of the fullest of its objects (readings B14,
-- B15). The table is built anew, because the states of a sale are more than its CHECK allowed:
-- 'announced': only a return of the sale was told so far; 'not_issued': no document can be made, for the reason in
-- `error`; 'declined': the merchant wants no document.
CREATE TABLE sales (
    document_id  TEXT NOT NULL PRIMARY KEY,
    account_id   TEXT NOT NULL,
    lineage_id   TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('announced', 'waiting', 'held', 'issued', 'not_issued', 'declined')),
    sealed_event BLOB,
    customer     TEXT NOT NULL,
    total_yen    INTEGER NOT NULL,
    paid_at      INTEGER NOT NULL,
    is_invoice   INTEGER NOT NULL,
    is_intent    INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    error        TEXT NOT NULL,
    received_at  INTEGER NOT NULL,
    -- the provider, and the type of the event with the object
    provider     TEXT NOT NULL DEFAULT 'stripe',
    event_type   TEXT NOT NULL DEFAULT '',
    -- how much the object knows: 0 nothing, 1 charge, 2 payment intent, 3 session, 4 session with lines, 5 invoice
    fullness     INTEGER NOT NULL DEFAULT 2,
    -- the invoice that the object names
    invoice_id   TEXT NOT NULL DEFAULT '',
    payment_id   TEXT NOT NULL DEFAULT '',
    -- counts the objects, so that a document of an older object is not stored
    revision     INTEGER NOT NULL DEFAULT 0,
    -- the document's lines and names, for documents of returns; nothing until the document is issued
    sealed_sale  BLOB,
    -- all that was given back of the sale, as a charge told, in yen
    returned_yen INTEGER NOT NULL DEFAULT 0
);
INSERT INTO sales (document_id, account_id, lineage_id, state, sealed_event, customer, total_yen, paid_at, is_invoice, is_intent,
    attempts, due_at, error, received_at)
    SELECT document_id, account_id, lineage_id, state, sealed_event, customer, total_yen, paid_at, is_invoice, is_intent,
    attempts, due_at, error, received_at FROM ingested_payments;
DROP TABLE ingested_payments;
ALTER TABLE sales RENAME TO ingested_payments;

CREATE INDEX ingested_payments_due ON ingested_payments (due_at) WHERE state IN ('waiting', 'held');
CREATE INDEX ingested_payments_held ON ingested_payments (lineage_id) WHERE state = 'held';
CREATE INDEX ingested_payments_of_customer ON ingested_payments (lineage_id, customer, total_yen) WHERE customer <> '';
CREATE INDEX ingested_payments_unfinished ON ingested_payments (account_id) WHERE state IN ('waiting', 'held');
CREATE INDEX ingested_payments_of_invoice ON ingested_payments (lineage_id, invoice_id) WHERE invoice_id <> '';
CREATE INDEX ingested_payments_unissued ON ingested_payments (lineage_id, received_at, document_id)
    WHERE state IN ('waiting', 'held', 'not_issued');

-- Returns of sales, each with one document (readings B14).
CREATE TABLE payment_returns (
    document_id   TEXT NOT NULL PRIMARY KEY,
    -- the document of the sale
    sale_id       TEXT NOT NULL,
    account_id    TEXT NOT NULL,
    lineage_id    TEXT NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('waiting', 'held', 'issued', 'not_issued', 'declined')),
    provider      TEXT NOT NULL,
    event_type    TEXT NOT NULL,
    sealed_event  BLOB,
    -- what was given back, in yen
    amount_yen    INTEGER NOT NULL,
    -- the part of the amount for which refunds with ids have come: less than the amount if a charge told a sum
    named_yen     INTEGER NOT NULL,
    is_final      INTEGER NOT NULL,
    payment_id    TEXT NOT NULL,
    revision      INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    due_at        INTEGER NOT NULL,
    error         TEXT NOT NULL,
    received_at   INTEGER NOT NULL
);

CREATE INDEX payment_returns_of_sale ON payment_returns (sale_id);
CREATE INDEX payment_returns_due ON payment_returns (due_at) WHERE state IN ('waiting', 'held');
CREATE INDEX payment_returns_held ON payment_returns (lineage_id) WHERE state = 'held';
CREATE INDEX payment_returns_unfinished ON payment_returns (account_id) WHERE state IN ('waiting', 'held');
CREATE INDEX payment_returns_unissued ON payment_returns (lineage_id, received_at, document_id)
    WHERE state IN ('waiting', 'held', 'not_issued');

-- What the shop should know about a document: JSON array of texts.
ALTER TABLE stored_documents ADD COLUMN warnings TEXT NOT NULL DEFAULT '[]';
