-- Values that sessions of a fleet keep: results under handles, and results of runs of circuits. Their ciphertexts are objects.

CREATE TABLE session_values (
    -- the handle, or a name within the run
    name TEXT NOT NULL PRIMARY KEY,
    session_digest BLOB NOT NULL REFERENCES gate_sessions (digest) ON DELETE CASCADE,
    -- the run whose output this is, and which output
    op_id TEXT,
    place INTEGER,
    -- NULL: the value was deleted. The row stays until the session ends, because the run still names its outputs.
    object TEXT,
    bytes INTEGER NOT NULL
);
CREATE INDEX session_values_session ON session_values (session_digest);
CREATE INDEX session_values_run ON session_values (op_id, place) WHERE op_id IS NOT NULL;

-- the size of the values that a session keeps
ALTER TABLE gate_sessions ADD COLUMN value_bytes INTEGER NOT NULL DEFAULT 0;
