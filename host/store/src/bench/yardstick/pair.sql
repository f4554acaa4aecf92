-- The yardstick of PostgreSQL: a transaction that inserts a row, and one that updates it.
--
-- Variables (pgbench): table, the table that create.sql has made.

\set id random(1, 4611686018427387904)
INSERT INTO :table (id, state, until) VALUES (:id, 'running', :id);
UPDATE :table SET state = 'success', until = 0 WHERE id = :id;
