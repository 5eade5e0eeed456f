-- Accounts, API keys, gate sessions and what they used.
-- As migrations/sqlite, with PostgreSQL's names of types.

CREATE TABLE accounts (
    account_id TEXT NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL
);

CREATE TABLE api_keys (
    key_id      TEXT NOT NULL PRIMARY KEY,
    account_id  TEXT NOT NULL REFERENCES accounts (account_id),
    -- shared by a key and its rotated successors
    lineage_id  TEXT NOT NULL,
    -- HMAC-SHA-256 of the full key under the node's pepper; the key itself is never stored
    digest      BYTEA NOT NULL UNIQUE CHECK (length(digest) = 32),
    -- first 16 characters, for display
    key_prefix  TEXT NOT NULL,
    role        TEXT NOT NULL CHECK (role IN ('viewer', 'developer', 'account_admin', 'trial')),
    environment TEXT NOT NULL CHECK (environment IN ('live', 'test', 'dev', 'trial')),
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT,
    revoked_at  BIGINT
);

CREATE INDEX api_keys_of_account ON api_keys (account_id, created_at);

CREATE TABLE gate_sessions (
    -- SHA-256 of the session id, which is a secret
    digest               BYTEA NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    account_id           TEXT NOT NULL REFERENCES accounts (account_id),
    environment          TEXT NOT NULL,
    preset               TEXT NOT NULL,
    is_blind             BOOLEAN NOT NULL,
    state                TEXT NOT NULL CHECK (state IN ('active', 'deleted', 'expired', 'lost')),
    created_at           BIGINT NOT NULL,
    expires_at           BIGINT NOT NULL,
    -- when the state left 'active'
    ended_at             BIGINT,
    gates_used           BIGINT NOT NULL DEFAULT 0,
    total_cost_milli_yen BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX gate_sessions_of_account ON gate_sessions (account_id, created_at);
CREATE INDEX gate_sessions_active ON gate_sessions (state) WHERE state = 'active';

-- One row an operation (a gate or a batch), written together with its session's totals.
CREATE TABLE gate_usage (
    usage_id        TEXT NOT NULL PRIMARY KEY,
    session_digest  BYTEA NOT NULL REFERENCES gate_sessions (digest),
    account_id      TEXT NOT NULL,
    environment     TEXT NOT NULL,
    gates           BIGINT NOT NULL CHECK (gates > 0),
    -- JSON object: gate name -> how many
    by_gate         TEXT NOT NULL,
    -- by the tariff, and really done
    bootstrap_ops   BIGINT NOT NULL,
    bootstraps_done BIGINT NOT NULL,
    cost_milli_yen  BIGINT NOT NULL,
    compute_us      BIGINT NOT NULL,
    created_at      BIGINT NOT NULL
);

CREATE INDEX gate_usage_of_account ON gate_usage (account_id, created_at);
