-- Keys that signed access tokens before the one of signing_keys: they go on until the last of those has ended.

CREATE TABLE retired_signing_keys (
    -- PKCS#8, sealed under the pepper
    sealed  BLOB NOT NULL PRIMARY KEY,
    ends_at INTEGER NOT NULL
) STRICT;
