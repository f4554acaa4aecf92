-- Forgets the oldest attempts of a run, all before the one named. Arguments: run, attempt.
DELETE FROM attempts WHERE run = ?1 AND attempt < ?2
