-- Sessions that charged nothing are removed after a while; the checks of what refers to them must not read whole tables.

CREATE INDEX gate_usage_of_session ON gate_usage (session_digest);
CREATE INDEX circuit_operations_of_session ON circuit_operations (session_digest);
CREATE INDEX accounts_erased ON accounts (erased_at) WHERE erased_at IS NOT NULL;
