-- Keys that are rotated, and trials: accounts of half an hour.

-- when a successor took over; until it expires the key is in its grace period
ALTER TABLE api_keys ADD COLUMN rotated_at INTEGER;
-- to the minute
ALTER TABLE api_keys ADD COLUMN last_used_at INTEGER;
-- of trial keys: two bytes of a keyed digest for each of the key's beginnings of 17 characters and more
ALTER TABLE api_keys ADD COLUMN prefix_tags BLOB;

CREATE INDEX IF NOT EXISTS api_keys_of_lineage ON api_keys (lineage_id);
CREATE INDEX api_keys_of_trials ON api_keys (key_prefix) WHERE environment = 'trial';

-- when everything it owned was erased
ALTER TABLE accounts ADD COLUMN erased_at INTEGER;

-- One row a trial until it is erased.
CREATE TABLE trials (
    account_id      TEXT NOT NULL PRIMARY KEY REFERENCES accounts (account_id),
    expires_at      INTEGER NOT NULL,
    -- gates and compute operations that are done or under way
    operations_used INTEGER NOT NULL DEFAULT 0 CHECK (operations_used >= 0)
) STRICT;

CREATE INDEX trials_expiry ON trials (expires_at);

-- trial keys have accounts of their own; a key put into an account that has others ends alone
INSERT INTO trials (account_id, expires_at)
    SELECT a.account_id, MAX(k.expires_at) FROM accounts a JOIN api_keys k ON k.account_id = a.account_id
    WHERE a.plan = 'trial' AND k.role = 'trial' AND k.expires_at IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM api_keys o WHERE o.account_id = a.account_id AND o.role <> 'trial')
    GROUP BY a.account_id;
