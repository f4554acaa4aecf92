-- A tenant's jobs with unfinished runs, from a name on. Arguments: tenant, name.
SELECT * FROM jobs
WHERE tenant = ?1 AND name >= ?2
  AND EXISTS (SELECT 1 FROM runs WHERE job = jobs.id AND status IN ('pending', 'running'))
ORDER BY name
