-- All kept attempts of a run, oldest first. Argument: run.
SELECT * FROM attempts WHERE run = ?1 ORDER BY attempt
