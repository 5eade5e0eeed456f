-- Token buckets that the API nodes of a fleet share. The table is not logged, because the loss of its rows
-- only makes all buckets full. Free space in each page keeps the new version of a row beside the old one.
CREATE UNLOGGED TABLE bursts (
    -- the id of a key's lineage or of a user, or `addr_` with a keyed digest of a network
    subject TEXT NOT NULL PRIMARY KEY,
    -- when the bucket will be full again, in microseconds since 1970 by the database's clock
    full_at BIGINT NOT NULL
) WITH (fillfactor = 50);
