-- What an on-demand run works on. Arguments: run, payload.
INSERT INTO payloads (run, payload) VALUES (?1, ?2)
