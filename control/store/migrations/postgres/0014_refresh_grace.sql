-- For a moment a refresh token that was exchanged gives the same successor again.

-- the successor, encrypted; none when it is unused, or when the successor was exchanged in turn
ALTER TABLE refresh_tokens ADD COLUMN successor BYTEA;
