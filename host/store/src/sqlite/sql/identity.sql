-- Who this store is.
SELECT id, secret FROM identity
