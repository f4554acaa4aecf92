-- Runs of one job, newest first. Arguments: job; status or NULL; earliest due time or NULL; how many.
SELECT * FROM runs
WHERE job = ?1 AND (?2 IS NULL OR status = ?2) AND (?3 IS NULL OR due >= ?3)
ORDER BY due DESC, slot IS NULL, slot, demand
LIMIT ?4
