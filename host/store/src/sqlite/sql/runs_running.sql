-- A job's runs that may be live or expired: what a claim has to weigh (S2, S7, S8). Argument: job.
SELECT * FROM runs WHERE job = ?1 AND status = 'running'
