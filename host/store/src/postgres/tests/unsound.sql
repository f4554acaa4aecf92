-- Names of jobs whose row does not count what their runs add up to.
SELECT j.tenant || '/' || j.name
FROM leasehold.jobs j CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE r.status = 'running') AS running,
        count(*) FILTER (WHERE r.status = 'pending') AS pending,
        coalesce(sum(r.kept_size + coalesce(r.state_size + 64, 0)), 0) AS stored,
        max(r.slot) FILTER (WHERE r.demand = '') AS highest_slot
    FROM leasehold.runs r WHERE r.job_id = j.id) r
WHERE j.running <> r.running OR j.pending <> r.pending OR j.stored <> r.stored OR j.highest_slot < r.highest_slot
