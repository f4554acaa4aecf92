-- Runs of all jobs, the one due last in front. Arguments: status or NULL; earliest and latest due time; how many.
SELECT jobs.tenant, jobs.name, jobs.newest_started, jobs.newest_skipped, runs.*
FROM runs JOIN jobs ON jobs.id = runs.job
WHERE (?1 IS NULL OR runs.status = ?1) AND runs.due BETWEEN ?2 AND ?3
ORDER BY runs.due DESC, jobs.tenant, jobs.name, runs.slot IS NULL, runs.slot, runs.demand
LIMIT ?4
