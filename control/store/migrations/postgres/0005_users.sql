-- Users of the dashboard, how they are signed in, and session tokens that ended before their time.
-- As migrations/sqlite, with PostgreSQL's names of types.

CREATE TABLE users (
    user_id         TEXT NOT NULL PRIMARY KEY,
    -- none: made at the first sign-in
    account_id      TEXT REFERENCES accounts (account_id),
    -- lower case; users of an external issuer have none, and no password
    email           TEXT UNIQUE,
    -- argon2id, as a PHC string
    password_hash   TEXT,
    -- of an external issuer: its address, and its name of the user
    issuer          TEXT,
    subject         TEXT,
    role            TEXT NOT NULL CHECK (role IN ('viewer', 'developer', 'account_admin')),
    created_at      BIGINT NOT NULL,
    last_sign_in_at BIGINT,
    disabled_at     BIGINT,
    UNIQUE (issuer, subject)
);

-- What an external issuer calls an account.
CREATE TABLE external_accounts (
    issuer     TEXT NOT NULL,
    name       TEXT NOT NULL,
    account_id TEXT NOT NULL REFERENCES accounts (account_id),
    PRIMARY KEY (issuer, name)
);

-- One row a sign-in with a password: the family of its refresh tokens.
CREATE TABLE sign_ins (
    sign_in_id TEXT NOT NULL PRIMARY KEY,
    user_id    TEXT NOT NULL REFERENCES users (user_id),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT
);

CREATE INDEX sign_ins_of_user ON sign_ins (user_id);
CREATE INDEX sign_ins_expiry ON sign_ins (expires_at);

CREATE TABLE refresh_tokens (
    -- HMAC-SHA-256 under the pepper; the token itself is never stored
    digest     BYTEA NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    sign_in_id TEXT NOT NULL REFERENCES sign_ins (sign_in_id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    -- when it was exchanged; a second time ends the sign-in
    used_at    BIGINT
);

CREATE INDEX refresh_tokens_of_sign_in ON refresh_tokens (sign_in_id);

-- Access tokens that are refused until they would have ended anyway.
CREATE TABLE ended_tokens (
    digest     BYTEA NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    expires_at BIGINT NOT NULL
);

CREATE INDEX ended_tokens_expiry ON ended_tokens (expires_at);

-- The way in for the first administrator; at most one row is unused.
CREATE TABLE setup_links (
    digest     BYTEA NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at    BIGINT
);

-- The key that access tokens are signed with: one row, made by the node that comes first.
CREATE TABLE signing_keys (
    purpose TEXT NOT NULL PRIMARY KEY CHECK (purpose = 'access_token'),
    -- PKCS#8, sealed under the pepper
    sealed  BYTEA NOT NULL
);

-- Who made a key on the dashboard; rotated keys stay theirs.
CREATE TABLE user_keys (
    lineage_id TEXT NOT NULL PRIMARY KEY,
    user_id    TEXT NOT NULL REFERENCES users (user_id),
    created_at BIGINT NOT NULL
);

CREATE INDEX user_keys_of_user ON user_keys (user_id, created_at);
