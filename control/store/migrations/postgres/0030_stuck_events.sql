-- Events of the payment provider that cannot be processed: stuck until the operator retries or drops them.

ALTER TABLE provider_events DROP CONSTRAINT provider_events_status_check;
ALTER TABLE provider_events ADD CONSTRAINT provider_events_status_check CHECK (status IN ('pending', 'done', 'stuck', 'dropped'));

CREATE INDEX provider_events_stuck ON provider_events (received_at, event_id) WHERE status = 'stuck';
