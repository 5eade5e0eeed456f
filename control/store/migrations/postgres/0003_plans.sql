-- What an account may do: its plan. What a key may do: its areas, the platform and the back office.

ALTER TABLE accounts ADD COLUMN plan TEXT NOT NULL DEFAULT 'free'
    CHECK (plan IN ('trial', 'free', 'payg', 'starter', 'pro', 'scale', 'enterprise'));

ALTER TABLE api_keys ADD COLUMN platform BOOLEAN NOT NULL DEFAULT TRUE;
ALTER TABLE api_keys ADD COLUMN office BOOLEAN NOT NULL DEFAULT TRUE;
UPDATE api_keys SET office = FALSE WHERE role = 'trial';
UPDATE accounts SET plan = 'trial' WHERE account_id IN (SELECT account_id FROM api_keys WHERE role = 'trial');
