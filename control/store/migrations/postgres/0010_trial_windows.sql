-- Who got trial keys of late, by network.
-- As migrations/sqlite, with PostgreSQL's names of types.

CREATE TABLE trial_windows (
    -- keyed digest of the network's address
    network    BYTEA NOT NULL PRIMARY KEY CHECK (length(network) = 32),
    -- when keys were given that still count, each 8 bytes, most significant first
    given      BYTEA NOT NULL,
    -- when nothing of it counts any more
    expires_at BIGINT NOT NULL
);

CREATE INDEX trial_windows_by_end ON trial_windows (expires_at);
