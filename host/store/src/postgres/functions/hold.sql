-- What the holder of a token may do besides heartbeats: finish and release. Everyone else is refused and changes
-- nothing (S11). Answers: "done" or "refused".

-- Records how the run ended. Arguments: the namespace and the request; it locks the job itself.
--
-- Nearly every finish is accepted, so the job is locked by the very change that an accepted one makes, and in the rare
-- other case the change is taken back before anyone can see it.
CREATE OR REPLACE FUNCTION leasehold.finish(space text, ask leasehold.request) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    answer leasehold.answer;
    job bigint;
    checkpoint bigint;
BEGIN
    UPDATE leasehold.jobs j SET
            revision = j.revision + 1, running = j.running - 1, stored = j.stored + ask.output_size
        WHERE j.namespace = space AND j.tenant = ask.tenant AND j.name = ask.name
        RETURNING j.id, ask.ordinal, j.revision, '"done"'
        INTO job, answer.ordinal, answer.revision, answer.answer;
    answer.at := leasehold.clock();
    -- S6: the current token of a running run, not released; one outcome per run, final.
    UPDATE leasehold.runs r SET
        status = ask.status, ended_at = answer.at, outcome = ask.outcome, kept_size = r.kept_size + ask.output_size,
        usage = ask.usage, attempt_ended_at = answer.at, attempt_end = ask.attempt_end
    WHERE r.job_id = job AND r.slot = ask.slot AND r.demand = ask.demand
        AND r.token = ask.token AND r.status = 'running' AND NOT r.released
    RETURNING coalesce(r.state_size, -1) INTO checkpoint;
    IF checkpoint = -1 THEN
        RETURN answer;
    END IF;
    IF checkpoint IS NULL THEN
        RETURN leasehold.unfinish(job, ask, answer);
    END IF;
    -- S15: the checkpoint goes with the final status.
    UPDATE leasehold.runs r SET state_size = NULL
        WHERE r.job_id = job AND r.slot = ask.slot AND r.demand = ask.demand;
    DELETE FROM leasehold.states s WHERE s.job_id = job AND s.slot = ask.slot AND s.demand = ask.demand;
    UPDATE leasehold.jobs j SET stored = j.stored - checkpoint - 64 WHERE j.id = job;
    RETURN answer;
END
$$;

-- Takes back what a finish has changed before it was found not to be the holder's; the job is null when it is unknown.
CREATE OR REPLACE FUNCTION leasehold.unfinish(job bigint, ask leasehold.request, answer leasehold.answer)
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE leasehold.jobs j SET
            revision = j.revision - 1, running = j.running + 1, stored = j.stored - ask.output_size
        WHERE j.id = job;
    answer.ordinal := ask.ordinal;
    answer.revision := coalesce(answer.revision - 1, 0);
    answer.answer := leasehold.finished_before(job, ask);
    RETURN answer;
END
$$;

-- S13: the same outcome again, by the attempt that said it, is answered as the first time. A run that the store gave up
-- was not finished by its token.
CREATE OR REPLACE FUNCTION leasehold.finished_before(job bigint, ask leasehold.request) RETURNS text
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN EXISTS (
        SELECT FROM leasehold.runs r
        WHERE r.job_id = job AND r.slot = ask.slot AND r.demand = ask.demand AND r.token = ask.token
            AND r.outcome = ask.outcome AND r.attempt_end = ask.attempt_end)
    THEN '"done"' ELSE '"refused"' END
$$;

-- Hands the run over: the lease ends at once, and the attempt does not count. Arguments: the job, locked; the request;
-- the time, read under the lock.
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
