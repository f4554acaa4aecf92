-- Ten thousand jobs with a hundred finished runs each, the lanes of the measurement among them.
DO $$
BEGIN
    INSERT INTO leasehold.jobs
        (namespace, tenant, name, revision, highest_slot, running, last_fence, fingerprint, largest_bound,
        stored)
        SELECT 'leasehold', 'default', 'old-' || n, 200, 100, 0, 1, '""', 0, 0 FROM generate_series(1, 10000) n;
    INSERT INTO leasehold.runs
        (job_id, slot, demand, status, due, lease_end, starts, attempt, token, fence, lease, meta, started_at, ended_at,
        outcome, attempt_ended_at, attempt_end)
        SELECT j.id, n, '', 'success', n, n, 1, 1, gen_random_uuid(), n, 30000, '{}', n, n, '{}', n, 'success'
        FROM leasehold.jobs j, generate_series(1, 100) n;
END
$$;
