-- Who this store is, once and for ever. Arguments: id, secret.
INSERT INTO identity (one, id, secret) VALUES (1, ?1, ?2)
