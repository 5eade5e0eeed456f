-- Seeds of masks, so that no seed is accepted with two contents. None: stored by an older release, or without a seed.
ALTER TABLE key_rows ADD COLUMN seed BYTEA;
ALTER TABLE key_materials ADD COLUMN public_key_seed BYTEA;
ALTER TABLE ciphertexts ADD COLUMN seed BYTEA;
-- SHA-256 of a ciphertext with a seed
ALTER TABLE ciphertexts ADD COLUMN sha256 BYTEA;

CREATE INDEX key_rows_of_seed ON key_rows (seed) WHERE seed IS NOT NULL;
CREATE INDEX key_materials_of_seed ON key_materials (public_key_seed) WHERE public_key_seed IS NOT NULL;
CREATE INDEX ciphertexts_of_seed ON ciphertexts (seed) WHERE seed IS NOT NULL;
