-- Schema 6: since when a job is held back.

ALTER TABLE jobs ADD COLUMN hold_since INTEGER;                        -- NULL with a note: an older version recorded it
