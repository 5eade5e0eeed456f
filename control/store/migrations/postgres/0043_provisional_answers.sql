-- Whether an answer only names an operation whose client still waits. The operation's own answer replaces it.
ALTER TABLE kept_answers ADD COLUMN provisional BOOLEAN NOT NULL DEFAULT FALSE;
-- The ciphertexts that were removed to make room for the result, separated by spaces. Null: of an earlier version, or none.
ALTER TABLE operations ADD COLUMN evicted_ids TEXT;
