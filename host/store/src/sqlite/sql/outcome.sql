-- How a run ended. Argument: run.
SELECT * FROM outcomes WHERE run = ?1
