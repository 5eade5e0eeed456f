-- The move of another database into this one (`ango admin move`): one row, from the first attempt on.
-- As migrations/sqlite, with PostgreSQL's names of types.

CREATE TABLE moves (
    id        BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    -- the id of the database whose rows are copied
    source_id TEXT NOT NULL,
    -- microseconds since 1970
    begun_at  BIGINT NOT NULL,
    -- null: the copy is not complete, so no node may use this database
    ended_at  BIGINT
);
