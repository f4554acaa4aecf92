-- heartbeats: renews many leases in one call.
--
-- Argument: {"schema":…,"patience":…,"namespace":…,"wait":…,"requests":[{o,t,n,s,d,k,p}…]}: ordinal, tenant, name, slot,
-- demand, token, and progress as JSON text where there is a new report. A run stands in it once.
-- Answers: {"renewed":{"lease_end":…,"cancelled":…}} or "refused"; "locked" where another session holds the job and
-- "wait" is false: one job that is held up must not cost the others their leases.
--
-- Each step is one statement over all heartbeats, and hands arrays to the next: ten thousand must not take long.
CREATE OR REPLACE FUNCTION leasehold.heartbeats(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    -- What is asked of locked jobs, and the jobs with their revisions before.
    ordinals integer[];
    slots bigint[];
    demands text[];
    tokens uuid[];
    reports text[];
    jobs bigint[];
    revisions bigint[];
    -- What is renewed.
    renewed integer[];
    renewed_jobs bigint[];
    renewed_revisions bigint[];             -- of their jobs, before
    places tid[];
    leases bigint[];
    cancelled boolean[];
    at bigint;
    again record;
BEGIN
    PERFORM leasehold.guard(doc);
    SELECT l.ordinals, l.slots, l.demands, l.tokens, l.reports, l.jobs, l.revisions
    INTO ordinals, slots, demands, tokens, reports, jobs, revisions
    FROM leasehold.lock_beats(doc, (doc->>'wait')::boolean) l;
    -- Under the locks; and the next statement sees what was committed while the last one waited.
    at := leasehold.clock();
    -- S4: ok exactly when the token is current and the run is running and not released; S5: so a heartbeat sent before
    -- the release does not renew it. An expired run that nobody took over may be renewed. (OFFSET 0 keeps the search
    -- for one run what it is: one look into the index.)
    SELECT array_agg(b.ordinal), array_agg(b.job_id), array_agg(b.revision), array_agg(r.ctid), array_agg(r.lease),
        array_agg(r.is_cancelled)
    INTO renewed, renewed_jobs, renewed_revisions, places, leases, cancelled
    FROM unnest(ordinals, slots, demands, tokens, jobs, revisions)
        AS b(ordinal, slot, demand, token, job_id, revision)
    CROSS JOIN LATERAL (
        SELECT r.ctid, r.lease, r.cancelled IS NOT NULL AS is_cancelled FROM leasehold.runs r
        WHERE r.slot = b.slot AND r.demand = b.demand AND r.job_id = b.job_id
            AND r.token = b.token AND r.status = 'running' AND NOT r.released OFFSET 0) r;
    -- Under its job's lock a run stays where it was found.
    UPDATE leasehold.runs r SET lease_end = at + r.lease WHERE r.ctid = ANY (places);
    UPDATE leasehold.jobs j SET revision = j.revision + 1 WHERE j.id = ANY (renewed_jobs);
    FOR again IN
        SELECT n.job_id, count(*) - 1 AS changes FROM unnest(renewed_jobs) n(job_id) GROUP BY n.job_id
        HAVING count(*) > 1
    LOOP
        UPDATE leasehold.jobs j SET revision = j.revision + again.changes WHERE j.id = again.job_id;
    END LOOP;
    -- Reports are rare, so they have updates of their own.
    FOR again IN
        SELECT b.slot, b.demand, b.job_id, b.report
        FROM unnest(ordinals, slots, demands, reports, jobs) AS b(ordinal, slot, demand, report, job_id)
        WHERE b.report IS NOT NULL AND b.ordinal = ANY (renewed)
    LOOP
        UPDATE leasehold.runs r SET progress = again.report
            WHERE r.slot = again.slot AND r.demand = again.demand AND r.job_id = again.job_id;
    END LOOP;
    RETURN QUERY
    -- One revision a heartbeat, in the order given.
    SELECT n.ordinal, at, n.revision + row_number() OVER (PARTITION BY n.job_id ORDER BY n.ordinal),
        '{"renewed":{"lease_end":' || (at + n.lease) || ',"cancelled":' || n.is_cancelled || '}}'
    FROM unnest(renewed, renewed_jobs, renewed_revisions, leases, cancelled)
        AS n(ordinal, job_id, revision, lease, is_cancelled);
    IF coalesce(cardinality(renewed), 0) < jsonb_array_length(doc->'requests') THEN
        RETURN QUERY SELECT * FROM leasehold.other_beats(doc, at, ordinals, renewed);
    END IF;
END
$$;

-- The answers to heartbeats that were not renewed. Arguments: the document, the time, the ordinals of those whose job was
-- locked, and of those that were renewed.
CREATE OR REPLACE FUNCTION leasehold.other_beats(doc jsonb, at bigint, ordinals integer[], renewed integer[])
RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    -- Arrays have no index.
    PERFORM set_config('enable_hashjoin', 'on', true);
    RETURN QUERY
    SELECT b.o, at, coalesce(j.revision, 0),
        CASE WHEN j.revision IS NOT NULL AND l.ordinal IS NULL THEN '"locked"' ELSE '"refused"' END
    FROM jsonb_to_recordset(doc->'requests') AS b(o integer, t text, n text)
    LEFT JOIN unnest(ordinals) AS l(ordinal) ON l.ordinal = b.o
    LEFT JOIN LATERAL (
        SELECT j.revision FROM leasehold.jobs j
        WHERE j.namespace = doc->>'namespace' AND j.tenant = b.t AND j.name = b.n OFFSET 0) j ON true
    WHERE NOT EXISTS (SELECT FROM unnest(renewed) AS n(ordinal) WHERE n.ordinal = b.o);
END
$$;

-- Locks the jobs of heartbeats in the order of their keys, so that nobody waits crosswise, and answers what is asked of
-- those it has locked as arrays. Without waiting it leaves out the jobs that others hold.
CREATE OR REPLACE FUNCTION leasehold.lock_beats(
    doc jsonb, waits boolean,
    OUT ordinals integer[], OUT slots bigint[], OUT demands text[], OUT tokens uuid[], OUT reports text[],
    OUT jobs bigint[], OUT revisions bigint[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    space text := doc->>'namespace';
BEGIN
    IF waits THEN
        SELECT array_agg(b.o), array_agg(b.s), array_agg(b.d), array_agg(b.k), array_agg(b.p), array_agg(l.id),
            array_agg(l.revision)
        INTO ordinals, slots, demands, tokens, reports, jobs, revisions
        FROM (
            SELECT * FROM jsonb_to_recordset(doc->'requests') AS
                r(o integer, t text, n text, s bigint, d text, k uuid, p text)
            ORDER BY r.t COLLATE "C", r.n COLLATE "C") b
        CROSS JOIN LATERAL (
            SELECT j.id, j.revision FROM leasehold.jobs j
            WHERE j.namespace = space AND j.tenant = b.t AND j.name = b.n FOR UPDATE) l;
    ELSE
        SELECT array_agg(b.o), array_agg(b.s), array_agg(b.d), array_agg(b.k), array_agg(b.p), array_agg(l.id),
            array_agg(l.revision)
        INTO ordinals, slots, demands, tokens, reports, jobs, revisions
        FROM jsonb_to_recordset(doc->'requests') AS
            b(o integer, t text, n text, s bigint, d text, k uuid, p text)
        CROSS JOIN LATERAL (
            SELECT j.id, j.revision FROM leasehold.jobs j
            WHERE j.namespace = space AND j.tenant = b.t AND j.name = b.n FOR UPDATE SKIP LOCKED) l;
    END IF;
END
$$;
