-- Keys for encrypted numbers that a fleet stores: workers read their rows from the bucket.

-- The random data key under which the rows are sealed, itself sealed under the fleet's key. Deleting the key deletes this
-- row, so the objects can then no longer be opened. Null: the rows are sealed under the account's key.
ALTER TABLE key_materials ADD COLUMN key_secret BLOB;
