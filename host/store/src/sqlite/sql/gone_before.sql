-- The on-demand runs that were pruned before this instant. Arguments: job, instant.
SELECT demand, at FROM gone WHERE job = ?1 AND at < ?2
