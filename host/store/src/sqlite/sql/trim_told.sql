-- Forgets the oldest answers of a job. Arguments: job, how many are kept.
DELETE FROM told
WHERE job = ?1 AND id <= (SELECT id FROM told WHERE job = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)
