-- Why a run was given up. Argument: run.
SELECT reason FROM outcomes WHERE run = ?1
