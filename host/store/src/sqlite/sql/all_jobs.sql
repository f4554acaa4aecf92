-- All jobs, ordered by key.
SELECT * FROM jobs ORDER BY tenant, name
