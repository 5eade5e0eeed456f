-- An id of the database: what it keeps outside is marked with it.

CREATE TABLE database_identity (
    id          INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    -- random, in hexadecimal; a copy of the database has the same
    database_id TEXT NOT NULL
) STRICT;

INSERT INTO database_identity (id, database_id) VALUES (1, lower(hex(randomblob(16))));
