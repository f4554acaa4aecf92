-- What the holder of a token may do besides heartbeats: finish and release. Everyone else is refused and changes
-- nothing (S11).
--
-- Arguments: the job, locked; the request; the time, read under the lock. Answers: "done" or "refused".

-- Records how the run ended.
CREATE OR REPLACE FUNCTION leasehold.finish(job leasehold.jobs, ask leasehold.request, at bigint)
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    run record;
    kept bigint := CASE WHEN ask.output_size > 0 THEN ask.output_size + 64 ELSE 0 END;
BEGIN
    SELECT r.status, r.released, r.token, r.outcome, r.attempt_end, r.state_size INTO run FROM leasehold.runs r
        WHERE r.job_id = job.id AND r.slot = ask.slot AND r.demand = ask.demand;
    -- S6: the current token of a running run, not released; one outcome per run, final.
    IF run.token = ask.token AND run.status = 'running' AND NOT run.released THEN
        UPDATE leasehold.runs r SET
            status = ask.status, ended_at = at, outcome = ask.outcome, state_size = NULL,
            kept_size = r.kept_size + kept, usage = ask.usage, attempt_ended_at = at, attempt_end = ask.attempt_end
        WHERE r.job_id = job.id AND r.slot = ask.slot AND r.demand = ask.demand;
        job.stored := job.stored + kept;
        IF run.state_size IS NOT NULL THEN
            -- S15: the checkpoint goes with the final status.
            DELETE FROM leasehold.states s
                WHERE s.job_id = job.id AND s.slot = ask.slot AND s.demand = ask.demand;
            job.stored := job.stored - run.state_size - 64;
        END IF;
        RETURN leasehold.said(job, ask.ordinal, at, true, '"done"');
    END IF;
    -- S13: the same outcome again by the attempt that said it. A run that the store gave up was not finished by its
    -- token.
    RETURN leasehold.said(job, ask.ordinal, at, false, CASE
        WHEN run.token = ask.token AND run.outcome = ask.outcome AND run.attempt_end = ask.attempt_end THEN '"done"'
        ELSE '"refused"'
    END);
END
$$;

-- Hands the run over: the lease ends at once, and the attempt does not count.
CREATE OR REPLACE FUNCTION leasehold.release(job leasehold.jobs, ask leasehold.request, at bigint)
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    run leasehold.runs;
BEGIN
    SELECT * INTO run FROM leasehold.runs r
        WHERE r.job_id = job.id AND r.slot = ask.slot AND r.demand = ask.demand;
    -- S13: one release, one hand-over, however often it is sent and whatever became of the run since. A run marked
    -- released by another one's win has not been handed over yet: its holder still may.
    IF run.token = ask.token AND run.attempt_end = 'handed-over'
        OR run.attempt > 1 AND EXISTS (
            SELECT FROM leasehold.attempts a
            WHERE a.job_id = job.id AND a.slot = ask.slot AND a.demand = ask.demand
                AND a.token = ask.token AND a.ended = 'handed-over')
    THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, '"done"');
    END IF;
    IF run.token IS DISTINCT FROM ask.token OR run.status <> 'running' THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, '"refused"');
    END IF;
    UPDATE leasehold.runs r SET
        released = true, lease_end = at, hand_overs = r.hand_overs + 1,
        usage = ask.usage, attempt_ended_at = at, attempt_end = 'handed-over'
    WHERE r.job_id = job.id AND r.slot = ask.slot AND r.demand = ask.demand;
    RETURN leasehold.said(job, ask.ordinal, at, true, '"done"');
END
$$;
