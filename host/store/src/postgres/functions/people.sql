-- What people look at: whole runs, jobs, what hosts were told, hosts. Arguments and answers as in read.sql.

-- All that is kept of a run, as JSON; texts that no rule looks into stay texts. In brief without what may be large: its
-- payload, its output and its older attempts.
CREATE OR REPLACE FUNCTION leasehold.whole_run(job leasehold.jobs, r leasehold.runs, brief boolean) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_build_object(
        'run', json_build_object('tenant', job.tenant, 'name', job.name, 'slot', r.slot, 'demand', r.demand),
        'status', r.status, 'due', r.due, 'lease_end', r.lease_end, 'released', r.released, 'starts', r.starts,
        'hand_overs', r.hand_overs, 'ended_at', r.ended_at, 'cancelled', r.cancelled, 'state_size', r.state_size,
        'kept_size', r.kept_size, 'progress', r.progress,
        'outcome', CASE WHEN brief AND r.status = 'success' THEN '{"success":{"output":"","cut":true}}' ELSE r.outcome END,
        'payload', CASE WHEN r.demand <> '' AND NOT brief THEN (
            SELECT encode(p.payload, 'hex') FROM leasehold.payloads p
            WHERE p.job_id = r.job_id AND p.slot = r.slot AND p.demand = r.demand) END,
        'current', CASE WHEN r.attempt > 0 THEN json_build_object(
            'attempt', r.attempt, 'token', r.token, 'fence', r.fence, 'meta', r.meta, 'started_at', r.started_at,
            'ended_at', r.attempt_ended_at, 'ended', r.attempt_end, 'usage', r.usage,
            'write_number', r.write_number, 'write_word', r.write_word,
            'log_number', r.log_number, 'log_word', r.log_word) END,
        'older', CASE WHEN r.attempt > 1 AND NOT brief THEN (
            SELECT json_agg(json_build_object(
                'attempt', a.attempt, 'token', a.token, 'fence', a.fence, 'meta', a.meta, 'started_at', a.started_at,
                'ended_at', a.ended_at, 'ended', a.ended, 'usage', a.usage,
                'write_number', a.write_number, 'write_word', a.write_word,
                'log_number', a.log_number, 'log_word', a.log_word) ORDER BY a.attempt)
            FROM leasehold.attempts a
            WHERE a.job_id = r.job_id AND a.slot = r.slot AND a.demand = r.demand) END)
$$;

