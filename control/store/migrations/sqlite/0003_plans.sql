-- What an account may do: its plan. What a key may do: its areas, the platform and the back office.

ALTER TABLE accounts ADD COLUMN plan TEXT NOT NULL DEFAULT 'free'
    CHECK (plan IN ('trial', 'free', 'payg', 'starter', 'pro', 'scale', 'enterprise'));

ALTER TABLE api_keys ADD COLUMN platform INTEGER NOT NULL DEFAULT 1;
ALTER TABLE api_keys ADD COLUMN office INTEGER NOT NULL DEFAULT 1;
UPDATE api_keys SET office = 0 WHERE role = 'trial';
UPDATE accounts SET plan = 'trial' WHERE account_id IN (SELECT account_id FROM api_keys WHERE role = 'trial');
