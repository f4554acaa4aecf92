-- Hosts that start together prepare the schema one after the other. The lock ends with the transaction. Answers nothing.
SET LOCAL lock_timeout = '30s';
SET LOCAL statement_timeout = '60s';
SELECT pg_advisory_xact_lock(7812359140236);