-- "tenant","name","slot","demand". Answers the run, if there is one.
CREATE OR REPLACE FUNCTION leasehold.show(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    at bigint := leasehold.clock();
BEGIN
    PERFORM leasehold.guard(doc);
    RETURN NEXT ROW(0, at, 0, NULL)::leasehold.answer;
    RETURN QUERY
    SELECT 0, at, j.revision, leasehold.whole_run(j, r, false)::text
    FROM leasehold.jobs j JOIN leasehold.runs r ON r.job_id = j.id
    WHERE j.namespace = doc->>'namespace' AND j.tenant = doc->>'tenant' AND j.name = doc->>'name'
        AND r.slot = (doc->>'slot')::bigint AND r.demand = doc->>'demand';
END
$$;

-- Of a job's runs due within a span those due last: those that are unfinished, which are few, and the newest finished
-- ones from their index, so that a long history costs nothing. Arguments: the job, from which due time until which, the
-- status or null for any, how many.
CREATE OR REPLACE FUNCTION leasehold.newest_runs(
    job bigint, first_due bigint, last_due bigint, of_status text, top bigint
) RETURNS SETOF leasehold.runs
LANGUAGE sql STABLE AS $$
    SELECT * FROM (
        (SELECT * FROM leasehold.runs r
        WHERE r.job_id = job AND r.ended_at IS NULL AND r.due BETWEEN first_due AND last_due
            AND (of_status IS NULL OR r.status = of_status))
        UNION ALL
        (SELECT * FROM leasehold.runs r
        WHERE r.job_id = job AND r.ended_at IS NOT NULL AND r.due BETWEEN first_due AND last_due
            AND (of_status IS NULL OR r.status = of_status)
        ORDER BY r.due DESC, r.slot, r.demand LIMIT top)
    ) n ORDER BY n.due DESC, n.slot, n.demand LIMIT top
$$;

-- The same of all jobs of a namespace, and those due when the last of them is. Scheduled ones come from the primary
-- key, in which they stand by their slots, on-demand ones from their own index; those that are pending or running from
-- the index of what is open, since they are few among all. (OFFSET 0 has each run look its job up.) Further arguments:
-- as above.
CREATE OR REPLACE FUNCTION leasehold.newest_of_all(
    space text, first_due bigint, last_due bigint, of_status text, top bigint
) RETURNS SETOF leasehold.runs
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF of_status IN ('pending', 'running') THEN
        RETURN QUERY
        SELECT r.* FROM leasehold.jobs j JOIN leasehold.runs r ON r.job_id = j.id
        WHERE j.namespace = space AND r.ended_at IS NULL AND r.status = of_status
            AND r.due BETWEEN first_due AND last_due
        ORDER BY r.due DESC FETCH FIRST (top) ROWS WITH TIES;
        RETURN;
    END IF;
    RETURN QUERY
    (SELECT r.* FROM leasehold.runs r CROSS JOIN LATERAL (
        SELECT FROM leasehold.jobs j WHERE j.id = r.job_id AND j.namespace = space OFFSET 0) j
    WHERE r.slot BETWEEN first_due AND last_due AND r.slot < 9223372036854775807
        AND (of_status IS NULL OR r.status = of_status)
    ORDER BY r.slot DESC FETCH FIRST (top) ROWS WITH TIES)
    UNION ALL
    (SELECT r.* FROM leasehold.runs r CROSS JOIN LATERAL (
        SELECT FROM leasehold.jobs j WHERE j.id = r.job_id AND j.namespace = space OFFSET 0) j
    WHERE r.demand <> '' AND r.due BETWEEN first_due AND last_due AND (of_status IS NULL OR r.status = of_status)
    ORDER BY r.due DESC FETCH FIRST (top) ROWS WITH TIES);
END
$$;

-- "tenant","name" (null: all jobs), "status" (null: any), "since" (null: ever), "limit". Runs, newest first.
CREATE OR REPLACE FUNCTION leasehold.history(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    first_due bigint := coalesce((doc->>'since')::bigint, -9223372036854775808);
    last_due bigint;
    top bigint := (doc->>'limit')::bigint;
    found_runs bigint;
    at bigint := leasehold.clock();
BEGIN
    PERFORM leasehold.guard(doc);
    -- Planned for what is asked: people ask rarely, and for different things.
    PERFORM set_config('plan_cache_mode', 'force_custom_plan', true);
    RETURN NEXT ROW(0, at, 0, NULL)::leasehold.answer;
    -- The present, and behind it, where that is not enough, what a clock that was ahead has made.
    FOREACH last_due IN ARRAY ARRAY[leasehold.present(at), 9223372036854775807] LOOP
        IF doc->>'tenant' IS NULL THEN
            RETURN QUERY
            SELECT 0, at, j.revision, leasehold.whole_run(j, r, false)::text
            FROM leasehold.newest_of_all(doc->>'namespace', first_due, last_due, doc->>'status', top) r
            CROSS JOIN LATERAL (SELECT * FROM leasehold.jobs j WHERE j.id = r.job_id OFFSET 0) j
            ORDER BY r.due DESC, j.tenant, j.name, r.slot, r.demand LIMIT top;
        ELSE
            RETURN QUERY
            SELECT 0, at, j.revision, leasehold.whole_run(j, r, false)::text
            FROM leasehold.jobs j
            CROSS JOIN LATERAL leasehold.newest_runs(j.id, first_due, last_due, doc->>'status', top) r
            WHERE j.namespace = doc->>'namespace' AND j.tenant = doc->>'tenant' AND j.name = doc->>'name'
            ORDER BY r.due DESC, r.slot, r.demand;
        END IF;
        GET DIAGNOSTICS found_runs = ROW_COUNT;
        top := top - found_runs;
        EXIT WHEN top <= 0;
        first_due := greatest(first_due, leasehold.present(at) + 1);
    END LOOP;
END
$$;

-- A job with its newest run, in brief. Arguments: the job, the time.
CREATE OR REPLACE FUNCTION leasehold.whole_job(j leasehold.jobs, at bigint) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_build_object(
        'tenant', j.tenant, 'name', j.name, 'revision', j.revision, 'newest_started', j.newest_started,
        'newest_skipped', j.newest_skipped, 'since', j.since, 'fingerprint', j.fingerprint,
        'last_offered', j.last_offered, 'hold', j.hold, 'stored', j.stored,
        'unfinished', j.running + j.pending,
        -- One that a clock that was ahead has made only where there is no other.
        'last', coalesce((
            SELECT leasehold.whole_run(j, r, true)
            FROM leasehold.newest_runs(j.id, -9223372036854775808, leasehold.present(at), NULL, 1) r), (
            SELECT leasehold.whole_run(j, r, true)
            FROM leasehold.newest_runs(j.id, leasehold.present(at) + 1, 9223372036854775807, NULL, 1) r)))
$$;

-- "tenant","name" (after which; empty: from the first),"limit". Jobs, ordered by key.
CREATE OR REPLACE FUNCTION leasehold.list_jobs(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    at bigint := leasehold.clock();
BEGIN
    PERFORM leasehold.guard(doc);
    RETURN NEXT ROW(0, at, 0, NULL)::leasehold.answer;
    RETURN QUERY
    SELECT 0, at, j.revision, leasehold.whole_job(j, at)::text
    FROM (
        SELECT * FROM leasehold.jobs p
        WHERE p.namespace = doc->>'namespace' AND (p.tenant, p.name) > (doc->>'tenant', doc->>'name')
        ORDER BY p.tenant, p.name LIMIT (doc->>'limit')::bigint) j
    ORDER BY j.tenant, j.name;
END
$$;

-- "tenant","name". The job, if it is known.
CREATE OR REPLACE FUNCTION leasehold.show_job(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    at bigint := leasehold.clock();
BEGIN
    PERFORM leasehold.guard(doc);
    RETURN NEXT ROW(0, at, 0, NULL)::leasehold.answer;
    RETURN QUERY
    SELECT 0, at, j.revision, leasehold.whole_job(j, at)::text FROM leasehold.jobs j
    WHERE j.namespace = doc->>'namespace' AND j.tenant = doc->>'tenant' AND j.name = doc->>'name';
END
$$;

-- "kept", and "told":[{tenant,name,slot,demand,body}…], oldest first. Of each job the newest "kept" are kept; a job that
-- is unknown has nothing to explain. No answer.
CREATE OR REPLACE FUNCTION leasehold.keep_told(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM leasehold.guard(doc);
    INSERT INTO leasehold.told (job_id, slot, demand, body)
        SELECT j.id, t.slot, t.demand, t.body
        FROM ROWS FROM (jsonb_to_recordset(doc->'told') AS
                (tenant text, name text, slot bigint, demand text, body text))
            WITH ORDINALITY AS t(tenant, name, slot, demand, body, nth)
        JOIN leasehold.jobs j ON j.namespace = doc->>'namespace' AND j.tenant = t.tenant AND j.name = t.name
        ORDER BY t.nth;
    -- Several hosts trim the same job: in one order, and what another deletes already is left to it, so that they never
    -- wait for each other crosswise.
    DELETE FROM leasehold.told t WHERE (t.job_id, t.id) IN (
        SELECT o.job_id, o.id FROM (
            SELECT j.id AS job_id, (
                SELECT k.id FROM leasehold.told k WHERE k.job_id = j.id
                ORDER BY k.id DESC OFFSET (doc->>'kept')::bigint LIMIT 1) AS newest_dropped
            FROM (SELECT DISTINCT t.tenant, t.name
                FROM jsonb_to_recordset(doc->'told') AS t(tenant text, name text)) named
            JOIN leasehold.jobs j
                ON j.namespace = doc->>'namespace' AND j.tenant = named.tenant AND j.name = named.name) d
        JOIN leasehold.told o ON o.job_id = d.job_id AND o.id <= d.newest_dropped
        ORDER BY o.job_id, o.id FOR UPDATE OF o SKIP LOCKED);
END
$$;

-- "tenant","name","limit", and "slot","demand" (null: of all its runs). Answers bodies, newest first.
CREATE OR REPLACE FUNCTION leasehold.read_told(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM leasehold.guard(doc);
    RETURN QUERY
    SELECT 0, 0::bigint, 0::bigint, json_build_object('slot', t.slot, 'demand', t.demand, 'body', t.body)::text
    FROM leasehold.jobs j JOIN leasehold.told t ON t.job_id = j.id
    WHERE j.namespace = doc->>'namespace' AND j.tenant = doc->>'tenant' AND j.name = doc->>'name'
        AND (doc->>'slot' IS NULL OR t.slot = (doc->>'slot')::bigint AND t.demand = doc->>'demand')
    ORDER BY t.id DESC LIMIT (doc->>'limit')::bigint;
END
$$;

-- "name","instance" in hexadecimal, "report", and "kept": for how many ms a host that is not heard of is kept. A host
-- says that it is there. Answers whether it is to take nothing new.
CREATE OR REPLACE FUNCTION leasehold.report_host(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    at bigint := leasehold.clock();
BEGIN
    PERFORM leasehold.guard(doc);
    DELETE FROM leasehold.hosts h WHERE (h.namespace, h.name, h.instance) IN (
        SELECT o.namespace, o.name, o.instance FROM leasehold.hosts o
        WHERE o.namespace = doc->>'namespace' AND o.last_seen < at - (doc->>'kept')::bigint
        FOR UPDATE SKIP LOCKED);
    RETURN QUERY
    INSERT INTO leasehold.hosts AS h (namespace, name, instance, report, first_seen, last_seen)
        VALUES (doc->>'namespace', decode(doc->>'name', 'hex'), decode(doc->>'instance', 'hex'), doc->>'report', at, at)
        ON CONFLICT (namespace, name, instance) DO UPDATE SET report = excluded.report, last_seen = at
        RETURNING 0, at, 0::bigint, h.drain::text;
END
$$;

-- The hosts, by name and instance. Answers {report,first_seen,last_seen,drain}.
CREATE OR REPLACE FUNCTION leasehold.list_hosts(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    at bigint := leasehold.clock();
BEGIN
    PERFORM leasehold.guard(doc);
    RETURN NEXT ROW(0, at, 0, NULL)::leasehold.answer;
    RETURN QUERY
    SELECT 0, at, 0::bigint, json_build_object(
        'report', h.report, 'first_seen', h.first_seen, 'last_seen', h.last_seen, 'drain', h.drain)::text
    FROM leasehold.hosts h WHERE h.namespace = doc->>'namespace' ORDER BY h.name, h.instance;
END
$$;

-- "name","instance" in hexadecimal, "offers". Keeps what a host that was heard of offers. No answer.
CREATE OR REPLACE FUNCTION leasehold.keep_offers(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM leasehold.guard(doc);
    UPDATE leasehold.hosts h SET offers = doc->>'offers'
        WHERE h.namespace = doc->>'namespace' AND h.name = decode(doc->>'name', 'hex')
            AND h.instance = decode(doc->>'instance', 'hex');
END
$$;

-- "name","instance" in hexadecimal. What a host offers, where it has said so.
CREATE OR REPLACE FUNCTION leasehold.host_offers(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM leasehold.guard(doc);
    RETURN QUERY
    SELECT 0, 0::bigint, 0::bigint, h.offers FROM leasehold.hosts h
    WHERE h.namespace = doc->>'namespace' AND h.name = decode(doc->>'name', 'hex')
        AND h.instance = decode(doc->>'instance', 'hex') AND h.offers IS NOT NULL;
END
$$;

-- "name" in hexadecimal, "drain". Asks hosts of this name to take nothing new, or to go on. Answers how many are known.
CREATE OR REPLACE FUNCTION leasehold.drain(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found_hosts bigint;
BEGIN
    PERFORM leasehold.guard(doc);
    UPDATE leasehold.hosts h SET drain = (doc->>'drain')::boolean
        WHERE h.namespace = doc->>'namespace' AND h.name = decode(doc->>'name', 'hex');
    GET DIAGNOSTICS found_hosts = ROW_COUNT;
    RETURN NEXT ROW(0, 0, 0, found_hosts::text)::leasehold.answer;
END
$$;

-- "id","secret" (hexadecimal): who this store is to be if it is used for the first time. Answers {id,secret} as it is.
CREATE OR REPLACE FUNCTION leasehold.identity(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM leasehold.guard(doc);
    INSERT INTO leasehold.identities
        VALUES (doc->>'namespace', doc->>'id', decode(doc->>'secret', 'hex')) ON CONFLICT DO NOTHING;
    RETURN QUERY
    SELECT 0, 0::bigint, 0::bigint, json_build_object('id', i.id, 'secret', encode(i.secret, 'hex'))::text
    FROM leasehold.identities i WHERE i.namespace = doc->>'namespace';
END
$$;

-- "jobs":[text…]. Tells those who listen, after this transaction, which jobs were released or triggered. No answer.
CREATE OR REPLACE FUNCTION leasehold.wake(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM leasehold.guard(doc);
    PERFORM pg_notify('leasehold', json_build_object('namespace', doc->>'namespace', 'job', w.job)::text)
        FROM jsonb_array_elements_text(doc->'jobs') AS w(job);
END
$$;
