-- Names of the fresh encryptions from which a ciphertext was computed, 4 bytes each. None: unknown.
ALTER TABLE ciphertexts ADD COLUMN sources BYTEA;
