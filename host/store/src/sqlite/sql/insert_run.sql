-- A run's first record.
INSERT INTO runs (job, slot, demand, status, due, lease_end, released, starts, hand_overs, ended_at, progress_done,
                  progress_total, progress_message, cancelled, state_size, kept_size)
VALUES (:job, :slot, :demand, :status, :due, :lease_end, :released, :starts, :hand_overs, :ended_at, :progress_done,
        :progress_total, :progress_message, :cancelled, :state_size, :kept_size)
