-- What lies beside the runs of a tenant's jobs, in bytes. Argument: tenant.
SELECT coalesce(sum(stored), 0) FROM jobs WHERE tenant = ?1
