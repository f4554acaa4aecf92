-- A run's log lines in order. Arguments: run, the sequence number after which to begin, how many.
SELECT * FROM logs WHERE run = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3
