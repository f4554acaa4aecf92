-- A job's runs that may be live or expired: what a claim has to weigh (S2, S7, S8). Argument: job.
-- The first condition on the status is that of the index of unfinished runs, word for word, or SQLite would not take it.
SELECT * FROM runs WHERE job = ?1 AND status IN ('pending', 'running') AND status = 'running'
