-- Requests counted by day and month, and failed attempts to show a credential.

CREATE TABLE request_counts (
    -- acct_..., or addr_ and the keyed digest of a network's address
    subject      TEXT NOT NULL PRIMARY KEY,
    -- days since 1970 and months since year 0, UTC
    day          INTEGER NOT NULL,
    day_used     INTEGER NOT NULL CHECK (day_used >= 0),
    month        INTEGER NOT NULL,
    month_used   INTEGER NOT NULL CHECK (month_used >= 0),
    -- promised to nodes and not used yet; void after leased_until
    leased       INTEGER NOT NULL CHECK (leased >= 0),
    leased_until INTEGER NOT NULL
) STRICT;

CREATE TABLE lockouts (
    -- keyed digest of what was shown, or of the network's address it came from
    subject      BLOB NOT NULL PRIMARY KEY CHECK (length(subject) = 32),
    kind         TEXT NOT NULL CHECK (kind IN ('key', 'address')),
    -- times of failures that still count, each 8 bytes, most significant first
    failures     BLOB NOT NULL,
    locked_until INTEGER,
    -- when nothing of it counts any more
    expires_at   INTEGER NOT NULL,
    -- of the change that wrote the row
    version      INTEGER NOT NULL
) STRICT;

CREATE INDEX lockouts_by_version ON lockouts (version);
CREATE INDEX lockouts_by_end ON lockouts (expires_at);

-- One row: the last change. Whoever changes lockouts raises it first, so that changes become visible in its order.
CREATE TABLE lockout_version (
    id      INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL
) STRICT;

INSERT INTO lockout_version (id, version) VALUES (1, 0);
