-- What a claim and a finish are compared with: two transactions of one statement each.
\set k random(1, 9000000000000000000)
INSERT INTO yardstick VALUES (:k, 'claimed');
UPDATE yardstick SET v = 'finished' WHERE k = :k;
