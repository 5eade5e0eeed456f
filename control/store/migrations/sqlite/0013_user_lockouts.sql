-- Lockouts of two more kinds: a user, by a keyed digest of the e-mail, and sign-ups, by a keyed digest of the network.
-- SQLite cannot change a check: the table is made anew.

CREATE TABLE new_lockouts (
    -- keyed digest of what is counted
    subject      BLOB NOT NULL PRIMARY KEY CHECK (length(subject) = 32),
    kind         TEXT NOT NULL CHECK (kind IN ('key', 'address', 'user', 'sign_up')),
    -- times of failures that still count, each 8 bytes, most significant first
    failures     BLOB NOT NULL,
    locked_until INTEGER,
    -- when nothing of it counts any more
    expires_at   INTEGER NOT NULL,
    -- of the change that wrote the row
    version      INTEGER NOT NULL
) STRICT;

INSERT INTO new_lockouts (subject, kind, failures, locked_until, expires_at, version)
SELECT subject, kind, failures, locked_until, expires_at, version FROM lockouts;

DROP TABLE lockouts;
ALTER TABLE new_lockouts RENAME TO lockouts;

CREATE INDEX lockouts_by_version ON lockouts (version);
CREATE INDEX lockouts_by_end ON lockouts (expires_at);
