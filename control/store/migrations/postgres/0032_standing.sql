-- The standing of accounts: the plan in force, and whether the account is past due or suspended, are computed from records (readings
-- B7, P18). The columns plan and is_suspended of accounts hold the result.

-- The plan that the operator granted, or with which the account began. Empty: a node of the release before made the account.
ALTER TABLE accounts ADD COLUMN granted_plan TEXT NOT NULL DEFAULT '';
ALTER TABLE accounts ADD COLUMN payment TEXT NOT NULL DEFAULT 'active' CHECK (payment IN ('active', 'past_due', 'unpaid'));
-- since when a payment is overdue; 0: none is
ALTER TABLE accounts ADD COLUMN overdue_since BIGINT NOT NULL DEFAULT 0;
-- the operator's word: no suspension before this time
ALTER TABLE accounts ADD COLUMN excused_until BIGINT NOT NULL DEFAULT 0;
-- the next time at which the standing changes although no record changes; 0: none
ALTER TABLE accounts ADD COLUMN standing_due_at BIGINT NOT NULL DEFAULT 0;
-- number of days in which invoices made here must be paid; null: the number in the settings
ALTER TABLE accounts ADD COLUMN invoice_term_days BIGINT;
-- whether the customer was told of the present suspension
ALTER TABLE accounts ADD COLUMN is_suspension_told BOOLEAN NOT NULL DEFAULT FALSE;

UPDATE accounts SET is_suspension_told = is_suspended;

CREATE INDEX accounts_standing_due ON accounts (standing_due_at) WHERE standing_due_at > 0;
CREATE INDEX accounts_untold ON accounts (account_id) WHERE is_suspended <> is_suspension_told;
CREATE INDEX accounts_overdue ON accounts (overdue_since) WHERE overdue_since > 0;

-- The plan of the subscription alone, or payg if the customer stored a payment method without a subscription.
ALTER TABLE subscriptions ADD COLUMN plan TEXT NOT NULL DEFAULT 'free';

UPDATE subscriptions SET plan = (SELECT a.plan FROM accounts a WHERE a.account_id = subscriptions.account_id)
WHERE EXISTS (SELECT 1 FROM accounts a WHERE a.account_id = subscriptions.account_id AND (subscriptions.status <> 'none' OR a.plan = 'payg'));

UPDATE accounts SET granted_plan = CASE
    WHEN plan = 'enterprise' THEN plan
    WHEN EXISTS (SELECT 1 FROM subscriptions s WHERE s.account_id = accounts.account_id AND (s.status <> 'none' OR s.plan = accounts.plan)) THEN 'free'
    WHEN EXISTS (SELECT 1 FROM purchases p WHERE p.account_id = accounts.account_id AND p.plan = accounts.plan) THEN 'free'
    ELSE plan END;

-- From this time on an open invoice is overdue; 0: not known. Of an invoice of the provider: when a payment first failed.
ALTER TABLE invoices ADD COLUMN due_at BIGINT NOT NULL DEFAULT 0;
-- The notices about the payment of the invoice: the last one that was sent, and when the next is due; 0: none is.
ALTER TABLE invoices ADD COLUMN notice TEXT NOT NULL DEFAULT '';
ALTER TABLE invoices ADD COLUMN notice_at BIGINT NOT NULL DEFAULT 0;

CREATE INDEX invoices_unpaid ON invoices (account_id, due_at) WHERE due_at > 0 AND status IN ('open', 'uncollectible');
CREATE INDEX invoices_notice ON invoices (notice_at) WHERE notice_at > 0;

-- Recipient, subject and text of an e-mail, and the body of an event of the provider, encrypted, because they name buyers. Null: the
-- row is of the release before, and the text columns have the contents; otherwise the text columns are empty.
ALTER TABLE emails ADD COLUMN sealed BYTEA;
ALTER TABLE provider_events ADD COLUMN sealed_body BYTEA;

-- Open invoices made here had no day on which they were due: they are due 30 days from now, with all notices.
UPDATE invoices SET due_at = (CAST(EXTRACT(EPOCH FROM now()) AS BIGINT) + 30 * 86400) * 1000000, notice_at = 1 WHERE status = 'open' AND is_provided = FALSE;

-- nodes compute the standing of accounts with such records again
UPDATE accounts SET standing_due_at = 1 WHERE EXISTS (SELECT 1 FROM invoices i WHERE i.account_id = accounts.account_id AND i.due_at > 0)
OR EXISTS (SELECT 1 FROM subscriptions s WHERE s.account_id = accounts.account_id AND s.status IN ('past_due', 'unpaid'));
