-- Lockouts of two more kinds: a user, by a keyed digest of the e-mail, and sign-ups, by a keyed digest of the network.

ALTER TABLE lockouts DROP CONSTRAINT lockouts_kind_check;
ALTER TABLE lockouts ADD CONSTRAINT lockouts_kind_check CHECK (kind IN ('key', 'address', 'user', 'sign_up'));
