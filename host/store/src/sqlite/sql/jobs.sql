-- Jobs, ordered by key. Arguments: tenant and name of the last one that is known (empty: from the first), how many.
SELECT * FROM jobs WHERE (tenant, name) > (?1, ?2) ORDER BY tenant, name LIMIT ?3
