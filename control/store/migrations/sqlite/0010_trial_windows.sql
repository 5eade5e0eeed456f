-- Who got trial keys of late, by network.

CREATE TABLE trial_windows (
    -- keyed digest of the network's address
    network    BLOB NOT NULL PRIMARY KEY CHECK (length(network) = 32),
    -- when keys were given that still count, each 8 bytes, most significant first
    given      BLOB NOT NULL,
    -- when nothing of it counts any more
    expires_at INTEGER NOT NULL
) STRICT;

CREATE INDEX trial_windows_by_end ON trial_windows (expires_at);
