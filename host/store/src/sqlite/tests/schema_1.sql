-- What a host of schema 1 left behind: who the store is, and a job with a finished run, a live one and a line of log.
-- The live run's token is 16 times 7, and its lease ends in the year 2100.
INSERT INTO identity VALUES (1, '0123456789abcdef0123456789abcdef', zeroblob(32));

INSERT INTO jobs (id, tenant, name, revision, newest_started, newest_skipped, last_fence, since, fingerprint,
                  last_offered, largest_bound_ms)
VALUES (1, 'default', 'a', 4, 1700000060000, NULL, 1740800061440002, 1699999990000, 'x', 1699999990000, 310000);

INSERT INTO runs (id, job, slot, demand, status, due, lease_end, released, starts, hand_overs, ended_at)
VALUES (1, 1, 1700000000000, NULL, 'success', 1700000000000, 1700000030000, 0, 1, 0, 1700000005000),
       (2, 1, 1700000060000, NULL, 'running', 1700000060000, 4102444800000, 0, 1, 0, NULL);

INSERT INTO outcomes (run, output, cut) VALUES (1, x'7b7d', 0);

INSERT INTO attempts (run, attempt, token, fence, runner, lease_ms, max_attempts, overlap, catch_up_ms, max_late_ms,
                      history_size, digest, started_at, ended_at, ended, last_write)
VALUES (1, 1, zeroblob(16), 1740800000000001, 'host-1', 30000, 3, 'skip', 300000, 60000, 100, NULL, 1700000000000,
        1700000005000, 'success', 0),
       (2, 1, x'07070707070707070707070707070707', 1740800061440002, 'host-1', 30000, 3, 'skip', 300000, 60000, 100,
        NULL, 1700000060000, NULL, NULL, 3);

INSERT INTO logs VALUES (2, 1, 1, 1700000061000, 'info', 't', 'before', '[]');

-- "LHDB"
PRAGMA application_id = 1279804482;
PRAGMA user_version = 1;
