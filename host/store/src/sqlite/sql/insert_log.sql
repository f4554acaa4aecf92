-- One log line.
INSERT INTO logs (run, sequence, attempt, at, level, target, message, fields)
VALUES (:run, :sequence, :attempt, :at, :level, :target, :message, :fields)
