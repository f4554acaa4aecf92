-- A run's checkpoint. Arguments: run, data.
INSERT INTO states (run, data) VALUES (?1, ?2) ON CONFLICT (run) DO UPDATE SET data = excluded.data
