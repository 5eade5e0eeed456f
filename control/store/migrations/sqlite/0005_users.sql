-- Users of the dashboard, how they are signed in, and session tokens that ended before their time.

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
    created_at      INTEGER NOT NULL,
    last_sign_in_at INTEGER,
    disabled_at     INTEGER,
    UNIQUE (issuer, subject)
) STRICT;

-- What an external issuer calls an account.
CREATE TABLE external_accounts (
    issuer     TEXT NOT NULL,
    name       TEXT NOT NULL,
    account_id TEXT NOT NULL REFERENCES accounts (account_id),
    PRIMARY KEY (issuer, name)
) STRICT;

-- One row a sign-in with a password: the family of its refresh tokens.
CREATE TABLE sign_ins (
    sign_in_id TEXT NOT NULL PRIMARY KEY,
    user_id    TEXT NOT NULL REFERENCES users (user_id),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

CREATE INDEX sign_ins_of_user ON sign_ins (user_id);
CREATE INDEX sign_ins_expiry ON sign_ins (expires_at);

CREATE TABLE refresh_tokens (
    -- HMAC-SHA-256 under the pepper; the token itself is never stored
    digest     BLOB NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    sign_in_id TEXT NOT NULL REFERENCES sign_ins (sign_in_id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    -- when it was exchanged; a second time ends the sign-in
    used_at    INTEGER
) STRICT;

CREATE INDEX refresh_tokens_of_sign_in ON refresh_tokens (sign_in_id);

-- Access tokens that are refused until they would have ended anyway.
CREATE TABLE ended_tokens (
    digest     BLOB NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    expires_at INTEGER NOT NULL
) STRICT;

CREATE INDEX ended_tokens_expiry ON ended_tokens (expires_at);

-- The way in for the first administrator; at most one row is unused.
CREATE TABLE setup_links (
    digest     BLOB NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at    INTEGER
) STRICT;

-- The key that access tokens are signed with: one row, made by the node that comes first.
CREATE TABLE signing_keys (
    purpose TEXT NOT NULL PRIMARY KEY CHECK (purpose = 'access_token'),
    -- PKCS#8, sealed under the pepper
    sealed  BLOB NOT NULL
) STRICT;

-- Who made a key on the dashboard; rotated keys stay theirs.
CREATE TABLE user_keys (
    lineage_id TEXT NOT NULL PRIMARY KEY,
    user_id    TEXT NOT NULL REFERENCES users (user_id),
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX user_keys_of_user ON user_keys (user_id, created_at);
