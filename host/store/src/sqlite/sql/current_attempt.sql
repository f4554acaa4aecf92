-- The newest attempt of a run. Argument: run.
SELECT * FROM attempts WHERE run = ?1 ORDER BY attempt DESC LIMIT 1
