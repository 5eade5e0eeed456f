-- The move of another database into this one (`ango admin move`): one row, from the first attempt on.

CREATE TABLE moves (
    id        INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    -- the id of the database whose rows are copied
    source_id TEXT NOT NULL,
    -- microseconds since 1970
    begun_at  INTEGER NOT NULL,
    -- null: the copy is not complete, so no node may use this database
    ended_at  INTEGER
) STRICT;
