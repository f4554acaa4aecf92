-- Forgets hosts that were heard of last before this. Argument: the instant.
DELETE FROM hosts WHERE last_seen < ?1
