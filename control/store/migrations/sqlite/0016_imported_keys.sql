-- Whether another library made a session's key: then its security is its maker's claim.

ALTER TABLE gate_sessions ADD COLUMN imported INTEGER NOT NULL DEFAULT 0;
