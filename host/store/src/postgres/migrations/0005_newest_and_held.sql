-- Schema 5: what a clock that was ahead has made is not the newest, and slots that were held back are not caught up. The
-- tables stay as they are; only functions are new, and those that they replace are gone.

DROP FUNCTION IF EXISTS leasehold.newest_runs(bigint, bigint, text, bigint);
DROP FUNCTION IF EXISTS leasehold.newest_of_all(text, bigint, text, bigint);
DROP FUNCTION IF EXISTS leasehold.whole_job(leasehold.jobs);
