-- S15: a run's checkpoint goes with its final status. Argument: run.
DELETE FROM states WHERE run = ?1
