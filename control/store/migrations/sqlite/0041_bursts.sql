-- Token buckets that the API nodes of a fleet share. SQLite has the table too, because both databases have the
-- same tables.
CREATE TABLE bursts (
    -- the id of a key's lineage or of a user, or `addr_` with a keyed digest of a network
    subject TEXT NOT NULL PRIMARY KEY,
    -- when the bucket will be full again, in microseconds since 1970 by the database's clock
    full_at INTEGER NOT NULL
) STRICT;
