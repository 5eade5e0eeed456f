-- One table for the operations of all kinds: the runs of circuits and the operations on numbers.
-- The older tables stay, because the release before can start again on this file. SQLite's views take no INSERT with ON
-- CONFLICT, so views cannot stand in for the tables. A starting node moves the rows of the older tables to this one
-- (Store::take_over_operations). A later release drops the older tables.

CREATE TABLE operations (
    op_id                TEXT NOT NULL PRIMARY KEY,
    account_id           TEXT NOT NULL,
    -- what is computed
    kind                 TEXT NOT NULL CHECK (kind IN ('circuit', 'arithmetic')),
    -- the node that computes it. The release before records no node for a run: the run's session names the node.
    node_id              TEXT,
    status               TEXT NOT NULL CHECK (status IN ('pending', 'completed', 'failed', 'cancelled')),
    -- columns that only runs of circuits have
    session_digest       BLOB REFERENCES gate_sessions (digest),
    gates_total          INTEGER,
    gates_done           INTEGER NOT NULL DEFAULT 0,
    -- JSON object: gate name -> how many the circuit has
    by_gate              TEXT,
    levels               INTEGER,
    plan                 TEXT,
    -- what was charged; nothing while it runs
    bootstrap_ops        INTEGER,
    cost_milli_yen       INTEGER,
    discounted           INTEGER,
    -- columns that only operations on numbers have
    key_id               TEXT,
    environment          TEXT,
    operation            TEXT,
    result_ciphertext_id TEXT,
    cost_fcu             INTEGER,
    -- of all kinds again
    compute_us           INTEGER,
    -- why it failed
    error_code           TEXT,
    error_message        TEXT,
    created_at           INTEGER NOT NULL,
    ended_at             INTEGER,
    CHECK (kind <> 'circuit'
        OR (session_digest IS NOT NULL AND gates_total IS NOT NULL AND by_gate IS NOT NULL AND levels IS NOT NULL)),
    CHECK (kind <> 'arithmetic'
        OR (node_id IS NOT NULL AND key_id IS NOT NULL AND environment IS NOT NULL AND operation IS NOT NULL))
) STRICT;

-- the older tables have no rows while this release runs, so they need no indices
DROP INDEX circuit_operations_pending;
DROP INDEX circuit_operations_ended;
DROP INDEX circuit_operations_of_session;
DROP INDEX circuit_operations_of_account;
DROP INDEX arithmetic_operations_pending;
DROP INDEX arithmetic_operations_ended;
DROP INDEX arithmetic_operations_of_account;

CREATE INDEX operations_pending ON operations (status) WHERE status = 'pending';
CREATE INDEX operations_ended ON operations (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX operations_of_session ON operations (session_digest);
CREATE INDEX operations_of_account ON operations (account_id);
