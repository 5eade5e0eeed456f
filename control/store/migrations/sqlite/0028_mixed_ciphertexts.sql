-- Whether an operation may have put numbers behind the first slots, which a matrix product takes for zeros.
ALTER TABLE ciphertexts ADD COLUMN mixed INTEGER NOT NULL DEFAULT 0;
