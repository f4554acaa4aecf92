-- Deletes a value. Arguments: tenant, key.
DELETE FROM kv WHERE tenant = ?1 AND key = ?2
