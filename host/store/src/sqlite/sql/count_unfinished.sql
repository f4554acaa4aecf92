-- How many runs of a job are unfinished. Argument: job.
SELECT count(*) FROM runs WHERE job = ?1 AND status IN ('pending', 'running')
