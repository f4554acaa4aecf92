-- Schema 4: a job's newest run is listed in brief. The tables stay as they are; only functions are new, and one is gone.

DROP FUNCTION IF EXISTS leasehold.whole_run(leasehold.jobs, leasehold.runs);
