-- An attempt's first record.
INSERT INTO attempts (ended_at, ended, last_log, last_log_answer, last_write, last_write_answer, wall_ms, cpu_ms,
                      peak_memory, host_calls, log_bytes, http_sent, http_received, fuel, run, attempt, token, fence,
                      runner, lease_ms, max_attempts, overlap, catch_up_ms, max_late_ms, history_size, digest,
                      started_at)
VALUES (:ended_at, :ended, :last_log, :last_log_answer, :last_write, :last_write_answer, :wall_ms, :cpu_ms,
        :peak_memory, :host_calls, :log_bytes, :http_sent, :http_received, :fuel, :run, :attempt, :token, :fence,
        :runner, :lease_ms, :max_attempts, :overlap, :catch_up_ms, :max_late_ms, :history_size, :digest, :started_at)
