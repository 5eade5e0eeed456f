-- One table for the operations of all kinds: the runs of circuits and the operations on numbers.
-- The table of the runs gets this name, so that no lock on gate_sessions is needed while older nodes work. The names of the
-- older tables become views, because a node of the release before reads and writes through these names. Such a view takes
-- INSERT, UPDATE and DELETE (CREATE VIEW, "Updatable Views"). A later release drops the views, once no node uses them.
LOCK TABLE circuit_operations, arithmetic_operations IN ACCESS EXCLUSIVE MODE;

ALTER TABLE circuit_operations RENAME TO operations;
ALTER INDEX circuit_operations_pkey RENAME TO operations_pkey;
ALTER INDEX circuit_operations_pending RENAME TO operations_pending;
ALTER INDEX circuit_operations_ended RENAME TO operations_ended;
ALTER INDEX circuit_operations_of_session RENAME TO operations_of_session;
ALTER INDEX circuit_operations_of_account RENAME TO operations_of_account;
ALTER TABLE operations RENAME CONSTRAINT circuit_operations_status_check TO operations_status_check;
ALTER TABLE operations RENAME CONSTRAINT circuit_operations_session_digest_fkey TO operations_session_digest_fkey;

-- columns that only runs of circuits have
ALTER TABLE operations ALTER COLUMN session_digest DROP NOT NULL;
ALTER TABLE operations ALTER COLUMN gates_total DROP NOT NULL;
ALTER TABLE operations ALTER COLUMN by_gate DROP NOT NULL;
ALTER TABLE operations ALTER COLUMN levels DROP NOT NULL;
-- what is computed
ALTER TABLE operations ADD COLUMN kind TEXT NOT NULL DEFAULT 'circuit' CHECK (kind IN ('circuit', 'arithmetic'));
ALTER TABLE operations ALTER COLUMN kind DROP DEFAULT;
-- the node that computes it. The release before records no node for a run: the run's session names the node.
ALTER TABLE operations ADD COLUMN node_id TEXT;
-- columns that only operations on numbers have
ALTER TABLE operations ADD COLUMN key_id TEXT;
ALTER TABLE operations ADD COLUMN environment TEXT;
ALTER TABLE operations ADD COLUMN operation TEXT;
ALTER TABLE operations ADD COLUMN result_ciphertext_id TEXT;
ALTER TABLE operations ADD COLUMN cost_fcu BIGINT;
ALTER TABLE operations ADD CONSTRAINT operations_circuit_check CHECK (kind <> 'circuit'
    OR (session_digest IS NOT NULL AND gates_total IS NOT NULL AND by_gate IS NOT NULL AND levels IS NOT NULL));
ALTER TABLE operations ADD CONSTRAINT operations_arithmetic_check CHECK (kind <> 'arithmetic'
    OR (node_id IS NOT NULL AND key_id IS NOT NULL AND environment IS NOT NULL AND operation IS NOT NULL));

INSERT INTO operations (op_id, account_id, kind, node_id, key_id, environment, operation, status, result_ciphertext_id, cost_fcu,
    compute_us, error_code, error_message, created_at, ended_at)
SELECT op_id, account_id, 'arithmetic', node_id, key_id, environment, operation, status, result_ciphertext_id, cost_fcu,
    compute_us, error_code, error_message, created_at, ended_at FROM arithmetic_operations;
DROP TABLE arithmetic_operations;

CREATE VIEW circuit_operations AS
SELECT op_id, account_id, session_digest, status, gates_total, gates_done, by_gate, levels, bootstrap_ops, cost_milli_yen,
    discounted, compute_us, error_code, error_message, created_at, ended_at, plan, kind
FROM operations WHERE kind = 'circuit';
ALTER VIEW circuit_operations ALTER COLUMN kind SET DEFAULT 'circuit';

CREATE VIEW arithmetic_operations AS
SELECT op_id, account_id, key_id, environment, node_id, operation, status, result_ciphertext_id, cost_fcu, compute_us,
    error_code, error_message, created_at, ended_at, kind
FROM operations WHERE kind = 'arithmetic';
ALTER VIEW arithmetic_operations ALTER COLUMN kind SET DEFAULT 'arithmetic';
