-- A host is there. When it was heard of first, and what was asked of it, stays.
INSERT INTO hosts (name, instance, version, clock_offset_ms, details, first_seen, last_seen, drain)
VALUES (:name, :instance, :version, :clock_offset_ms, :details, :now, :now, 0)
ON CONFLICT (name, instance) DO UPDATE
SET version = excluded.version, clock_offset_ms = excluded.clock_offset_ms, details = excluded.details,
    last_seen = excluded.last_seen
RETURNING drain
