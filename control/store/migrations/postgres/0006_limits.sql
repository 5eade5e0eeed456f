-- Requests counted by day and month, and failed attempts to show a credential.
-- As migrations/sqlite, with PostgreSQL's names of types.

CREATE TABLE request_counts (
    -- acct_..., or addr_ and the keyed digest of a network's address
    subject      TEXT NOT NULL PRIMARY KEY,
    -- days since 1970 and months since year 0, UTC
    day          BIGINT NOT NULL,
    day_used     BIGINT NOT NULL CHECK (day_used >= 0),
    month        BIGINT NOT NULL,
    month_used   BIGINT NOT NULL CHECK (month_used >= 0),
    -- promised to nodes and not used yet; void after leased_until
    leased       BIGINT NOT NULL CHECK (leased >= 0),
    leased_until BIGINT NOT NULL
);

CREATE TABLE lockouts (
    -- keyed digest of what was shown, or of the network's address it came from
    subject      BYTEA NOT NULL PRIMARY KEY CHECK (length(subject) = 32),
    kind         TEXT NOT NULL CHECK (kind IN ('key', 'address')),
    -- times of failures that still count, each 8 bytes, most significant first
    failures     BYTEA NOT NULL,
    locked_until BIGINT,
    -- when nothing of it counts any more
    expires_at   BIGINT NOT NULL,
    -- of the change that wrote the row
    version      BIGINT NOT NULL
);

CREATE INDEX lockouts_by_version ON lockouts (version);
CREATE INDEX lockouts_by_end ON lockouts (expires_at);

-- One row: the last change. Whoever changes lockouts raises it first, so that changes become visible in its order.
CREATE TABLE lockout_version (
    id      BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    version BIGINT NOT NULL
);

INSERT INTO lockout_version (id, version) VALUES (1, 0);
