-- The sequence number of a run's newest log line, 0 before the first. Argument: run.
SELECT coalesce(max(sequence), 0) FROM logs WHERE run = ?1
