-- Sessions of a fleet: their evaluation keys are objects that all members of the fleet share.

-- the object with the key. The name stays after the session's end, until the object is removed.
ALTER TABLE gate_sessions ADD COLUMN key_object TEXT;
ALTER TABLE gate_sessions ADD COLUMN key_bytes BIGINT;
-- the key's random data key, sealed. Ending the session erases this column, so the object can then no longer be opened.
ALTER TABLE gate_sessions ADD COLUMN key_secret BYTEA;
-- JSON: the key's parameters and fingerprint
ALTER TABLE gate_sessions ADD COLUMN key_facts TEXT;
CREATE INDEX gate_sessions_key_object ON gate_sessions (key_object) WHERE key_object IS NOT NULL;

-- The node of all sessions of a fleet. A session of a fleet belongs to no node, so its lease never ends.
INSERT INTO nodes (node_id, lease_until) VALUES ('fleet', 9223372036854775807);
