-- Indices that queries and the checks of references need, so that none of them reads a whole table.

-- the check of references when an account is removed
CREATE INDEX users_of_account ON users (account_id);
CREATE INDEX external_accounts_of_account ON external_accounts (account_id);
-- the end of a trial
CREATE INDEX circuit_operations_of_account ON circuit_operations (account_id);
-- the sweep of files that no answer names
CREATE INDEX kept_answers_with_blob ON kept_answers (blob) WHERE blob IS NOT NULL;
-- sessions whose node is gone
CREATE INDEX gate_sessions_open_by_end ON gate_sessions (expires_at) WHERE state = 'active';
-- the turn of the month
CREATE INDEX request_counts_by_month ON request_counts (month);
