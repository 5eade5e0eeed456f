-- The node that holds a session's key: when it starts again, its sessions are lost, and only its own.

ALTER TABLE gate_sessions ADD COLUMN node_id TEXT;
