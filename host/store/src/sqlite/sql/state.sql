-- A run's checkpoint. Argument: run.
SELECT data FROM states WHERE run = ?1
