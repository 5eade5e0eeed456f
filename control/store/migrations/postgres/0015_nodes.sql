-- Gate sessions as every node of the database sees them: who holds their keys and is still there, and their sealed ids.

CREATE TABLE nodes (
    node_id     TEXT NOT NULL PRIMARY KEY,
    -- the node renews it every few seconds; after this time its sessions are lost
    lease_until BIGINT NOT NULL
);

-- the session id, encrypted under the server's secret, so that any node lists it; none once the session has ended
ALTER TABLE gate_sessions ADD COLUMN sealed_id BYTEA;

-- what serves opening and listing, and each node's look for sessions that were deleted by way of another one
DROP INDEX gate_sessions_active;
CREATE INDEX gate_sessions_open_of_account ON gate_sessions (account_id, expires_at) WHERE state = 'active';
CREATE INDEX gate_sessions_open_of_node ON gate_sessions (node_id) WHERE state = 'active';
