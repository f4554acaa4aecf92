-- Whether this on-demand run was pruned. Arguments: job, its id.
SELECT demand, at FROM gone WHERE job = ?1 AND demand = ?2
