-- Forgets a pruned on-demand run for good. Arguments: job, its id.
DELETE FROM gone WHERE job = ?1 AND demand = ?2
