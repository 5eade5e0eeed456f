-- The waiting line of a fleet: operations for which no client waits, until they end. The operation's own row is in operations.

CREATE TABLE waiting_line (
    op_id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL,
    -- operations with the same text here have a common largest number
    counted TEXT NOT NULL,
    -- start-time fair queueing: the operation with the smallest tag is released first
    tag INTEGER NOT NULL,
    -- whether an API node has released the operation to the workers
    released INTEGER NOT NULL DEFAULT FALSE,
    -- how often it was released. Only the node of the last release may end the operation.
    epoch INTEGER NOT NULL DEFAULT 0,
    -- by the database's clock, in microseconds since 1970: until when the release counts without a sign of progress
    released_until INTEGER NOT NULL DEFAULT 0,
    -- by the database's clock: an operation that has not ended by then fails
    deadline INTEGER NOT NULL,
    -- units of work that are done
    done INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT FALSE,
    -- the reservation that pays for the operation
    transfer_id TEXT,
    -- the object with the work for the workers
    work_object TEXT NOT NULL,
    -- the object with the last checkpoint
    checkpoint TEXT,
    -- JSON: how the operation is booked
    booking TEXT NOT NULL
);
CREATE INDEX waiting_line_tag ON waiting_line (tag) WHERE NOT released;
CREATE INDEX waiting_line_released ON waiting_line (released_until) WHERE released;
CREATE INDEX waiting_line_account ON waiting_line (account_id, tag);
CREATE INDEX waiting_line_counted ON waiting_line (counted);
CREATE INDEX waiting_line_transfer ON waiting_line (transfer_id);

-- The largest tag that was released: the virtual time of the line. An account that paused begins here, so a pause earns nothing.
CREATE TABLE waiting_line_time (
    id INTEGER NOT NULL PRIMARY KEY,
    tag INTEGER NOT NULL
);
INSERT INTO waiting_line_time (id, tag) VALUES (1, 0);
