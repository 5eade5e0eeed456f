-- Requests that carry an Idempotency-Key: claimed while they run, then their kept answers.

CREATE TABLE kept_answers (
    -- SHA-256 over account, method, path and key
    digest     BLOB NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    account_id TEXT NOT NULL REFERENCES accounts (account_id) ON DELETE CASCADE,
    -- random, of the request that claimed it; who finds another one here has lost the claim
    claim      BLOB NOT NULL CHECK (length(claim) = 16),
    -- the node that the request runs on
    node_id    TEXT NOT NULL,
    -- until when the claim, then the answer, counts
    held_until INTEGER NOT NULL,
    -- encrypted; none while the request runs
    answer     BLOB,
    -- name of the file that holds a large answer's body
    blob       TEXT
) STRICT;

CREATE INDEX kept_answers_held_until ON kept_answers (held_until);
CREATE INDEX kept_answers_running ON kept_answers (node_id) WHERE answer IS NULL;
CREATE INDEX kept_answers_of_account ON kept_answers (account_id);
