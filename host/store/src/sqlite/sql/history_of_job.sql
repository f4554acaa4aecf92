-- Runs of one job, newest first. Arguments: job; status or NULL; earliest due time or NULL; how many.
-- Scheduled runs and those on demand have an index each; the newest of all are among the newest of both. Of those due at
-- the same time the scheduled one comes first: NULL is the least.
SELECT * FROM (
    SELECT * FROM runs
    WHERE job = ?1 AND slot IS NOT NULL AND (?2 IS NULL OR status = ?2) AND slot >= ifnull(?3, slot)
    ORDER BY slot DESC
    LIMIT ?4
)
UNION ALL
SELECT * FROM (
    SELECT * FROM runs
    WHERE job = ?1 AND demand IS NOT NULL AND (?2 IS NULL OR status = ?2) AND due >= ifnull(?3, due)
    ORDER BY due DESC, demand
    LIMIT ?4
)
ORDER BY due DESC, slot DESC, demand
LIMIT ?4
