-- What an on-demand run works on. Argument: run.
SELECT payload FROM payloads WHERE run = ?1
