-- Payments of which a provider told are sales, each with one document, made of the fullest of its objects (readings B14,
-- B15). New states: 'announced': only a return of the sale was told so far; 'not_issued': no document can be made, for
-- the reason in `error`; 'declined': the merchant wants no document.
ALTER TABLE ingested_payments DROP CONSTRAINT ingested_payments_state_check;
ALTER TABLE ingested_payments ADD CONSTRAINT ingested_payments_state_check
    CHECK (state IN ('announced', 'waiting', 'held', 'issued', 'not_issued', 'declined'));
-- the provider, and the type of the event with the object
ALTER TABLE ingested_payments ADD COLUMN provider TEXT NOT NULL DEFAULT 'stripe';
ALTER TABLE ingested_payments ADD COLUMN event_type TEXT NOT NULL DEFAULT '';
-- how much the object knows: 0 nothing, 1 charge, 2 payment intent, 3 session, 4 session with lines, 5 invoice
ALTER TABLE ingested_payments ADD COLUMN fullness BIGINT NOT NULL DEFAULT 2;
-- the invoice that the object names
ALTER TABLE ingested_payments ADD COLUMN invoice_id TEXT NOT NULL DEFAULT '';
ALTER TABLE ingested_payments ADD COLUMN payment_id TEXT NOT NULL DEFAULT '';
-- counts the objects, so that a document of an older object is not stored
ALTER TABLE ingested_payments ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;
-- the document's lines and names, for documents of returns; nothing until the document is issued
ALTER TABLE ingested_payments ADD COLUMN sealed_sale BYTEA;
-- all that was given back of the sale, as a charge told, in yen
ALTER TABLE ingested_payments ADD COLUMN returned_yen BIGINT NOT NULL DEFAULT 0;

DROP INDEX ingested_payments_unfinished;
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
    sealed_event  BYTEA,
    -- what was given back, in yen
    amount_yen    BIGINT NOT NULL,
    -- the part of the amount for which refunds with ids have come: less than the amount if a charge told a sum
    named_yen     BIGINT NOT NULL,
    is_final      BOOLEAN NOT NULL,
    payment_id    TEXT NOT NULL,
    revision      BIGINT NOT NULL,
    attempts      BIGINT NOT NULL,
    due_at        BIGINT NOT NULL,
    error         TEXT NOT NULL,
    received_at   BIGINT NOT NULL
);

CREATE INDEX payment_returns_of_sale ON payment_returns (sale_id);
CREATE INDEX payment_returns_due ON payment_returns (due_at) WHERE state IN ('waiting', 'held');
CREATE INDEX payment_returns_held ON payment_returns (lineage_id) WHERE state = 'held';
CREATE INDEX payment_returns_unfinished ON payment_returns (account_id) WHERE state IN ('waiting', 'held');
CREATE INDEX payment_returns_unissued ON payment_returns (lineage_id, received_at, document_id)
    WHERE state IN ('waiting', 'held', 'not_issued');

-- What the shop should know about a document: JSON array of texts.
ALTER TABLE stored_documents ADD COLUMN warnings TEXT NOT NULL DEFAULT '[]';
