-- The back office: what its operations cost, profiles of issuers, documents of payments, and keys that were bought.

-- A row for each completed call.
CREATE TABLE office_usage (
    usage_id    TEXT NOT NULL PRIMARY KEY,
    -- what paid for it; none where nothing was to pay
    transfer_id TEXT,
    account_id  TEXT NOT NULL,
    lineage_id  TEXT NOT NULL,
    environment TEXT NOT NULL,
    operation   TEXT NOT NULL,
    -- documents, payees or numbers
    units       INTEGER NOT NULL CHECK (units >= 0),
    milli_yen   INTEGER NOT NULL CHECK (milli_yen >= 0),
    created_at  INTEGER NOT NULL
);

-- Its sums. Months count from year 0, UTC.
CREATE TABLE office_totals (
    account_id TEXT NOT NULL,
    month      INTEGER NOT NULL,
    lineage_id TEXT NOT NULL,
    operation  TEXT NOT NULL,
    calls      INTEGER NOT NULL CHECK (calls >= 0),
    units      INTEGER NOT NULL CHECK (units >= 0),
    milli_yen  INTEGER NOT NULL CHECK (milli_yen >= 0),
    PRIMARY KEY (account_id, month, lineage_id, operation)
);

-- Monthly caps of keys; none is no row.
CREATE TABLE office_caps (
    lineage_id TEXT NOT NULL PRIMARY KEY,
    cap_yen    INTEGER NOT NULL CHECK (cap_yen > 0),
    updated_at INTEGER NOT NULL
);

-- Thresholds of caps that were reached.
CREATE TABLE office_cap_alerts (
    lineage_id TEXT NOT NULL,
    month      INTEGER NOT NULL,
    cap_yen    INTEGER NOT NULL,
    -- percent
    threshold  INTEGER NOT NULL,
    reached_at INTEGER NOT NULL,
    PRIMARY KEY (lineage_id, month, cap_yen, threshold)
);

-- What a key's documents of payments have, and the token of the address to which its payment provider sends events.
CREATE TABLE issuer_profiles (
    lineage_id     TEXT NOT NULL PRIMARY KEY,
    account_id     TEXT NOT NULL,
    -- the environment of the key that set it
    environment    TEXT NOT NULL,
    sealed_profile BLOB NOT NULL,
    token_digest   BLOB NOT NULL,
    sealed_token   BLOB NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL
);

CREATE UNIQUE INDEX issuer_profiles_by_token ON issuer_profiles (token_digest);

-- Payments of which a provider told. Each has one document.
CREATE TABLE ingested_payments (
    -- the document's id
    document_id  TEXT NOT NULL PRIMARY KEY,
    account_id   TEXT NOT NULL,
    lineage_id   TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('waiting', 'held', 'issued')),
    -- the object that told of it; nothing when the document is issued
    sealed_event BLOB,
    -- what joins an invoice with the payment intent that paid it, where neither names the other
    customer     TEXT NOT NULL,
    total_yen    INTEGER NOT NULL,
    paid_at      INTEGER NOT NULL,
    is_invoice   INTEGER NOT NULL,
    is_intent    INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    error        TEXT NOT NULL,
    received_at  INTEGER NOT NULL
);

CREATE INDEX ingested_payments_due ON ingested_payments (due_at) WHERE state IN ('waiting', 'held');
CREATE INDEX ingested_payments_held ON ingested_payments (lineage_id) WHERE state = 'held';
CREATE INDEX ingested_payments_of_customer ON ingested_payments (lineage_id, customer, total_yen) WHERE customer <> '';

-- The ids of a payment's objects and events.
CREATE TABLE payment_names (
    lineage_id  TEXT NOT NULL,
    name        TEXT NOT NULL,
    document_id TEXT NOT NULL,
    PRIMARY KEY (lineage_id, name)
);

CREATE INDEX payment_names_of_document ON payment_names (document_id);

-- Documents that were issued for payments, and corrections of them. Rows and files are only ever added.
CREATE TABLE stored_documents (
    document_id      TEXT NOT NULL PRIMARY KEY,
    account_id       TEXT NOT NULL,
    lineage_id       TEXT NOT NULL,
    number           TEXT NOT NULL,
    kind             TEXT NOT NULL,
    recipient        TEXT NOT NULL,
    -- the name as it is searched for
    recipient_key    TEXT NOT NULL,
    total_yen        INTEGER NOT NULL,
    -- YYYY-MM-DD
    issue_date       TEXT NOT NULL,
    transaction_date TEXT NOT NULL,
    payment_id       TEXT NOT NULL,
    -- the document that it corrects
    original_id      TEXT NOT NULL,
    pdf_sha256       TEXT NOT NULL,
    delivery_status  TEXT NOT NULL CHECK (delivery_status IN ('stored', 'not_sent', 'pending', 'sent', 'failed')),
    created_at       INTEGER NOT NULL
);

CREATE INDEX stored_documents_of_lineage ON stored_documents (lineage_id, created_at, document_id);

CREATE TABLE document_files (
    document_id TEXT NOT NULL PRIMARY KEY,
    sealed_pdf  BLOB NOT NULL
);

-- The document that is attached to an e-mail; none where it is empty.
ALTER TABLE emails ADD COLUMN document_id TEXT NOT NULL DEFAULT '';

-- What the operator or the buyer calls a key.
CREATE TABLE key_labels (
    lineage_id TEXT NOT NULL PRIMARY KEY,
    customer   TEXT NOT NULL
);

-- Keys that were bought at the payment provider.
CREATE TABLE purchases (
    -- the provider's id of the checkout
    session_id      TEXT NOT NULL PRIMARY KEY,
    customer_id     TEXT NOT NULL,
    subscription_id TEXT NOT NULL,
    account_id      TEXT NOT NULL,
    lineage_id      TEXT NOT NULL,
    plan            TEXT NOT NULL,
    -- the plan that was asked for and is not known; empty: none
    unknown_plan    TEXT NOT NULL,
    -- the key, as long as it is shown
    sealed_key      BLOB,
    created_at      INTEGER NOT NULL
);

CREATE INDEX purchases_of_subscription ON purchases (subscription_id) WHERE subscription_id <> '';
CREATE INDEX purchases_of_customer ON purchases (customer_id) WHERE customer_id <> '';
CREATE INDEX purchases_shown ON purchases (created_at) WHERE sealed_key IS NOT NULL;

-- Subscriptions that are over: a purchase that is told of later brings a key that is revoked.
CREATE TABLE ended_purchases (
    subscription_id TEXT NOT NULL PRIMARY KEY,
    ended_at        INTEGER NOT NULL
);
