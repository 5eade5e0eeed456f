-- Netlists of kept circuits as objects.

-- name of the object that holds the netlist; then text is empty. None: the netlist is in text
ALTER TABLE circuits ADD COLUMN blob TEXT;

CREATE INDEX circuits_with_blob ON circuits (blob) WHERE blob IS NOT NULL;
CREATE INDEX circuits_with_text ON circuits (account_id, name) WHERE blob IS NULL;
