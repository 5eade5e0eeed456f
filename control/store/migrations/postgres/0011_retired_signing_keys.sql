-- Keys that signed access tokens before the one of signing_keys: they go on until the last of those has ended.
-- As migrations/sqlite, with PostgreSQL's names of types.

CREATE TABLE retired_signing_keys (
    -- PKCS#8, sealed under the pepper
    sealed  BYTEA NOT NULL PRIMARY KEY,
    ends_at BIGINT NOT NULL
);
