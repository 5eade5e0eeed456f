-- Webhooks, and the outbox: events that are written with what they tell of, and their deliveries.
-- As migrations/sqlite, with PostgreSQL's names of types.

CREATE TABLE webhooks (
    webhook_id    TEXT NOT NULL PRIMARY KEY,
    account_id    TEXT NOT NULL,
    url           TEXT NOT NULL,
    -- types of events, by comma; empty: all
    events        TEXT NOT NULL,
    -- the shared secret, encrypted
    sealed_secret BYTEA NOT NULL,
    created_at    BIGINT NOT NULL
);

CREATE INDEX webhooks_of_account ON webhooks (account_id, created_at, webhook_id);

-- Events that some webhook gets. The id is that of its deliveries to all webhooks.
CREATE TABLE events (
    event_id   TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    -- the bytes that are signed and sent, each time the same
    body       TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE INDEX events_by_age ON events (created_at);

CREATE TABLE deliveries (
    webhook_id   TEXT NOT NULL,
    event_id     TEXT NOT NULL,
    account_id   TEXT NOT NULL,
    event_type   TEXT NOT NULL,
    status       TEXT NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
    attempts     BIGINT NOT NULL DEFAULT 0,
    -- when the next attempt is due
    due_at       BIGINT NOT NULL,
    -- until when a node is at it
    leased_until BIGINT NOT NULL DEFAULT 0,
    -- of the last attempt: 0 where there was no answer
    status_code  BIGINT NOT NULL DEFAULT 0,
    response_ms  BIGINT NOT NULL DEFAULT 0,
    error        TEXT NOT NULL DEFAULT '',
    -- the end of the last attempt; 0 before the first
    delivered_at BIGINT NOT NULL DEFAULT 0,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (webhook_id, event_id)
);

CREATE INDEX deliveries_due ON deliveries (due_at) WHERE status = 'pending';
CREATE INDEX deliveries_of_event ON deliveries (event_id);
CREATE INDEX deliveries_of_account ON deliveries (account_id, created_at, event_id, webhook_id);
CREATE INDEX deliveries_of_webhook ON deliveries (webhook_id, created_at, event_id);
