-- What ends or frees from outside: cancel, close, unblock.
--
-- Arguments: the job, locked; the request; the time, read under the lock.

-- A run that nobody executes is interrupted at once; a live one's runner is told with its next heartbeat.
-- Answers: "none" {"ended":status} "interrupted" "told".
CREATE OR REPLACE FUNCTION leasehold.cancel(job leasehold.jobs, ask leasehold.request, at bigint)
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    run leasehold.runs;
BEGIN
    SELECT * INTO run FROM leasehold.runs r
        WHERE r.job_id = job.id AND r.slot = ask.slot AND r.demand = ask.demand;
    IF NOT FOUND THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, '"none"');
    END IF;
    IF run.ended_at IS NOT NULL THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, '{"ended":"' || run.status || '"}');
    END IF;
    IF run.status = 'pending' OR run.released OR at > run.lease_end THEN
        job.stored := job.stored - leasehold.interrupt(job.id, ask.slot, ask.demand, at, ask.reason);
        RETURN leasehold.said(job, ask.ordinal, at, true, '"interrupted"');
    END IF;
    -- The first reason stays.
    UPDATE leasehold.runs r SET cancelled = ask.reason
        WHERE r.job_id = job.id AND r.slot = ask.slot AND r.demand = ask.demand AND r.cancelled IS NULL;
    RETURN leasehold.said(job, ask.ordinal, at, run.cancelled IS NULL, '"told"');
END
$$;

-- Gives up an orphan: a run that nobody executes, of a job that no host has offered for long.
-- Answers: "none" {"ended":status} "live" "offered" "closed".
CREATE OR REPLACE FUNCTION leasehold.close(job leasehold.jobs, ask leasehold.request, at bigint)
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    run leasehold.runs;
BEGIN
    SELECT * INTO run FROM leasehold.runs r
        WHERE r.job_id = job.id AND r.slot = ask.slot AND r.demand = ask.demand;
    IF NOT FOUND THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, '"none"');
    END IF;
    IF run.ended_at IS NOT NULL THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, '{"ended":"' || run.status || '"}');
    END IF;
    IF run.status = 'running' AND NOT run.released AND at <= run.lease_end THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, '"live"');
    END IF;
    -- A job that no host ever offered counts from when the run was asked for.
    IF at - ask.unoffered_for <= coalesce(job.last_offered, run.due) THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, '"offered"');
    END IF;
    job.stored := job.stored - leasehold.interrupt(job.id, ask.slot, ask.demand, at, ask.reason);
    RETURN leasehold.said(job, ask.ordinal, at, true, '"closed"');
END
$$;

-- Frees a job whose slots are held up by one that started in what the store's clock, since corrected, calls the
-- future. The fence never falls (S8). Answers: {"live":run} "not-blocked" "unblocked".
CREATE OR REPLACE FUNCTION leasehold.unblock(job leasehold.jobs, ask leasehold.request, at bigint)
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    live bigint;
    future bigint;
    has_expired boolean := false;
    -- A caller whose clock is wrong must not block the job anew.
    newest_due bigint := least(ask.newest_due, at);
BEGIN
    SELECT max(r.slot) INTO live FROM leasehold.runs r
        WHERE r.job_id = job.id AND r.ended_at IS NULL AND r.status = 'running' AND r.demand = '' AND r.slot > at
            AND NOT r.released AND at <= r.lease_end;
    IF live IS NOT NULL THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, '{"live":' || live || '}');
    END IF;
    FOR future IN
        SELECT r.slot FROM leasehold.runs r
        WHERE r.job_id = job.id AND r.ended_at IS NULL AND r.status = 'running' AND r.demand = '' AND r.slot > at
    LOOP
        has_expired := true;
        job.stored := job.stored - leasehold.interrupt(
            job.id, future, '', at, '"its slot lay in the future, and the job was unblocked"');
    END LOOP;
    IF NOT has_expired AND NOT coalesce(job.newest_started > newest_due, false)
        AND NOT coalesce(job.newest_skipped > newest_due, false) AND coalesce(job.since <= at, true)
    THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, '"not-blocked"');
    END IF;
    -- What is null stays so.
    job.newest_started := CASE WHEN job.newest_started IS NOT NULL THEN least(job.newest_started, newest_due) END;
    job.newest_skipped := CASE WHEN job.newest_skipped IS NOT NULL THEN least(job.newest_skipped, newest_due) END;
    job.since := at;
    RETURN leasehold.said(job, ask.ordinal, at, true, '"unblocked"');
END
$$;
