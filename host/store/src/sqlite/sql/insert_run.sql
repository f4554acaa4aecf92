-- A run's first record.
INSERT INTO runs (status, lease_end, released, starts, hand_overs, ended_at, progress_done, progress_total,
                  progress_message, cancelled, state_size, kept_size, job, slot, demand, due)
VALUES (:status, :lease_end, :released, :starts, :hand_overs, :ended_at, :progress_done, :progress_total,
        :progress_message, :cancelled, :state_size, :kept_size, :job, :slot, :demand, :due)
