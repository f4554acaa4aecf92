-- Answers about a job or one of its runs, newest first.
-- Arguments: job; the run's slot and on-demand id (both NULL: all runs); how many.
SELECT * FROM told
WHERE job = ?1 AND ((?2 IS NULL AND ?3 IS NULL) OR slot = ?2 OR demand = ?3)
ORDER BY id DESC
LIMIT ?4
