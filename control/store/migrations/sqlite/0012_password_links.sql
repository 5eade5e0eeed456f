-- Links by which users set a password that they have forgotten; at most one a user. A link is used up by its deletion.

CREATE TABLE password_links (
    digest     BLOB NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    user_id    TEXT NOT NULL UNIQUE REFERENCES users (user_id),
    expires_at INTEGER NOT NULL
) STRICT;
