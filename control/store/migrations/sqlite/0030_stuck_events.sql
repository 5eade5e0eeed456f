-- Events of the payment provider that cannot be processed: stuck until the operator retries or drops them.
-- SQLite cannot change a check: the table is made anew.

CREATE TABLE new_provider_events (
    event_id    TEXT NOT NULL PRIMARY KEY,
    event_type  TEXT NOT NULL,
    body        TEXT NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('pending', 'done', 'stuck', 'dropped')),
    attempts    INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,
    error       TEXT NOT NULL,
    received_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO new_provider_events (event_id, event_type, body, status, attempts, due_at, error, received_at)
SELECT event_id, event_type, body, status, attempts, due_at, error, received_at FROM provider_events;

DROP TABLE provider_events;
ALTER TABLE new_provider_events RENAME TO provider_events;

CREATE INDEX provider_events_due ON provider_events (due_at) WHERE status = 'pending';
CREATE INDEX provider_events_by_age ON provider_events (received_at);
CREATE INDEX provider_events_stuck ON provider_events (received_at, event_id) WHERE status = 'stuck';
