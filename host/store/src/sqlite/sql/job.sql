-- One job by its key. Arguments: tenant, name.
SELECT * FROM jobs WHERE tenant = ?1 AND name = ?2
