-- Uploaded circuits, and what became of circuits that were run.

CREATE TABLE circuits (
    account_id    TEXT NOT NULL REFERENCES accounts (account_id),
    name          TEXT NOT NULL,
    -- the Bristol Fashion text as it came, and its SHA-256
    text          TEXT NOT NULL,
    bytes         INTEGER NOT NULL CHECK (bytes > 0),
    sha256        BLOB NOT NULL CHECK (length(sha256) = 32),
    gates         INTEGER NOT NULL,
    -- JSON object: gate name -> how many
    by_gate       TEXT NOT NULL,
    levels        INTEGER NOT NULL,
    -- JSON arrays: bits of each value
    input_widths  TEXT NOT NULL,
    output_widths TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    PRIMARY KEY (account_id, name)
) STRICT;

-- One row a run of a circuit: written at its start when nobody waits for it, else with its charge.
CREATE TABLE circuit_operations (
    op_id           TEXT NOT NULL PRIMARY KEY,
    account_id      TEXT NOT NULL,
    session_digest  BLOB NOT NULL REFERENCES gate_sessions (digest),
    status          TEXT NOT NULL CHECK (status IN ('pending', 'completed', 'failed', 'cancelled')),
    gates_total     INTEGER NOT NULL,
    gates_done      INTEGER NOT NULL DEFAULT 0,
    -- JSON object: gate name -> how many the circuit has
    by_gate         TEXT NOT NULL,
    levels          INTEGER NOT NULL,
    -- what was charged; nothing while it runs
    bootstrap_ops   INTEGER,
    cost_milli_yen  INTEGER,
    discounted      INTEGER,
    compute_us      INTEGER,
    -- why it failed
    error_code      TEXT,
    error_message   TEXT,
    created_at      INTEGER NOT NULL,
    ended_at        INTEGER
) STRICT;

CREATE INDEX circuit_operations_pending ON circuit_operations (status) WHERE status = 'pending';
CREATE INDEX circuit_operations_ended ON circuit_operations (ended_at) WHERE ended_at IS NOT NULL;
