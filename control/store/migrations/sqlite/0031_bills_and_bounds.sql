-- Bills of months through the payment provider. A row is written before the provider is asked, so a node that dies in
-- between goes on with the same invoice, however late.
CREATE TABLE usage_bills (
    account_id   TEXT NOT NULL,
    month        INTEGER NOT NULL,
    -- the amount of the bill, decided once
    cents        INTEGER NOT NULL,
    -- the provider's invoice; empty until the provider has made one
    invoice_id   TEXT NOT NULL,
    -- number of attempts, a part of idempotency keys, and when the last attempt began
    attempt      INTEGER NOT NULL,
    attempted_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, month)
) STRICT, WITHOUT ROWID;

CREATE INDEX usage_bills_of_month ON usage_bills (month, account_id);

-- finds the customer of an account whose keys were bought
CREATE INDEX purchases_of_account ON purchases (account_id, created_at);

-- counts what customers owe
CREATE INDEX invoices_open ON invoices (issued_at) WHERE status = 'open';

-- counts the payments of an account that have no document yet
CREATE INDEX ingested_payments_unfinished ON ingested_payments (account_id) WHERE state <> 'issued';
