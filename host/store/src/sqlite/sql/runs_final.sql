-- A job's finished runs: what prune chooses from. Argument: job.
SELECT * FROM runs WHERE job = ?1 AND status IN ('success', 'failed', 'interrupted')
