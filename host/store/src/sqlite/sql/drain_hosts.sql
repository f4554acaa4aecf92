-- Asks hosts to drain, or to go on. Arguments: name, whether.
UPDATE hosts SET drain = ?2 WHERE name = ?1
