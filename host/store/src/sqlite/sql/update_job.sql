-- A job's changed record.
UPDATE jobs
SET revision = :revision, newest_started = :newest_started, newest_skipped = :newest_skipped,
    last_fence = :last_fence, since = :since, fingerprint = :fingerprint, last_offered = :last_offered,
    largest_bound_ms = :largest_bound_ms, hold_since = :hold_since, hold_until = :hold_until, hold_note = :hold_note,
    stored = :stored
WHERE id = :id
