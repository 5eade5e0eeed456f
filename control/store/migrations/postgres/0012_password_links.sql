-- Links by which users set a password that they have forgotten; at most one a user. A link is used up by its deletion.
-- As migrations/sqlite, with PostgreSQL's names of types.

CREATE TABLE password_links (
    digest     BYTEA NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    user_id    TEXT NOT NULL UNIQUE REFERENCES users (user_id),
    expires_at BIGINT NOT NULL
);
