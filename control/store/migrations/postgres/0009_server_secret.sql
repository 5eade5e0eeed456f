-- What tells that a node has the secret under which this database's digests were made: one row.
-- As migrations/sqlite, with PostgreSQL's names of types.

CREATE TABLE server_secret (
    id     BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    -- derived from the secret, which it does not give away
    digest BYTEA NOT NULL CHECK (length(digest) = 32)
);
