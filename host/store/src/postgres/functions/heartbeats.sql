-- heartbeats: renews many leases in one statement.
--
-- Argument: {"schema":…,"patience":…,"namespace":…,"wait":…,"requests":[{o,t,n,s,d,k,p}…]}: ordinal, tenant, name, slot,
-- demand, token, and progress as JSON text where there is a new report. A run stands in it once.
-- Answers: {"renewed":{"lease_end":…,"cancelled":…}} or "refused"; "locked" where another session holds the job and
-- "wait" is false: one job that is held up must not cost the others their leases.
CREATE OR REPLACE FUNCTION leasehold.heartbeats(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    space text := doc->>'namespace';
    locked bigint[];
    at bigint;
BEGIN
    PERFORM leasehold.guard(doc);
    -- A statement of its own: the next one sees what was committed while this one waited.
    IF (doc->>'wait')::boolean THEN
        locked := ARRAY(
            SELECT j.id FROM leasehold.jobs j
            WHERE j.namespace = space AND (j.tenant, j.name) IN (
                SELECT b.t, b.n FROM jsonb_to_recordset(doc->'requests') AS b(t text, n text))
            ORDER BY j.tenant, j.name FOR UPDATE);
    ELSE
        locked := ARRAY(
            SELECT j.id FROM leasehold.jobs j
            WHERE j.namespace = space AND (j.tenant, j.name) IN (
                SELECT b.t, b.n FROM jsonb_to_recordset(doc->'requests') AS b(t text, n text))
            ORDER BY j.tenant, j.name FOR UPDATE SKIP LOCKED);
    END IF;
    at := leasehold.clock();
    RETURN QUERY
    WITH beat AS MATERIALIZED (
        SELECT b.o, b.s, b.d, b.k, b.p, j.id AS job_id, j.revision, l.id IS NOT NULL AS is_locked
        FROM jsonb_to_recordset(doc->'requests') AS b(o integer, t text, n text, s bigint, d text, k uuid, p text)
        LEFT JOIN leasehold.jobs j ON j.namespace = space AND j.tenant = b.t AND j.name = b.n
        LEFT JOIN unnest(locked) l(id) ON l.id = j.id
    ), renewed AS (
        -- S4: ok exactly when the token is current and the run is running and not released; S5: so a heartbeat sent
        -- before the release does not renew it. An expired run that nobody took over may be renewed.
        UPDATE leasehold.runs r SET lease_end = at + r.lease, progress = coalesce(b.p, r.progress)
        FROM beat b
        WHERE b.is_locked AND r.job_id = b.job_id AND r.slot = b.s AND r.demand = b.d
            AND r.token = b.k AND r.status = 'running' AND NOT r.released
        RETURNING b.o, r.job_id, r.lease_end, r.cancelled
    ), bumped AS (
        UPDATE leasehold.jobs j SET revision = j.revision + c.changes
        FROM (SELECT n.job_id, count(*) AS changes FROM renewed n GROUP BY n.job_id) c
        WHERE j.id = c.job_id
    )
    SELECT b.o, at,
        -- One revision a heartbeat, in the order given.
        coalesce(b.revision, 0) + count(n.o) OVER (PARTITION BY b.job_id ORDER BY b.o),
        CASE
            WHEN n.o IS NOT NULL THEN
                '{"renewed":{"lease_end":' || n.lease_end
                || ',"cancelled":' || CASE WHEN n.cancelled IS NULL THEN 'false' ELSE 'true' END || '}}'
            WHEN b.job_id IS NOT NULL AND NOT b.is_locked THEN '"locked"'
            ELSE '"refused"'
        END
    FROM beat b LEFT JOIN renewed n ON n.o = b.o;
END
$$;
