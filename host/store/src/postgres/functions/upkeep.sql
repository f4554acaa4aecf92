-- What happens around the runs: announcing a job, holding it back, asking for a run, forgetting old ones.
--
-- Arguments: the job, locked; the request; the time, read under the lock.

-- A host offers the job. Answers {since,newest_started,newest_skipped,hold}: slots before since are not caught up.
CREATE OR REPLACE FUNCTION leasehold.announce(job leasehold.jobs, ask leasehold.request, at bigint)
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    job := leasehold.known(job);
    -- One in the future was set while the clock was ahead: until then nothing would be caught up.
    IF job.since IS NULL OR job.since > at OR job.fingerprint <> ask.fingerprint THEN
        job.since := at;
    END IF;
    job.fingerprint := ask.fingerprint;
    job.last_offered := at;
    -- It ended long ago (leasehold_lease::run::HOLD_KEPT), or a clock that was ahead has begun it.
    IF job.held_until < at - 86400000
        OR job.held_until IS NOT NULL AND (job.hold::jsonb->>'since')::bigint > leasehold.present(at)
    THEN
        job.hold := NULL;
        job.held_until := NULL;
    END IF;
    RETURN leasehold.said(job, ask.ordinal, at, true, json_build_object(
        'since', job.since, 'newest_started', job.newest_started, 'newest_skipped', job.newest_skipped,
        'hold', job.hold)::text);
END
$$;

-- Holds the job back, or lets it go: then the hold ends now, and is remembered, for its slots are not caught up. Answers:
-- null.
CREATE OR REPLACE FUNCTION leasehold.hold(job leasehold.jobs, ask leasehold.request, at bigint)
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF ask.hold IS NULL AND NOT leasehold.holds(job, at)
        OR coalesce(job.hold::jsonb = ask.hold::jsonb, false)
    THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, 'null');
    END IF;
    job := leasehold.known(job);
    job.held_until := CASE WHEN ask.hold IS NULL THEN at ELSE ask.held_until END;
    job.hold := coalesce(ask.hold, jsonb_set(job.hold::jsonb, '{until}', to_jsonb(at))::text);
    RETURN leasehold.said(job, ask.ordinal, at, true, 'null');
END
$$;

-- Stores an on-demand run. S13: a repeat is answered with what became of the first.
-- Answers: {"exists":status} "ended" "full" "stored".
CREATE OR REPLACE FUNCTION leasehold.trigger(job leasehold.jobs, ask leasehold.request, at bigint)
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    known_status text;
BEGIN
    SELECT r.status INTO known_status FROM leasehold.runs r
        WHERE r.job_id = job.id AND r.slot = ask.slot AND r.demand = ask.demand;
    IF FOUND THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, '{"exists":"' || known_status || '"}');
    END IF;
    IF EXISTS (SELECT FROM leasehold.gone g WHERE g.job_id = job.id AND g.demand = ask.demand) THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, '"ended"');
    END IF;
    IF job.pending >= ask.pending_max THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, '"full"');
    END IF;
    job := leasehold.known(job);
    INSERT INTO leasehold.runs (job_id, slot, demand, status, due)
        VALUES (job.id, ask.slot, ask.demand, 'pending', at);
    UPDATE leasehold.jobs j SET pending = j.pending + 1 WHERE j.id = job.id;
    IF ask.payload IS NOT NULL THEN
        INSERT INTO leasehold.payloads VALUES (job.id, ask.slot, ask.demand, decode(ask.payload, 'hex'));
    END IF;
    RETURN leasehold.said(job, ask.ordinal, at, true, '"stored"');
END
$$;

-- Deletes final runs that nobody can ask for any more, with all that lies beside them: no more of them, and no more of
-- that, than a call has time for. Answers {pruned,more}: how many, and whether to go on in a call of its own.
CREATE OR REPLACE FUNCTION leasehold.prune(job leasehold.jobs, ask leasehold.request, at bigint)
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    -- S15: a run stays while a claim for it could still be in time.
    before bigint := at - job.largest_bound - 10000;
    most constant bigint := 100;
    most_size constant bigint := 4194304;
    most_ids constant bigint := 1000;
    found_runs bigint;
    pruned bigint;
    freed bigint;
    forgotten bigint;
BEGIN
    WITH final AS (
        SELECT r.slot, r.demand, r.due, r.ended_at, r.kept_size FROM leasehold.runs r
        -- Those of a clock that was ahead stand behind all others, and are too young to go.
        WHERE r.job_id = job.id AND r.ended_at IS NOT NULL AND r.due <= leasehold.present(at)
        ORDER BY r.due DESC, r.slot, r.demand OFFSET ask.history_size
    ), old AS (
        SELECT f.slot, f.demand, f.kept_size FROM final f
        WHERE f.due < before AND f.ended_at < before
            -- S10: after an unblock the record alone says that a slot above the newest started one has run.
            AND (f.demand <> '' OR coalesce(f.slot <= job.newest_started, false))
        LIMIT most
    ), counted AS (
        SELECT o.slot, o.demand, sum(o.kept_size) OVER (ORDER BY o.slot, o.demand) - o.kept_size AS size_before
        FROM old o
    ), doomed AS (
        DELETE FROM leasehold.runs r USING counted c
        WHERE r.job_id = job.id AND r.slot = c.slot AND r.demand = c.demand AND c.size_before < most_size
        RETURNING r.demand, r.kept_size
    ), remembered AS (
        INSERT INTO leasehold.gone SELECT job.id, d.demand, at FROM doomed d WHERE d.demand <> ''
    )
    SELECT count(*), coalesce(sum(d.kept_size), 0), (SELECT count(*) FROM old) INTO pruned, freed, found_runs
    FROM doomed d;
    -- A pruned id is remembered for a day, so that a repeated trigger does not run twice.
    DELETE FROM leasehold.gone g WHERE g.job_id = job.id AND g.demand IN (
        SELECT o.demand FROM leasehold.gone o
        WHERE o.job_id = job.id AND o.pruned_at < at - 86400000 LIMIT most_ids);
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    job.stored := job.stored - freed;
    RETURN leasehold.said(job, ask.ordinal, at, pruned > 0 OR forgotten > 0, json_build_object(
        'pruned', pruned,
        'more', found_runs = most OR pruned < found_runs OR forgotten = most_ids)::text);
END
$$;
