-- Uploaded circuits, and what became of circuits that were run.

CREATE TABLE circuits (
    account_id    TEXT NOT NULL REFERENCES accounts (account_id),
    name          TEXT NOT NULL,
    -- the Bristol Fashion text as it came, and its SHA-256
    text          TEXT NOT NULL,
    bytes         BIGINT NOT NULL CHECK (bytes > 0),
    sha256        BYTEA NOT NULL CHECK (length(sha256) = 32),
    gates         BIGINT NOT NULL,
    -- JSON object: gate name -> how many
    by_gate       TEXT NOT NULL,
    levels        BIGINT NOT NULL,
    -- JSON arrays: bits of each value
    input_widths  TEXT NOT NULL,
    output_widths TEXT NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    PRIMARY KEY (account_id, name)
);

-- One row a run of a circuit: written at its start when nobody waits for it, else with its charge.
CREATE TABLE circuit_operations (
    op_id           TEXT NOT NULL PRIMARY KEY,
    account_id      TEXT NOT NULL,
    session_digest  BYTEA NOT NULL REFERENCES gate_sessions (digest),
    status          TEXT NOT NULL CHECK (status IN ('pending', 'completed', 'failed', 'cancelled')),
    gates_total     BIGINT NOT NULL,
    gates_done      BIGINT NOT NULL DEFAULT 0,
    -- JSON object: gate name -> how many the circuit has
    by_gate         TEXT NOT NULL,
    levels          BIGINT NOT NULL,
    -- what was charged; nothing while it runs
    bootstrap_ops   BIGINT,
    cost_milli_yen  BIGINT,
    discounted      BOOLEAN,
    compute_us      BIGINT,
    -- why it failed
    error_code      TEXT,
    error_message   TEXT,
    created_at      BIGINT NOT NULL,
    ended_at        BIGINT
);

CREATE INDEX circuit_operations_pending ON circuit_operations (status) WHERE status = 'pending';
CREATE INDEX circuit_operations_ended ON circuit_operations (ended_at) WHERE ended_at IS NOT NULL;
