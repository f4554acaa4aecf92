-- A value. Arguments: tenant, key.
SELECT value FROM kv WHERE tenant = ?1 AND key = ?2
