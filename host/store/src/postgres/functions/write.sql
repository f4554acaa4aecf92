-- write: one write of an attempt beside its run: a checkpoint, a value of the tenant's key-value space, log lines.
--
-- Argument: {"schema":…,"patience":…,"namespace":…,"tenant","name","slot","demand","token","number","lane","change",
-- "size","quota_value","quota_stored"}, besides "state" | "key","value" | "key" | "key","expected","value" | "lines":
-- "size" is what it brings without its key, bytes are in hexadecimal, a line is JSON text.
-- Answers: "done" "not-done" "too-large" "over-quota" "past" "refused".
--
-- One write a call: it locks the job and then the tenant, and a second job would be locked after the tenant.
CREATE OR REPLACE FUNCTION leasehold.write(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    number numeric := (doc->>'number')::numeric;
    is_log boolean := doc->>'lane' = 'log';
    job leasehold.jobs;
    run leasehold.runs;
    at bigint;
    last_number numeric;
    word text;
BEGIN
    PERFORM leasehold.guard(doc);
    job := leasehold.lock_job(doc->>'namespace', doc->>'tenant', doc->>'name', false);
    at := leasehold.clock();
    SELECT * INTO run FROM leasehold.runs r
        WHERE r.job_id = job.id AND r.slot = (doc->>'slot')::bigint AND r.demand = doc->>'demand';
    -- S11: only the holder writes.
    IF run.token IS DISTINCT FROM (doc->>'token')::uuid OR run.status <> 'running' OR run.released THEN
        RETURN NEXT leasehold.said(job, 0, at, false, '"refused"');
        RETURN;
    END IF;
    -- S13: the newest write sent again gets the first answer, an older copy changes nothing.
    last_number := CASE WHEN is_log THEN run.log_number ELSE run.write_number END;
    IF number <= last_number THEN
        word := CASE WHEN number < last_number THEN 'past' WHEN is_log THEN run.log_word ELSE run.write_word END;
        RETURN NEXT leasehold.said(job, 0, at, false, '"' || word || '"');
        RETURN;
    END IF;
    word := leasehold.judge(doc, job, run);
    -- A refusal for its size is remembered too: a copy must not be done after its sender was told so.
    IF is_log THEN
        UPDATE leasehold.runs r SET log_number = number, log_word = word
            WHERE r.job_id = run.job_id AND r.slot = run.slot AND r.demand = run.demand;
    ELSE
        UPDATE leasehold.runs r SET write_number = number, write_word = word
            WHERE r.job_id = run.job_id AND r.slot = run.slot AND r.demand = run.demand;
    END IF;
    IF word = 'done' THEN
        job.stored := job.stored + leasehold.write_out(doc, run);
    END IF;
    RETURN NEXT leasehold.said(job, 0, at, true, '"' || word || '"');
END
$$;

-- Decides about a write whose attempt holds its run. Locks the tenant, so that its quota is kept to the byte and a
-- comparison holds until its value is set.
CREATE OR REPLACE FUNCTION leasehold.judge(doc jsonb, job leasehold.jobs, run leasehold.runs) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    change text := doc->>'change';
    this_key bytea := decode(doc->>'key', 'hex');
    present bytea;
    growth bigint;
    stored bigint;
BEGIN
    IF (doc->>'size')::bigint > (doc->>'quota_value')::numeric OR octet_length(this_key) > 512 THEN
        RETURN 'too-large';
    END IF;
    PERFORM leasehold.lock_tenant(job.namespace, job.tenant);
    IF this_key IS NOT NULL THEN
        SELECT k.value INTO present FROM leasehold.kv k
            WHERE k.namespace = job.namespace AND k.tenant = job.tenant AND k.key = this_key;
    END IF;
    IF change = 'kv-delete' AND present IS NULL
        OR change = 'kv-compare-and-set' AND present IS DISTINCT FROM decode(doc->>'expected', 'hex')
    THEN
        RETURN 'not-done';
    END IF;
    growth := leasehold.growth(doc, octet_length(this_key), octet_length(present), run.state_size);
    -- What shrinks is always written, or a full tenant could not help itself.
    IF growth > 0 THEN
        SELECT t.kv_stored + (
            SELECT coalesce(sum(j.stored), 0) FROM leasehold.jobs j
            WHERE j.namespace = job.namespace AND j.tenant = job.tenant)
        INTO stored FROM leasehold.tenants t WHERE t.namespace = job.namespace AND t.tenant = job.tenant;
        IF stored + growth > (doc->>'quota_stored')::numeric THEN
            RETURN 'over-quota';
        END IF;
    END IF;
    RETURN 'done';
END
$$;

-- By how many bytes a write makes what the tenant stores grow; each stored thing counts 64 bytes besides its content.
-- Further arguments: the sizes of the key, of its present value and of the run's checkpoint, null where there is none.
CREATE OR REPLACE FUNCTION leasehold.growth(doc jsonb, key_size bigint, present bigint, state_size bigint)
RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE doc->>'change'
        WHEN 'save-state' THEN (doc->>'size')::bigint + 64 - coalesce(state_size + 64, 0)
        WHEN 'append-log' THEN (doc->>'size')::bigint + 64 * jsonb_array_length(doc->'lines')
        WHEN 'kv-delete' THEN - (key_size + present + 64)
        ELSE key_size + (doc->>'size')::bigint + 64 - coalesce(key_size + present + 64, 0)
    END
$$;

-- Locks the tenant's row, and makes it where it is missing.
CREATE OR REPLACE FUNCTION leasehold.lock_tenant(space text, of_tenant text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM FROM leasehold.tenants t WHERE t.namespace = space AND t.tenant = of_tenant FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO leasehold.tenants VALUES (space, of_tenant, 0) ON CONFLICT DO NOTHING;
        PERFORM FROM leasehold.tenants t WHERE t.namespace = space AND t.tenant = of_tenant FOR UPDATE;
    END IF;
END
$$;

-- Does what was decided, in this transaction. Answers by how many bytes what lies beside the job's runs has grown; the
-- key-value space is the tenant's and is counted there.
CREATE OR REPLACE FUNCTION leasehold.write_out(doc jsonb, run leasehold.runs) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    growth bigint;
BEGIN
    CASE doc->>'change'
        WHEN 'save-state' THEN
            growth := leasehold.growth(doc, NULL, NULL, run.state_size);
            INSERT INTO leasehold.states VALUES (run.job_id, run.slot, run.demand, decode(doc->>'state', 'hex'))
                ON CONFLICT (job_id, slot, demand) DO UPDATE SET state = excluded.state;
            UPDATE leasehold.runs r SET state_size = (doc->>'size')::bigint
                WHERE r.job_id = run.job_id AND r.slot = run.slot AND r.demand = run.demand;
        WHEN 'append-log' THEN
            growth := leasehold.growth(doc, NULL, NULL, NULL);
            INSERT INTO leasehold.logs
                SELECT run.job_id, run.slot, run.demand, last.sequence + l.nth, run.attempt, l.line
                FROM (
                    SELECT coalesce(max(g.sequence), 0) AS sequence FROM leasehold.logs g
                    WHERE g.job_id = run.job_id AND g.slot = run.slot AND g.demand = run.demand) last,
                    jsonb_array_elements_text(doc->'lines') WITH ORDINALITY AS l(line, nth);
            UPDATE leasehold.runs r SET kept_size = r.kept_size + growth
                WHERE r.job_id = run.job_id AND r.slot = run.slot AND r.demand = run.demand;
        ELSE
            PERFORM leasehold.kv_write(doc->>'namespace', doc->>'tenant', decode(doc->>'key', 'hex'),
                decode(doc->>'value', 'hex'));
            growth := 0;
    END CASE;
    RETURN growth;
END
$$;

-- Sets a value of the tenant, or deletes it where the new one is null, and counts its bytes. The tenant is locked.
CREATE OR REPLACE FUNCTION leasehold.kv_write(space text, of_tenant text, this_key bytea, new_value bytea)
RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    before bigint;
    after bigint := 0;
BEGIN
    SELECT octet_length(k.key) + octet_length(k.value) + 64 INTO before FROM leasehold.kv k
        WHERE k.namespace = space AND k.tenant = of_tenant AND k.key = this_key;
    IF new_value IS NULL THEN
        DELETE FROM leasehold.kv k WHERE k.namespace = space AND k.tenant = of_tenant AND k.key = this_key;
    ELSE
        INSERT INTO leasehold.kv VALUES (space, of_tenant, this_key, new_value)
            ON CONFLICT (namespace, tenant, key) DO UPDATE SET value = excluded.value;
        after := octet_length(this_key) + octet_length(new_value) + 64;
    END IF;
    UPDATE leasehold.tenants t SET kv_stored = t.kv_stored + after - coalesce(before, 0)
        WHERE t.namespace = space AND t.tenant = of_tenant;
END
$$;
