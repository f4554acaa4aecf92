-- A run's changed record. What names it, and when it was due, never changes.
UPDATE runs
SET status = :status, lease_end = :lease_end, released = :released, starts = :starts, hand_overs = :hand_overs,
    ended_at = :ended_at, progress_done = :progress_done, progress_total = :progress_total,
    progress_message = :progress_message, cancelled = :cancelled, state_size = :state_size, kept_size = :kept_size
WHERE id = :id
