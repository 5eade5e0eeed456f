-- The lease on the claims of a node's process, by the database's clock. A claim whose generation is not its node's present
-- one, or whose lease is over, can be taken by another request with the same Idempotency-Key.

-- random: another for each process of the node, and for each lease after a lost one. Null: a node of the release before.
ALTER TABLE nodes ADD COLUMN generation INTEGER;
-- until when the generation's claims hold, in microseconds since 1970 by the database's clock
ALTER TABLE nodes ADD COLUMN alive_until INTEGER;
-- the generation that made the claim. Null: a claim of the release before, which holds until held_until
ALTER TABLE kept_answers ADD COLUMN generation INTEGER;
