-- Keys for arithmetic on encrypted numbers, their uploads in parts, ciphertexts under them, and operations.
-- No column refers to accounts: a node of the release before erases a trial's account without these tables.

-- What a client uploaded. Equal uploads of an account are one material under several keys.
CREATE TABLE key_materials (
    material_id       TEXT NOT NULL PRIMARY KEY,
    account_id        TEXT NOT NULL,
    -- the node in whose folder its objects are; empty where all nodes have the same objects
    node_id           TEXT NOT NULL,
    -- JSON object: the parameters that the containers name; none before the first container
    params            TEXT,
    -- names the secret key
    fingerprint       BLOB,
    public_key_object TEXT,
    public_key_bytes  INTEGER NOT NULL DEFAULT 0,
    public_key_sha256 BLOB,
    -- of the evaluation key: rows that its head announces, bytes that have come, its head among them
    rows_announced    INTEGER,
    eval_key_bytes    INTEGER NOT NULL DEFAULT 0,
    -- SHA-256 over all of it; none while it is not complete
    digest            BLOB CHECK (length(digest) = 32),
    created_at        INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX key_materials_of_content ON key_materials (account_id, digest) WHERE digest IS NOT NULL;
CREATE INDEX key_materials_of_account ON key_materials (account_id);

-- Rows of evaluation keys, an object each.
CREATE TABLE key_rows (
    material_id TEXT NOT NULL REFERENCES key_materials (material_id),
    -- place in the container, from 0
    row_index   INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    -- Galois element; 0 for other kinds
    element     INTEGER NOT NULL,
    level       INTEGER NOT NULL,
    digit       INTEGER NOT NULL,
    digits      INTEGER NOT NULL,
    object      TEXT NOT NULL,
    bytes       INTEGER NOT NULL,
    sha256      BLOB NOT NULL,
    PRIMARY KEY (material_id, row_index)
) STRICT;

CREATE UNIQUE INDEX key_rows_of_part ON key_rows (material_id, kind, element, digit);

CREATE TABLE encryption_keys (
    key_id           TEXT NOT NULL PRIMARY KEY,
    account_id       TEXT NOT NULL,
    -- of the API key that made it
    environment      TEXT NOT NULL,
    -- as the client named it
    scheme           TEXT NOT NULL,
    -- upload or generate
    source           TEXT NOT NULL,
    material_id      TEXT NOT NULL REFERENCES key_materials (material_id),
    ciphertext_count INTEGER NOT NULL DEFAULT 0,
    operation_count  INTEGER NOT NULL DEFAULT 0,
    created_at       INTEGER NOT NULL
) STRICT;

CREATE INDEX encryption_keys_of_account ON encryption_keys (account_id, created_at, key_id);
CREATE INDEX encryption_keys_of_material ON encryption_keys (material_id);

CREATE TABLE key_uploads (
    upload_id   TEXT NOT NULL PRIMARY KEY,
    account_id  TEXT NOT NULL,
    environment TEXT NOT NULL,
    scheme      TEXT NOT NULL,
    -- JSON object: the parameters of the request
    params      TEXT NOT NULL,
    material_id TEXT NOT NULL,
    -- once it is complete
    key_id      TEXT,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL
) STRICT;

CREATE INDEX key_uploads_of_account ON key_uploads (account_id);
CREATE INDEX key_uploads_expiry ON key_uploads (expires_at);

CREATE TABLE ciphertexts (
    ciphertext_id TEXT NOT NULL PRIMARY KEY,
    account_id    TEXT NOT NULL,
    key_id        TEXT NOT NULL,
    environment   TEXT NOT NULL,
    -- upload, or the operation whose result it is
    origin        TEXT NOT NULL,
    slot_count    INTEGER NOT NULL,
    level         INTEGER NOT NULL,
    -- bits of 64-bit floating point: exact scale, bound on values, variance of the noise
    scale         INTEGER NOT NULL,
    value_bound   INTEGER NOT NULL,
    variance      INTEGER NOT NULL,
    object        TEXT NOT NULL,
    -- the node in whose folder its object is; empty where all nodes have the same objects
    node_id       TEXT NOT NULL,
    bytes         INTEGER NOT NULL CHECK (bytes > 0),
    created_at    INTEGER NOT NULL,
    last_used_at  INTEGER NOT NULL
) STRICT;

CREATE INDEX ciphertexts_of_account ON ciphertexts (account_id, created_at, ciphertext_id);
CREATE INDEX ciphertexts_of_key ON ciphertexts (key_id, created_at, ciphertext_id);
CREATE INDEX ciphertexts_by_use ON ciphertexts (account_id, last_used_at, ciphertext_id);
CREATE INDEX ciphertexts_expiry ON ciphertexts (last_used_at);

-- What the ciphertexts of an account take. Whoever adds or removes some has its row locked.
CREATE TABLE ciphertext_caches (
    account_id TEXT NOT NULL PRIMARY KEY,
    bytes      INTEGER NOT NULL CHECK (bytes >= 0)
) STRICT;

-- Objects that no row names any more, until they are removed where they are.
CREATE TABLE dropped_objects (
    object     TEXT NOT NULL PRIMARY KEY,
    -- kind of object
    kind       TEXT NOT NULL,
    -- as in the row that named it
    node_id    TEXT NOT NULL,
    dropped_at INTEGER NOT NULL
) STRICT;

CREATE INDEX dropped_objects_of_node ON dropped_objects (node_id, dropped_at);

-- One row an operation: written at its start when nobody waits for it, else with its charge.
CREATE TABLE arithmetic_operations (
    op_id                TEXT NOT NULL PRIMARY KEY,
    account_id           TEXT NOT NULL,
    key_id               TEXT NOT NULL,
    environment          TEXT NOT NULL,
    -- the node that computes it
    node_id              TEXT NOT NULL,
    operation            TEXT NOT NULL,
    status               TEXT NOT NULL CHECK (status IN ('pending', 'completed', 'failed', 'cancelled')),
    result_ciphertext_id TEXT,
    cost_fcu             INTEGER,
    compute_us           INTEGER,
    -- why it failed
    error_code           TEXT,
    error_message        TEXT,
    created_at           INTEGER NOT NULL,
    ended_at             INTEGER
) STRICT;

CREATE INDEX arithmetic_operations_pending ON arithmetic_operations (node_id) WHERE status = 'pending';
CREATE INDEX arithmetic_operations_ended ON arithmetic_operations (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX arithmetic_operations_of_account ON arithmetic_operations (account_id);

-- One row a completed operation.
CREATE TABLE arithmetic_usage (
    usage_id      TEXT NOT NULL PRIMARY KEY,
    account_id    TEXT NOT NULL,
    key_id        TEXT NOT NULL,
    environment   TEXT NOT NULL,
    operation     TEXT NOT NULL,
    -- compute units, their list price, and the rate at which that was told in yen: thousandths of a yen a dollar
    fcu           INTEGER NOT NULL CHECK (fcu > 0),
    cost_nano_usd INTEGER NOT NULL,
    usd_milli_jpy INTEGER NOT NULL,
    compute_us    INTEGER NOT NULL,
    created_at    INTEGER NOT NULL
) STRICT;

CREATE INDEX arithmetic_usage_of_account ON arithmetic_usage (account_id, created_at);
