-- Subscriptions, invoices, what the payment provider tells, alerts, e-mails, and the jobs of all nodes.

-- An account that did not pay: its operations are refused (readings P18).
ALTER TABLE accounts ADD COLUMN is_suspended INTEGER NOT NULL DEFAULT FALSE;

-- An account's subscription, and its customer at the payment provider. The plan in force is the account's.
CREATE TABLE subscriptions (
    account_id               TEXT NOT NULL PRIMARY KEY,
    -- counts changes: whoever writes names the one that was read
    version                  INTEGER NOT NULL,
    -- none: there is no subscription, only a customer
    status                   TEXT NOT NULL CHECK (status IN ('none', 'active', 'trial', 'cancelled', 'past_due', 'unpaid')),
    billing_cycle            TEXT NOT NULL CHECK (billing_cycle IN ('monthly', 'annual')),
    -- the period that is paid, in microseconds since 1970
    period_start             INTEGER NOT NULL,
    period_end               INTEGER NOT NULL,
    -- what comes at its end; empty: the same again
    scheduled_plan           TEXT NOT NULL,
    scheduled_cycle          TEXT NOT NULL,
    -- since when a payment is due that failed; 0: none
    past_due_since           INTEGER NOT NULL,
    -- the billing contact
    email                    TEXT NOT NULL,
    -- the provider's names; empty where it has none
    customer_id              TEXT NOT NULL,
    provider_subscription_id TEXT NOT NULL,
    updated_at               INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX subscriptions_by_end ON subscriptions (period_end) WHERE status <> 'none';
CREATE INDEX subscriptions_past_due ON subscriptions (past_due_since) WHERE status = 'past_due';
CREATE UNIQUE INDEX subscriptions_of_customer ON subscriptions (customer_id) WHERE customer_id <> '';

-- Wishes for a plan whose price is agreed with the operator.
CREATE TABLE plan_requests (
    account_id   TEXT NOT NULL,
    plan         TEXT NOT NULL,
    email        TEXT NOT NULL,
    requested_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, plan)
) STRICT, WITHOUT ROWID;

CREATE TABLE invoices (
    invoice_id       TEXT NOT NULL PRIMARY KEY,
    account_id       TEXT NOT NULL,
    -- months since year 0, UTC
    month            INTEGER NOT NULL,
    status           TEXT NOT NULL CHECK (status IN ('draft', 'open', 'paid', 'void', 'uncollectible')),
    amount_usd_cents INTEGER NOT NULL,
    period_start     INTEGER NOT NULL,
    period_end       INTEGER NOT NULL,
    issued_at        INTEGER NOT NULL,
    -- 0: not paid
    paid_at          INTEGER NOT NULL,
    url              TEXT NOT NULL,
    -- payments that failed
    failures         INTEGER NOT NULL,
    -- the provider made it, not this service
    is_provided      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX invoices_of_account ON invoices (account_id, issued_at, invoice_id);

-- Lines of invoices that this service makes; of none yet where invoice_id is empty.
CREATE TABLE invoice_items (
    item_id          TEXT NOT NULL PRIMARY KEY,
    account_id       TEXT NOT NULL,
    month            INTEGER NOT NULL,
    description      TEXT NOT NULL,
    amount_usd_cents INTEGER NOT NULL,
    invoice_id       TEXT NOT NULL,
    created_at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX invoice_items_of_account ON invoice_items (account_id, month);
CREATE INDEX invoice_items_open ON invoice_items (month, account_id) WHERE invoice_id = '';
CREATE INDEX invoice_items_of_invoice ON invoice_items (invoice_id) WHERE invoice_id <> '';

-- Months of accounts that were billed.
CREATE TABLE closed_months (
    account_id TEXT NOT NULL,
    month      INTEGER NOT NULL,
    closed_at  INTEGER NOT NULL,
    PRIMARY KEY (account_id, month)
) STRICT, WITHOUT ROWID;

CREATE INDEX ledger_balances_of_month ON ledger_balances (month, account_id);

-- What the payment provider told, as it came. It is kept before it is looked at.
CREATE TABLE provider_events (
    event_id    TEXT NOT NULL PRIMARY KEY,
    event_type  TEXT NOT NULL,
    body        TEXT NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('pending', 'done')),
    attempts    INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,
    error       TEXT NOT NULL,
    received_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX provider_events_due ON provider_events (due_at) WHERE status = 'pending';
CREATE INDEX provider_events_by_age ON provider_events (received_at);

-- What was announced, so that it is announced once, whatever the provider repeats.
CREATE TABLE announcements (
    fact       TEXT NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Thresholds that were reached: once for each period, kind, threshold and cap.
CREATE TABLE alerts (
    account_id TEXT NOT NULL,
    -- months since year 0; of limits of a day, days since 1970
    period     INTEGER NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('usage', 'budget', 'operations')),
    -- percent
    threshold  INTEGER NOT NULL,
    -- the cap of a budget; else 0
    for_cap    INTEGER NOT NULL,
    -- what it is percent of: compute units, billionths of a dollar, operations
    of_limit   INTEGER NOT NULL,
    used       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    is_told    INTEGER NOT NULL,
    PRIMARY KEY (account_id, period, kind, threshold, for_cap)
) STRICT, WITHOUT ROWID;

CREATE INDEX alerts_by_age ON alerts (is_told, created_at);

CREATE TABLE emails (
    email_id   TEXT NOT NULL PRIMARY KEY,
    recipient  TEXT NOT NULL,
    subject    TEXT NOT NULL,
    body       TEXT NOT NULL,
    status     TEXT NOT NULL CHECK (status IN ('pending', 'sent', 'failed')),
    attempts   INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,
    error      TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX emails_due ON emails (due_at) WHERE status = 'pending';
CREATE INDEX emails_by_age ON emails (created_at);

-- Jobs that one node at a time does.
CREATE TABLE jobs (
    name         TEXT NOT NULL PRIMARY KEY,
    node_id      TEXT NOT NULL,
    leased_until INTEGER NOT NULL,
    -- how far the job has come, in its own terms
    done_through INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
