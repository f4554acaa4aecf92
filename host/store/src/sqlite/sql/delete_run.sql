-- Forgets a run and, by the foreign keys, all that lies beside it. Argument: run.
DELETE FROM runs WHERE id = ?1
