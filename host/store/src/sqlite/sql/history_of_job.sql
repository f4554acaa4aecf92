-- Runs of one job, the one due last in front. Arguments: job; status or NULL; earliest and latest due time; how many.
-- Scheduled runs and those on demand have an index each; the newest of all are among the newest of both. Of those due
-- at the same time the scheduled one comes first: NULL is the least.
SELECT * FROM (
    SELECT * FROM runs
    WHERE job = ?1 AND slot IS NOT NULL AND (?2 IS NULL OR status = ?2) AND slot BETWEEN ?3 AND ?4
    ORDER BY slot DESC
    LIMIT ?5
)
UNION ALL
SELECT * FROM (
    SELECT * FROM runs
    WHERE job = ?1 AND demand IS NOT NULL AND (?2 IS NULL OR status = ?2) AND due BETWEEN ?3 AND ?4
    ORDER BY due DESC, demand
    LIMIT ?5
)
ORDER BY due DESC, slot DESC, demand
LIMIT ?5
