-- What decides nothing: where runs stand, and what lies beside them.
--
-- Argument: {"schema":…,"patience":…,"namespace":…} and what each function says. Answers: where the time matters, first
-- a row without an answer that carries it; then one row an item, in order. The clock is read before the data, so that
-- nothing looks more expired than it is.

-- Where one run stands, as JSON; its job's slots beside it. A null run: there is none.
CREATE OR REPLACE FUNCTION leasehold.standing(job leasehold.jobs, run leasehold.runs) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_build_object(
        'newest_started', job.newest_started, 'newest_skipped', job.newest_skipped,
        'standing', CASE WHEN run.job_id IS NOT NULL THEN json_build_object(
            'status', run.status, 'due', run.due, 'lease_end', run.lease_end, 'released', run.released,
            'attempt', run.attempt, 'lease', coalesce(run.lease, 0),
            'outcome', CASE WHEN run.status = 'interrupted' THEN run.outcome END) END)
$$;

-- "tenants":[…], "limit", and "after":{tenant,name,slot,demand} or null. Pending, running and expired runs ordered by
-- key. Answers {"run":{tenant,name,slot,demand},"at":standing}.
CREATE OR REPLACE FUNCTION leasehold.unfinished(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    tenants text[] := ARRAY(SELECT jsonb_array_elements_text(doc->'tenants'));
    after jsonb := doc->'after';
    at bigint := leasehold.clock();
BEGIN
    PERFORM leasehold.guard(doc);
    RETURN NEXT ROW(0, at, 0, NULL)::leasehold.answer;
    RETURN QUERY
    SELECT 0, at, j.revision, json_build_object(
        'run', json_build_object('tenant', j.tenant, 'name', j.name, 'slot', r.slot, 'demand', r.demand),
        'at', leasehold.standing(j, r))::text
    FROM leasehold.jobs j CROSS JOIN LATERAL (
        SELECT * FROM leasehold.runs r WHERE r.job_id = j.id AND r.ended_at IS NULL OFFSET 0) r
    WHERE j.namespace = doc->>'namespace' AND j.tenant = ANY (tenants) AND j.running + j.pending > 0
        AND (jsonb_typeof(after) = 'null' OR (j.tenant, j.name, r.slot, r.demand)
            > (after->>'tenant', after->>'name', (after->>'slot')::bigint, after->>'demand'))
    ORDER BY j.tenant, j.name, r.slot, r.demand
    LIMIT (doc->>'limit')::bigint;
END
$$;

-- "runs":[{tenant,name,slot,demand}…]. Answers a standing for each, with its ordinal.
CREATE OR REPLACE FUNCTION leasehold.check_runs(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    at bigint := leasehold.clock();
BEGIN
    PERFORM leasehold.guard(doc);
    RETURN NEXT ROW(0, at, 0, NULL)::leasehold.answer;
    RETURN QUERY
    SELECT k.nth::integer, at, 0::bigint, leasehold.standing(j, r)::text
    FROM ROWS FROM (jsonb_to_recordset(doc->'runs') AS (tenant text, name text, slot bigint, demand text))
        WITH ORDINALITY AS k(tenant, name, slot, demand, nth)
    LEFT JOIN leasehold.jobs j ON j.namespace = doc->>'namespace' AND j.tenant = k.tenant AND j.name = k.name
    LEFT JOIN leasehold.runs r ON r.job_id = j.id AND r.slot = k.slot AND r.demand = k.demand
    ORDER BY k.nth;
END
$$;

-- "tenant","name","slot","demand". Answers the checkpoint in hexadecimal, or no row.
CREATE OR REPLACE FUNCTION leasehold.load_state(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM leasehold.guard(doc);
    RETURN QUERY
    SELECT 0, 0::bigint, j.revision, encode(s.state, 'hex')
    FROM leasehold.jobs j JOIN leasehold.states s ON s.job_id = j.id
    WHERE j.namespace = doc->>'namespace' AND j.tenant = doc->>'tenant' AND j.name = doc->>'name'
        AND s.slot = (doc->>'slot')::bigint AND s.demand = doc->>'demand';
END
$$;

-- "tenant", and "key" in hexadecimal. Answers the value in hexadecimal, or no row.
CREATE OR REPLACE FUNCTION leasehold.kv_get(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM leasehold.guard(doc);
    RETURN QUERY
    SELECT 0, 0::bigint, 0::bigint, encode(k.value, 'hex') FROM leasehold.kv k
    WHERE k.namespace = doc->>'namespace' AND k.tenant = doc->>'tenant' AND k.key = decode(doc->>'key', 'hex');
END
$$;

-- "tenant", "limit", and in hexadecimal: "prefix", "after" or null, "until" or null (the first bytes behind all that
-- begin with the prefix). Answers keys in hexadecimal, in the order of their bytes. A range and no pattern: a prefix may
-- hold any character.
CREATE OR REPLACE FUNCTION leasehold.kv_list(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    prefix bytea := decode(doc->>'prefix', 'hex');
    after bytea := decode(doc->>'after', 'hex');
    until bytea := decode(doc->>'until', 'hex');
BEGIN
    PERFORM leasehold.guard(doc);
    RETURN QUERY
    SELECT 0, 0::bigint, 0::bigint, encode(k.key, 'hex') FROM leasehold.kv k
    WHERE k.namespace = doc->>'namespace' AND k.tenant = doc->>'tenant'
        AND k.key >= greatest(prefix, after) AND (after IS NULL OR k.key > after) AND (until IS NULL OR k.key < until)
    ORDER BY k.key
    LIMIT (doc->>'limit')::bigint;
END
$$;

-- "tenant","name","slot","demand","after","limit". Answers {sequence,attempt,line}, oldest first.
CREATE OR REPLACE FUNCTION leasehold.read_log(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM leasehold.guard(doc);
    RETURN QUERY
    SELECT 0, 0::bigint, 0::bigint,
        json_build_object('sequence', g.sequence, 'attempt', g.attempt, 'line', g.line)::text
    FROM leasehold.jobs j JOIN leasehold.logs g ON g.job_id = j.id
    WHERE j.namespace = doc->>'namespace' AND j.tenant = doc->>'tenant' AND j.name = doc->>'name'
        AND g.slot = (doc->>'slot')::bigint AND g.demand = doc->>'demand' AND g.sequence > (doc->>'after')::bigint
    ORDER BY g.sequence
    LIMIT (doc->>'limit')::bigint;
END
$$;

-- Answers only the time.
CREATE OR REPLACE FUNCTION leasehold.tell_time(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM leasehold.guard(doc);
    RETURN NEXT ROW(0, leasehold.clock(), 0, NULL)::leasehold.answer;
END
$$;
