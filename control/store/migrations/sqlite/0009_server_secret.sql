-- What tells that a node has the secret under which this database's digests were made: one row.

CREATE TABLE server_secret (
    id     INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    -- derived from the secret, which it does not give away
    digest BLOB NOT NULL CHECK (length(digest) = 32)
) STRICT;
