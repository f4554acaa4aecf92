-- How a run ended; a second outcome breaks the primary key (S6).
INSERT INTO outcomes (run, output, cut, code, message, details, retryable, reason)
VALUES (:run, :output, :cut, :code, :message, :details, :retryable, :reason)
