-- One run of a job. Arguments: job, its slot or NULL, its on-demand id or NULL.
SELECT * FROM runs WHERE job = ?1 AND slot = ?2
UNION ALL
SELECT * FROM runs WHERE job = ?1 AND demand = ?3
