-- A job's finished runs: what prune chooses from. Argument: job.
SELECT * FROM runs WHERE job = ?1 AND slot IS NOT NULL AND status IN ('success', 'failed', 'interrupted')
UNION ALL
SELECT * FROM runs WHERE job = ?1 AND demand IS NOT NULL AND status IN ('success', 'failed', 'interrupted')
