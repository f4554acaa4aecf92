-- What a tenant's values count. Argument: tenant.
SELECT size FROM kv_sizes WHERE tenant = ?1
