-- An attempt's first or changed record. What it was started with never changes.
INSERT INTO attempts (run, attempt, token, fence, runner, lease_ms, max_attempts, overlap, catch_up_ms, max_late_ms,
                      history_size, digest, started_at, ended_at, ended, last_log, last_log_answer, last_write,
                      last_write_answer, wall_ms, cpu_ms, peak_memory, host_calls, log_bytes)
VALUES (:run, :attempt, :token, :fence, :runner, :lease_ms, :max_attempts, :overlap, :catch_up_ms, :max_late_ms,
        :history_size, :digest, :started_at, :ended_at, :ended, :last_log, :last_log_answer, :last_write,
        :last_write_answer, :wall_ms, :cpu_ms, :peak_memory, :host_calls, :log_bytes)
ON CONFLICT (run, attempt) DO UPDATE
SET ended_at = excluded.ended_at, ended = excluded.ended, last_log = excluded.last_log,
    last_log_answer = excluded.last_log_answer, last_write = excluded.last_write,
    last_write_answer = excluded.last_write_answer, wall_ms = excluded.wall_ms, cpu_ms = excluded.cpu_ms,
    peak_memory = excluded.peak_memory, host_calls = excluded.host_calls, log_bytes = excluded.log_bytes
