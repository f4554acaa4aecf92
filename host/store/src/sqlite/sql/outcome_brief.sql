-- How a run ended, its output left out. Argument: run.
SELECT x'' AS output, 1 AS cut, code, message, details, retryable, reason FROM outcomes WHERE run = ?1
