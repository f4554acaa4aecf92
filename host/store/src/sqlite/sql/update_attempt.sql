-- An attempt's changed record. What it was started with never changes.
UPDATE attempts
SET ended_at = :ended_at, ended = :ended, last_log = :last_log, last_log_answer = :last_log_answer,
    last_write = :last_write, last_write_answer = :last_write_answer, wall_ms = :wall_ms, cpu_ms = :cpu_ms,
    peak_memory = :peak_memory, host_calls = :host_calls, log_bytes = :log_bytes, http_sent = :http_sent,
    http_received = :http_received, fuel = :fuel
WHERE run = :run AND attempt = :attempt
