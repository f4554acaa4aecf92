-- What happens around the runs: announcing a job, holding it back, asking for a run, forgetting old ones.
--
-- Arguments: the job, locked; the request; the time, read under the lock.

-- A host offers the job. Answers {since,newest_started,newest_skipped,hold}: slots before since are not caught up.
CREATE OR REPLACE FUNCTION leasehold.announce(job leasehold.jobs, ask leasehold.request, at bigint)
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    job := leasehold.known(job);
    IF job.since IS NULL OR job.fingerprint <> ask.fingerprint THEN
        job.since := at;
    END IF;
    job.fingerprint := ask.fingerprint;
    job.last_offered := at;
    RETURN leasehold.said(job, ask.ordinal, at, true, json_build_object(
        'since', job.since, 'newest_started', job.newest_started, 'newest_skipped', job.newest_skipped,
        'hold', job.hold)::text);
END
$$;

-- Holds the job back, or lets it go. Answers: null.
CREATE OR REPLACE FUNCTION leasehold.hold(job leasehold.jobs, ask leasehold.request, at bigint)
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF job.hold IS NOT DISTINCT FROM ask.hold THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, 'null');
    END IF;
    job := leasehold.known(job);
    job.hold := ask.hold;
    job.held_until := ask.held_until;
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

-- Deletes final runs that nobody can ask for any more, with all that lies beside them. Answers how many.
CREATE OR REPLACE FUNCTION leasehold.prune(job leasehold.jobs, ask leasehold.request, at bigint)
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    -- S15: a run stays while a claim for it could still be in time.
    before bigint := at - job.largest_bound - 10000;
    pruned bigint;
    freed bigint;
    forgotten bigint;
BEGIN
    WITH old AS (
        SELECT r.slot, r.demand, r.due, r.ended_at FROM leasehold.runs r
        WHERE r.job_id = job.id AND r.ended_at IS NOT NULL
        ORDER BY r.due DESC, r.slot, r.demand OFFSET ask.history_size
    ), doomed AS (
        DELETE FROM leasehold.runs r USING old o
        WHERE r.job_id = job.id AND r.slot = o.slot AND r.demand = o.demand
            AND o.due < before AND o.ended_at < before
            -- S10: after an unblock the record alone says that a slot above the newest started one has run.
            AND (o.demand <> '' OR coalesce(o.slot <= job.newest_started, false))
        RETURNING r.demand, r.kept_size
    ), remembered AS (
        INSERT INTO leasehold.gone SELECT job.id, d.demand, at FROM doomed d WHERE d.demand <> ''
    )
    SELECT count(*), coalesce(sum(d.kept_size), 0) INTO pruned, freed FROM doomed d;
    -- A pruned id is remembered for a day, so that a repeated trigger does not run twice.
    DELETE FROM leasehold.gone g WHERE g.job_id = job.id AND g.pruned_at < at - 86400000;
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    job.stored := job.stored - freed;
    RETURN leasehold.said(job, ask.ordinal, at, pruned > 0 OR forgotten > 0, pruned::text);
END
$$;
