-- Runs of all jobs, newest first. Arguments: status or NULL; earliest due time or NULL; how many.
SELECT jobs.tenant, jobs.name, jobs.newest_started, jobs.newest_skipped, runs.*
FROM runs JOIN jobs ON jobs.id = runs.job
WHERE (?1 IS NULL OR runs.status = ?1) AND (?2 IS NULL OR runs.due >= ?2)
ORDER BY runs.due DESC, jobs.tenant, jobs.name, runs.slot IS NULL, runs.slot, runs.demand
LIMIT ?3
