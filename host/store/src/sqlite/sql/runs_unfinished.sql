-- A job's unfinished runs in the order of their keys, scheduled ones first.
-- Arguments: job; the slot and the on-demand id after which to begin (at most one is set); how many.
SELECT * FROM runs
WHERE job = ?1 AND status IN ('pending', 'running')
  AND ((?2 IS NULL AND ?3 IS NULL)
       OR slot > ?2
       OR (slot IS NULL AND (?3 IS NULL OR demand > ?3)))
ORDER BY slot IS NULL, slot, demand
LIMIT ?4
